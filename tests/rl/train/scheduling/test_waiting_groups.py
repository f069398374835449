"""Groups that have ended and wait for an update: how many there are, and what a look at them costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rl.methods.parts import keep
from rl.schedule import Schedule, with_mode
from rl.train.progress import is_usable
from tests.rl.train.test_loop import Stage

REFUSED = {3, 5, 11, 12, 40}


class Counted(dict[int, Any]):
    """Groups that wait, and how many of them were looked at: one by one, or by going through all."""

    looks = 0

    def __contains__(self, number: object) -> bool:
        type(self).looks += 1
        return super().__contains__(number)

    def __iter__(self) -> Iterator[int]:
        type(self).looks += len(self)
        return super().__iter__()

    def get(self, number: int, default: Any = None) -> Any:
        type(self).looks += 1
        return super().get(number, default)

    def items(self) -> Any:
        type(self).looks += len(self)
        return super().items()

    def values(self) -> Any:
        type(self).looks += len(self)
        return super().values()


def stage_of(groups: int, *, in_turn: bool = False, **settings: Any) -> Stage:
    """A stage where groups end one by one, the last of each update takes long, and some give nothing to train on.

    With `in_turn` the groups of the oldest update end last, one after the other.
    """

    def delay(number: int) -> int:
        if in_turn:
            return 6 * groups + number % groups if number // groups % 5 == 0 else 1 + number % (5 * groups)
        return 75 * groups if number % groups == groups - 1 else 1 + number % (2 * groups)

    return Stage(
        rewards=lambda number: (1.0, 1.0) if number in REFUSED else (0.0, 1.0),
        delay=delay,
        changes={"keep": keep.varied},
        plan={"groups": groups, "schedule": Schedule(**with_mode(settings))},
    )


SETTINGS: list[dict[str, Any]] = [
    {"mode": "one-step-off"},
    {"lag": 4},
    {"mode": "async"},
    {"lag": 2, "order": "completion", "max_lag": 2, "stale": "requeue"},
    {"lag": 2, "order": "completion", "max_lag": 1, "stale": "drop"},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_number_of_usable_groups_is_what_counting_them_gives(settings: dict[str, Any]) -> None:
    stage = stage_of(4, **settings)
    progress, finish = stage.loop.progress, stage.loop.progress.finish_ticket
    seen = []

    def check(*args: Any) -> None:
        finish(*args)
        seen.append(progress.num_usable)
        assert progress.num_usable == sum(map(is_usable, progress.ended.values()))

    progress.finish_ticket = check  # type: ignore[method-assign]
    stage.run(20)
    assert progress.num_usable == sum(map(is_usable, progress.ended.values()))
    assert max(seen) >= 4
    state = progress.state_dict(stage.loop.runner, stage.loop.recipe)
    again = stage_of(4, **settings)
    again.loop.progress.load_state_dict(state, again.loop.runner, again.loop.recipe)
    assert again.loop.progress.num_usable == progress.num_usable
    again.run(25)


def test_groups_that_are_too_old_are_given_up_at_the_first_update_that_may_not_use_them() -> None:
    stage = stage_of(4, **SETTINGS[-1]).run(20)
    assert sum(line["groups/stale"] for line in stage.metrics) > 0
    assert max(line["lag/max"] for line in stage.metrics) <= 1


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_group_that_ends_does_not_cost_a_look_at_all_that_wait(settings: dict[str, Any], in_turn: bool) -> None:
    looks = {}
    for groups in (8, 64):
        stage = stage_of(groups, in_turn=in_turn, **settings)
        Counted.looks, stage.loop.progress.ended = 0, Counted()
        stage.run(8)
        looks[groups] = Counted.looks / (8 * groups)
    assert looks[64] < 2 * looks[8]
