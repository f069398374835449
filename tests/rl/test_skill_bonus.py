"""The skill-integrated reward: what storing and using a skill earns, and what it does not."""

from __future__ import annotations

import pytest

from envs.types import Stop, assistant
from rl.methods.parts import shape
from rl.records import Completion, Group, Ticket, Trajectory, Turn

NOTHING = Completion((), (), (), ())


def reply(skill: str = "", solved: float | None = None) -> Turn:
    turn = Turn((), NOTHING, reply={**assistant("x"), **({"skill": skill} if skill else {})})
    turn.metrics = {} if solved is None else {"task_solved": solved}
    return turn


def store(skill: str = "") -> Turn:
    turn = reply(skill)
    turn.internal, turn.role = True, "skill"
    return turn


@pytest.mark.parametrize(
    "turns, count",
    [
        ([reply(solved=1.0), store("a"), reply(solved=1.0)], 0),  # stored, not used
        ([reply(solved=1.0), store("a"), reply("a", solved=0.0)], 0),  # used, not solved
        ([reply(solved=1.0), store("a"), reply("a", solved=1.0)], 2),
        ([reply(solved=1.0), store("a"), reply("a"), reply("a"), reply(solved=1.0)], 2),  # once for each task
        ([reply(solved=1.0), store("a"), reply("a", solved=1.0), store(), reply("a", solved=1.0)], 3),
        ([reply(solved=1.0), store("a"), reply("a", solved=1.0), store("a"), reply("a", solved=1.0)], 4),
        ([reply(solved=1.0), store("a"), reply("a", solved=0.0), reply(solved=1.0)], 0),  # used in another task
        ([reply("a", solved=1.0), reply("b", solved=1.0)], 0),  # never stored
    ],
)
def test_the_bonus_is_for_skills_that_helped(turns: list[Turn], count: int) -> None:
    group = Group(Ticket(0, 0, "train", 0, 1, 0), [Trajectory(turns, Stop.TERMINATED)])
    assert shape.skill_bonus(group) == [0.5 * count]
    assert shape.skill_bonus(group, bonus=0.25) == [0.25 * count]
