"""Variants of an environment: which task is played with which arguments, and that the environment is otherwise itself."""

from __future__ import annotations

import pytest

import envs
from agents.scripted import oracle
from envs.checks import check_env
from envs.episodes.variants import Variants
from envs.types import text

OVER = {"level": [0, 1, 2]}


def test_each_task_is_that_of_the_environment_with_its_set_of_arguments() -> None:
    env = Variants("math/Arithmetic-v0", over=OVER, style="short")
    plain = [envs.make("math/Arithmetic-v0", level=level, style="short").unwrapped for level in OVER["level"]]
    assert len(env.load("test")) == 3 * min(len(one.load("test")) for one in plain)
    for index in (0, 1, 2, 3, 10):
        messages, info = env.reset(seed=0, options={"split": "test", "index": index})
        inner = plain[index % 3]
        expected, _ = inner.reset(seed=0, options={"split": "test", "index": index // 3})
        assert messages == expected and info["answer"] == inner.task.answer
        assert env.task.metadata["arguments"] == {"level": index % 3}


def test_two_arguments_are_combined_and_the_ids_are_unique() -> None:
    env = Variants("tools/Clarify-v0", over={"missing": [1, 2], "fewest": [1]}, env_args={"max_turns": 4})
    assert env.sets == [{"missing": 1, "fewest": 1}, {"missing": 2, "fewest": 1}] and env.max_turns == 4
    tasks = env.load("test")
    assert len({tasks[i].id for i in range(len(tasks))}) == len(tasks)


def test_limits_of_the_inner_environment_truncate() -> None:
    env = Variants("games/GuessNumber-v0", over={"max_turns": [1, 3]})
    for index, turns in ((0, 1), (1, 3)):
        env.reset(seed=0, options={"split": "test", "index": index})
        steps = [env.step("no number") for _ in range(turns)]
        assert steps[-1][3] and steps[-1][4]["stop"] == "turn_limit" and not any(step[3] for step in steps[:-1])
        assert text(steps[-1][0][-1])


def test_an_oracle_solves_every_variant() -> None:
    env = envs.make("variants:tools/Clarify-v0", over={"missing": [2, 3]}, style="short").unwrapped
    for index in range(6):
        env.reset(seed=index, options={"split": "test", "index": index})
        for reply in oracle(env, 0):
            _, _, terminated, _, info = env.step(reply)
            if terminated:
                break
        assert info["success"]


def test_it_keeps_the_contract() -> None:
    results = check_env("variants:math/Arithmetic-v0", over=OVER)
    assert [result.name for result in results if result.faults] == []


@pytest.mark.parametrize(
    ("over", "message"),
    [
        (None, "over=None: variants need the values of at least one argument"),
        ({"level": 2}, "level=2 is no list of values"),
        ({"level": []}, r"level=\[\] is no list of values"),
        ({"level": [*range(101)]}, "over has 101 combinations; at most 100"),
    ],
)
def test_what_varies_is_named_with_its_values(over, message) -> None:
    with pytest.raises(ValueError, match=message):
        envs.make("variants:math/Arithmetic-v0", over=over)
