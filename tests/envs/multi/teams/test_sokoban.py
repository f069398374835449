"""Sokoban for two: what each seat sees, what pushing and getting stuck earns."""

import pytest

from envs.multi.teams.sokoban import SokobanTeam
from envs.types import Task, text


def begin(*rows, **arguments):
    """An environment on a given map, before the planner's first reply."""

    class OneLevel(SokobanTeam):
        def tasks(self, split):
            return [Task(f"{split}/0", metadata={"map": "\n".join(rows)})]

    env = OneLevel(size=len(rows), **arguments)
    env.reset(seed=0)
    return env


def take(env, steps, plan="stay"):
    """Let the planner say `plan` and the executor take `steps`; return what they earn."""
    env.step(plan)
    env.step(steps)
    assert env.rewards["planner"] == env.rewards["executor"]
    return env.rewards["planner"]


@pytest.mark.parametrize("arguments", [{}, {"size": 5, "boxes": 2, "longest": 12}])
def test_two_oracles_solve_every_level_and_earn_one(arguments):
    env = SokobanTeam(**arguments)
    for index in range(0, len(env.load("test")), 5):
        env.reset(seed=0, options={"split": "test", "index": index})
        total = 0.0
        while env.to_move:
            seat = env.agent_selection
            assert (env._map() in text(env.observe(seat)[-1])) == (seat == "planner")
            env.step(env.oracle(seat))
            total += env.rewards["planner"]
        assert total == pytest.approx(1) and all(info["success"] for info in env.infos.values())


def test_the_executor_sees_what_is_next_to_it_and_whether_a_box_can_be_pushed():
    env = begin("....", ".PBB", ".#..", "..GG", boxes=2, style="short")
    env.step("rru")
    assert text(env.observe("executor")[0]) == "rru|.#.X"
    env = begin("....", ".PB.", "G.#.", "....", style="full")
    env.step("I see a goal.\n\nright")
    told = text(env.observe("executor")[0])
    assert told.endswith(
        "The planner sends these steps: right.\n"
        "Next to you: up free, down free, left free, right a box that can be pushed."
    )
    assert "I see" not in told


def test_a_push_towards_the_goal_earns_its_share_and_a_stuck_box_costs_all():
    env = begin("PB.G", "....", "....", "....")
    assert take(env, "right") == pytest.approx(0.5)
    assert take(env, "right") == pytest.approx(0.5) and env.infos["planner"]["success"]
    env = begin("P...", ".B.G", "....", "....")
    assert take(env, "right down") == -1  # one push down the side: it cannot come back
    assert take(env, "down") == 0 and not env.terminations["planner"]


def test_a_detour_costs_what_coming_back_earns_and_a_blocked_step_is_told():
    env = begin("P...", ".B.G", "....", "....")
    assert take(env, "right") + take(env, "left") == pytest.approx(0)
    assert take(env, "up right") == 0
    assert "The executor took 0 of 2 steps; the step up was blocked." in text(env.observe("planner")[0])


def test_junk_moves_nothing_and_is_named():
    env = begin("PB.G", "....", "....", "....")
    assert take(env, "right 2", plan="go there") == 0
    assert env.infos["planner"]["valid"] is False and env.infos["executor"]["valid"] is False
    told = text(env.observe("planner")[0])
    assert "The executor's reply named no steps." in told and "1 to 3" not in told
