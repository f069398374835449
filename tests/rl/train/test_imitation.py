"""Imitation ends when what is sampled suffices, and uses every oracle episode once before any is used again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from agents.chat import ChatAgent
from agents.render import Renderer
from envs.env import Env
from envs.types import Message, Outcome, Task, assistant, text, user
from rl.evaluate.runner import sampling_params, tickets
from rl.policy import tiny
from rl.policy.batching import BatchingEngine
from rl.policy.hf import HFPolicy
from rl.rollout.runner import Runner
from rl.train import validation
from rl.train.imitation import FIRST_MEASUREMENT, STEP_ROWS, Demonstrations, Measurement, batches, imitate, make_learner
from tests.support.runs import TASKS, flags, train


class Words(Env):
    """Wants the word of the prompt back, one of 300."""

    plays = 0

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"{split}/{i}", (user(f"w{i}"),), f"w{i}") for i in range(300)]

    def reply(self, action: Message) -> Outcome:
        is_right = text(action) == self.task.answer
        return Outcome(reward=float(is_right), terminated=True, success=is_right)

    def oracle(self) -> Iterator[Message]:
        Words.plays += 1
        yield assistant(self.task.answer)


@pytest.fixture
def renderer() -> Renderer:
    return Renderer(tiny.byte_tokenizer())


@pytest.fixture
def demonstrations(renderer: Renderer) -> Demonstrations:
    Words.plays = 0
    return Demonstrations(Words(), lambda: ChatAgent(renderer), renderer.write, 200, seed=0)


def small_model() -> Any:
    return tiny.create(1, hidden=32, layers=1, heads=1, intermediate=32)[0]


def test_oracle_episodes_are_played_when_they_are_needed(demonstrations: Demonstrations) -> None:
    assert (len(demonstrations), Words.plays) == (200, 0)
    assert len({episode.task for episode in demonstrations.first(5)}) == Words.plays == 5
    assert demonstrations[3] is demonstrations.first(9)[3] and Words.plays == 9
    assert len(demonstrations.first(1000)) == 200


def test_every_episode_is_imitated_once_before_any_is_again(demonstrations: Demonstrations) -> None:
    steps = list(islice(batches(demonstrations, seed=0), 12))
    assert all(len(batch) == STEP_ROWS for _, batch in steps)  # of few tokens
    numbers = [row.trajectory for _, batch in steps for row in batch]
    assert numbers[:200] == [*range(200)]
    assert sorted(numbers[200:400]) == sorted(numbers[400:600]) == [*range(200)]
    assert numbers[200:400] != numbers[400:600]
    assert [seen for seen, _ in steps[:4]] == [64, 128, 192, 200]


@pytest.mark.parametrize(
    ("success", "unequal", "valid", "is_enough"),
    [
        (0.05, 0.9, 1.0, False),  # too little success
        (0.3, 0.49, 1.0, False),  # in too few groups
        (0.3, 0.6, 0.7, False),  # too many replies are no moves
        (0.1, 0.5, 0.8, True),
        (0.5, 0.0, 0.8, True),  # groups are equal where they are solved
    ],
)
def test_every_number_must_suffice(success: float, unequal: float, valid: float, is_enough: bool) -> None:
    assert Measurement(success, unequal, valid).suffices(0.1) is is_enough


def imitate_until(
    demonstrations: Demonstrations, until: float | None, *measurements: Measurement, **levels: float
) -> tuple[Any, list[Any]]:
    """Imitate with a model that measures like this; return the result and what was reported."""
    reports: list[Any] = []
    learner, numbers = make_learner(small_model(), 4096, False), iter(measurements)
    result = imitate(
        learner,
        demonstrations,
        0,
        until=until,
        measure=lambda: next(numbers),
        report=lambda *report: reports.append(report),
        **levels,
    )
    return result, reports


def test_imitation_ends_with_the_first_measurement_that_suffices(demonstrations: Demonstrations) -> None:
    weak, good = Measurement(0.2, 0.3, 1.0), Measurement(0.2, 0.6, 1.0)
    result, reports = imitate_until(demonstrations, 0.1, weak, weak, good)
    assert [measurement for _, measurement in reports] == [weak, weak, good]
    assert [progress.steps for progress, _ in reports] == [FIRST_MEASUREMENT * n for n in (1, 2, 3)]
    assert result == reports[-1] and result[0].episodes == 200


def test_nothing_is_asked_of_imitation_until_0(demonstrations: Demonstrations) -> None:
    (progress, _), reports = imitate_until(demonstrations, 0.0, Measurement(0.0, 0.0, 0.0))
    assert progress.steps == FIRST_MEASUREMENT and len(reports) == 1


def test_without_a_success_to_reach_replies_must_be_moves_and_a_group_differ(demonstrations: Demonstrations) -> None:
    measurements = Measurement(0.0, 0.9, 0.7), Measurement(0.4, 0.0, 0.9), Measurement(0.35, 0.38, 0.9)
    (progress, _), reports = imitate_until(demonstrations, None, *measurements)
    assert progress.steps == 3 * FIRST_MEASUREMENT and len(reports) == 3


def test_as_many_replies_must_be_moves_as_are_asked_for(demonstrations: Demonstrations) -> None:
    measurements = Measurement(0.0, 0.9, 0.9), Measurement(0.0, 0.9, 0.97)
    (progress, _), reports = imitate_until(demonstrations, None, *measurements, least_valid=0.95)
    assert progress.steps == 2 * FIRST_MEASUREMENT and len(reports) == 2


def test_imitation_that_never_suffices_ends_at_its_bounds(
    demonstrations: Demonstrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rl.train.imitation.MAX_PASSES", 1)  # 200 episodes in steps of 64
    (progress, _), reports = imitate_until(demonstrations, 0.1, Measurement(0.0, 0.0, 0.0))
    assert (progress.steps, progress.episodes, len(reports)) == (4, 200, 1)
    monkeypatch.setattr("rl.train.imitation.MAX_TOKENS", 1)
    assert imitate_until(demonstrations, 0.1, Measurement(0.0, 0.0, 0.0))[0][0].steps == 1


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_a_model_that_cannot_play_yet_plays_one_member_of_each_group(reward: float, renderer: Renderer) -> None:
    class Always(Words):
        def reply(self, action: Message) -> Outcome:
            replies.append(text(action))
            return Outcome(reward=reward, terminated=True, success=bool(reward))

    replies: list[str] = []
    policy = HFPolicy(small_model())
    runner = Runner(Always, lambda: ChatAgent(renderer), policy, sampling_params(4, turn_tokens=2), 64)
    measurement = asyncio.run(validation.measure(runner, policy, tickets(300, 3, 4, 0, "val")))
    assert measurement == Measurement(reward, 0.0, 1.0)
    assert len(replies) == (12 if reward else 3)


def test_the_cold_start_is_judged_by_groups_sampled_as_in_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path / "cache"))
    temperatures: list[float] = []
    sample = BatchingEngine.sample

    async def recorded_sample(self: Any, prompt: Any, params: Any, **more: Any) -> Any:
        temperatures.append(params.temperature)
        return await sample(self, prompt, params, **more)

    monkeypatch.setattr(BatchingEngine, "sample", recorded_sample)
    settings = {"updates": 0, "eval_episodes": 0, "cold_start": 12, "cold_start_until": 0.1, "temperature": 0.7}
    result = train(*flags(f"{TASKS}:Low", size=5, **settings), "--out", str(tmp_path / "run"))
    assert result.code == 0, result.err
    assert "sampled success" in result.out and "unequal rewards in" in result.out
    assert set(temperatures) == {0.7}
