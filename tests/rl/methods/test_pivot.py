"""One turn at a time, behind what an expert said."""

from __future__ import annotations

import pytest

from envs.env import Env
from envs.types import Stop, assistant, user
from rl.methods.parts import strategy
from rl.records import Trajectory
from tests.support.walk import Dark, Script, Walk, make_ticket, make_walk_runner, play_strategy, render


def pivots(*replies: str, number: int = 0, env: type[Env] = Walk) -> tuple[Trajectory, Script]:
    policy = Script(*replies)
    return play_strategy(strategy.pivot, make_walk_runner(env, policy), make_ticket(number)).trajectories[0], policy


def test_a_pivot_is_one_turn_behind_what_the_expert_said() -> None:
    histories = {
        render(user(f"go {n % 4}"), *(m for k in range(turn) for m in (assistant("east"), user(f"at {k + 1}")))): turn
        for n in range(12)
        for turn in range(3)
    }
    drawn = []
    for number in range(12):
        record, policy = pivots("to the east", number=number)
        assert (len(record.turns), record.reward, record.success) == (1, 1.0, True)
        assert record.turns[0].context == policy.prompts(f"{number}/0")[0]
        drawn.append(histories[record.turns[0].context])
    assert set(drawn) == {0, 1, 2}


@pytest.mark.parametrize("env", [Walk, Dark])
def test_another_move_at_a_pivot_earns_nothing(env: type[Env]) -> None:
    for number in range(6):
        record, _ = pivots("west", number=number, env=env)
        assert (record.reward, record.success, record.stop) == (0.0, False, Stop.TERMINATED)


def test_all_members_stand_at_the_same_pivot() -> None:
    group = play_strategy(strategy.pivot, make_walk_runner(Walk, Script("east")), make_ticket(5, size=4))
    assert len({member.turns[0].context for member in group.trajectories}) == 1
    assert len({member.turns[0].state for member in group.trajectories}) == 1
