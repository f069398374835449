"""Records and other Python data survive JSON exactly."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from envs.types import Stop, assistant, user
from rl.records import Completion, Fork, Group, Ticket, Trajectory, Turn
from rl.rollout.record_codec import decode, encode


def again(value: Any) -> Any:
    return decode(json.loads(json.dumps(encode(value))))


def turn(reward: float = 0.1 + 0.2) -> Turn:
    completion = Completion((5, 9), (-0.1, -1e-300), (-0.1, -0.2), (3, 4), "length")
    made = Turn(
        (1, 2), completion, (user("?"),), assistant("\ud800 !"), reward, {"a": 1 / 3}, "lo=1", metrics={"m": 2.0}
    )
    made.streams["value"] = (0.1, 5e-324)
    return made


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 1, 2**70, -0.0, 0.1, math.inf, "", "\ud800", b"\0\xff", [], (), {}),
        *((1, (2.5, [3])), {1: "a", (2, "b"): {3}}, {"!": "tuple", "#": 1}, {"items": (1,)}, frozenset({1})),
        Stop.TERMINATED,
        Ticket(3, 1, "train", 2**60, 4, 1, 2),
        Completion((1,), (-0.5,), (-0.5,), (0,), counted=7),
        Group(Ticket(0, 0, "train", 0, 2), [], [Trajectory([], Stop.ERROR, error="E: x")]),
        Trajectory([turn(), turn(-1.0)], Stop.TERMINATED, True, "t/1", 3, 1, answer=("x", 1), fork=Fork(0, 1)),
    ],
    ids=repr,
)
def test_what_is_read_is_what_was_written(value: Any) -> None:
    result = again(value)
    assert result == value and type(result) is type(value)
    assert repr(result) == repr(value)  # the types of everything inside, and the sign of zero


def test_numbers_of_numpy_become_plain_ones() -> None:
    result = again({"a": np.float64(0.1), "b": np.int32(3), "c": np.bool_(True)})
    assert result == {"a": 0.1, "b": 3, "c": True}
    assert [type(value) for value in result.values()] == [float, int, bool]


def test_a_turn_that_two_members_share_stays_one_turn() -> None:
    shared = turn()
    one, two = again([Trajectory([shared, turn()], Stop.TERMINATED), Trajectory([shared], Stop.ERROR)])
    assert one.turns[0] is two.turns[0]
    assert one.turns[1] == one.turns[0] and one.turns[1] is not one.turns[0]


def test_what_cannot_be_stored_is_named_with_its_place() -> None:
    with pytest.raises(TypeError, match=r"^/open/7/answer: Fraction '1/3' cannot be stored$"):
        encode({"open": {7: Trajectory([], Stop.TERMINATED, answer=Fraction(1, 3))}})


@pytest.mark.parametrize(
    "data", [{"!": "os.system", "value": "true"}, {"!": "Ticket", "number": 1}, {"!": "same", "#": 5}]
)
def test_data_of_others_executes_nothing(data: Any) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        decode(data)
