"""Several environments behind one."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

import envs
from envs.env import Env
from envs.suite import Suite
from envs.types import text
from tests.support.environments import Echo


class Waits(Echo):
    blocking = True


def two() -> Suite:
    return Suite({"plain": Echo, "loud": partial(Echo, prefix="!")})


def test_a_split_names_the_member_and_the_task_carries_its_name() -> None:
    suite = two()
    (message,), info = suite.reset(seed=1, options={"split": "loud:test", "index": 2})
    assert (text(message), info["task"]) == ("!test lime", "loud:test/2")
    (message,), info = suite.reset(seed=1, options={"split": "plain:train", "index": 0})
    assert (text(message), info["task"]) == ("train pear", "plain:train/0")
    assert len(suite.load("loud:val")) == 3


def test_an_episode_is_the_members_own_to_the_last_word() -> None:
    suite, alone = two(), Echo(prefix="!")
    first = suite.reset(seed=4, options={"split": "loud:test", "index": 1})
    own = alone.reset(seed=4, options={"split": "test", "index": 1})
    assert first[0] == own[0] and first[1] | {"task": ""} == own[1] | {"task": ""}
    for reply in ("", "mulp", "mulp"):
        assert suite.step(reply) == alone.step(reply)
    with pytest.raises(ResetNeeded, match="plays no episode"):
        suite.step("mulp")


def test_the_members_oracle_floor_and_silence_are_the_suites() -> None:
    suite = two()
    suite.reset(seed=0, options={"split": "plain:test", "index": 0})
    assert text(next(suite.oracle())) == "raep"
    assert suite.noop() == Echo().noop()
    assert suite.random(np.random.default_rng(3)) == Echo().random(np.random.default_rng(3))


def test_a_member_without_a_name_keeps_its_own_names_beside_others() -> None:
    suite = Suite({"": two, "again": Echo})
    assert suite.reset(seed=0, options={"split": "loud:test", "index": 0})[1]["task"] == "loud:test/0"
    assert suite.reset(seed=0, options={"split": "again:test", "index": 0})[1]["task"] == "again:test/0"


def test_only_members_that_wait_are_waited_for_once_an_episode_runs() -> None:
    suite = Suite({"quick": Echo, "slow": Waits})
    assert suite.blocking  # a reset may be the slow one's
    suite.reset(seed=0, options={"split": "quick:test", "index": 0})
    assert not suite.blocking
    suite.reset(seed=0, options={"split": "slow:test", "index": 0})
    assert suite.blocking
    assert not two().blocking
    assert Suite({"quick": Echo}, blocking=True).blocking


def test_members_are_made_when_needed_and_all_of_them_closed() -> None:
    closed: list[str] = []

    class Told(Echo):
        def close(self) -> None:
            closed.append(self.prefix)

    suite = Suite({name: partial(Told, prefix=name) for name in "abc"}, blocking=False)
    for name in "ab":
        suite.reset(seed=0, options={"split": f"{name}:test", "index": 0})
    suite.close()
    suite.close()
    assert sorted(closed) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"split": "lout:test"}, "unknown member 'lout' in the suite; did you mean 'loud'"),
        ({"split": "loud:tset"}, "split 'tset' is not one of"),
        ({"index": 1}, "a suite needs options"),
        (None, "a suite needs options"),
    ],
)
def test_a_wrong_split_is_named(options: dict | None, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        two().reset(seed=0, options=options)
    with pytest.raises(ValueError, match="needs a member"):
        Suite({})


def test_registered_environments_can_be_members() -> None:
    suite = Suite({"sums": partial(envs.make, "math/Arithmetic-v0", level=0)})
    assert isinstance(suite.member("sums").unwrapped, Env)
    suite.reset(seed=0, options={"split": "sums:test", "index": 0})
    *_, info = suite.step(next(suite.oracle()))
    assert info["success"]
