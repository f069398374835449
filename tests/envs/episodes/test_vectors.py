"""Every environment plays in Gymnasium's vector environments, whose arrays of `info` take their type from the first one."""

from __future__ import annotations

import gymnasium as gym
import pytest

import envs
from envs.catalogue import entries
from envs.data import MissingData

IDS = [row.id for row in entries()]
ARRAYS = (bool, int, float)  # of an answer: Gymnasium makes an array of its type, and converts the others to it


@pytest.mark.parametrize("id", IDS)
def test_answers_of_all_tasks_fit_in_one_array(id: str) -> None:
    try:
        tasks = envs.make(id).unwrapped.load("test")  # type: ignore[attr-defined]
    except (MissingData, ImportError) as missing:
        pytest.skip(str(missing))
    kinds = {kind if (kind := type(tasks[i].answer)) in ARRAYS else object for i in range(min(len(tasks), 50))}
    assert len(kinds) == 1


@pytest.mark.parametrize("id", ["tools/Plans-v0", "math/Arithmetic-v0", "multi/Kuhn-v0", "web/Wiki-v0"])
def test_a_vector_of_an_id_plays_on_after_an_episode(id: str) -> None:
    vector = gym.make_vec(id, num_envs=2, vectorization_mode="sync", max_episode_steps=2)
    observations, infos = vector.reset(seed=1)
    assert vector.observation_space.contains(observations)
    assert len(infos["answer"]) == 2
    endings = 0
    for _ in range(6):
        observations, _, terminated, truncated, _ = vector.step(("nonsense", "more nonsense"))
        assert vector.observation_space.contains(observations)
        endings += int((terminated | truncated).sum())
    vector.close()
    assert endings >= 4
