"""What a run says of shared states, luck and information, on groups small enough to work it out by hand."""

from __future__ import annotations

import pytest

from envs.types import Stop
from rl.records import Completion, Group, Trajectory, Turn
from rl.train.credit.metrics import credit_metrics
from tests.support.batches import make_group


def episode(*turns: tuple[str, int, float]) -> Trajectory:
    """Turns as state, the one token replied, and reward."""
    return Trajectory(
        [
            Turn((9,), Completion((reply,), (0.0,), (0.0,), (0,)), reward=reward, state=state)
            for state, reply, reward in turns
        ],
        Stop.TERMINATED,
    )


def shared_start() -> Group:
    """All begin in S; reply 1 leads to A, where one of two wins; reply 2 leads to B, which is lost."""
    return make_group(
        episode(("S", 1, 0.0), ("A", 1, 1.0)),
        episode(("S", 1, 0.0), ("A", 2, 0.0)),
        episode(("S", 2, 0.0), ("B", 1, 0.0)),
    )


def test_shared_states_what_they_settle_and_luck_after_the_turn() -> None:
    metrics = credit_metrics([shared_start()])
    assert metrics["states/shared"] == pytest.approx(5 / 6)
    assert metrics["states/others"] == pytest.approx((2 * 3 + 1 * 2) / 6)
    # Returns 1, 0, 0 against the others' mean 0, 1/2, 1/2; in S so too, in A only against each other: 0 and 1.
    around = (2 * (1 + 1 / 4) + 1 / 4) / 5
    within = (2 / 3 * (1 + 1 / 4 + 1 / 4) + 1 / 2 * (1 + 1)) / 5
    assert metrics["states/explained"] == pytest.approx(1 - within / around)
    assert metrics["states/luck"] == pytest.approx((1 / 2 * (1 + 1) / 2) / around)  # the two who replied 1 in S
    assert "turns/gain" not in metrics


def test_there_are_no_states_to_speak_of_with_one_turn_or_without_states() -> None:
    assert credit_metrics([make_group(episode(("S", 1, 1.0)), episode(("S", 2, 0.0)))]) == {}
    assert credit_metrics([make_group(episode(("S", 1, 1.0), ("", 1, 0.0)), episode(("S", 2, 0.0)))]) == {}
    equal = make_group(episode(("S", 1, 0.0), ("A", 1, 1.0)), episode(("S", 1, 0.0), ("A", 2, 1.0)))
    assert set(credit_metrics([equal])) == {"states/shared", "states/others"}


def test_information_that_turns_gave_is_averaged_where_there_is_any() -> None:
    group = shared_start()
    group.trajectories[0].turns[0].streams["gain"] = (0.2, 0.2)
    group.trajectories[0].turns[1].metrics = {"gain": 0.0}
    assert credit_metrics([group])["turns/gain"] == pytest.approx(0.2)
