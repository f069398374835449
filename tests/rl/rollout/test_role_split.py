"""Episodes taken apart by role: prompts stay the same, rewards go where they were earned, calls are found."""

from __future__ import annotations

import pytest

from envs.types import Stop, assistant, text, user
from rl.records import Completion, Trajectory, Turn
from rl.rollout.role_split import calls_of, copy_of, roles_of, take_turns


def turn(
    context: tuple[int, ...], ids: tuple[int, ...], role: str, reward: float = 0.0, *, fresh: bool = False
) -> Turn:
    logprobs = (-1.0,) * len(ids)
    completion = Completion(ids, logprobs, logprobs, (0,) * len(ids))
    messages, reply = (user(f"read {context}"),), assistant(f"say {ids}")
    return Turn(context, completion, messages, reply, reward, {"all": reward}, role=role, fresh=fresh, internal=True)


def prompts(trajectory: Trajectory) -> list[tuple[list[int], tuple[int, ...]]]:
    """What stood before each reply, and the reply."""
    result: list[tuple[list[int], tuple[int, ...]]] = []
    history: list[int] = []
    for played in trajectory.turns:
        history = [*([] if played.fresh else history), *played.context]
        result.append(([*history], played.completion.ids))
        history += played.completion.ids
    return result


TURNS = [
    turn((1, 2), (3,), "plan"),
    turn((4,), (5, 6), "do", 0.5),
    turn((7,), (8,), "plan", 0.25),
    turn((9, 9, 9), (10,), "do", fresh=True),  # the history begins anew
    turn((11,), (12,), "do", 2.0),
    turn((13,), (14,), "plan", 4.0),
]


def episode() -> Trajectory:
    return Trajectory([*TURNS], Stop.TERMINATED, success=True, member=3, final=(user("over"),))


def test_every_reply_keeps_its_prompt_whoever_spoke_in_between() -> None:
    whole, roles = prompts(episode()), roles_of(episode())
    assert roles == {"plan": [0, 2, 5], "do": [1, 3, 4]}
    for name, indices in roles.items():
        part = take_turns(episode(), indices, name)
        assert prompts(part) == [whole[index] for index in indices]
        assert [played.step for played in part.turns] == indices
        assert (part.agent, part.success, part.stop, part.member) == (name, True, Stop.TERMINATED, 3)
        assert [played.completion for played in part.turns] == [TURNS[index].completion for index in indices]
    assert [played.fresh for played in take_turns(episode(), [0, 2, 5], "plan").turns] == [False, False, True]
    assert [played.fresh for played in take_turns(episode(), [1, 3, 4], "do").turns] == [False, True, False]


def test_a_turn_earns_what_is_paid_until_the_next_one_of_its_role() -> None:
    plan, do = (take_turns(episode(), roles_of(episode())[name], name) for name in ("plan", "do"))
    assert [played.reward for played in plan.turns] == [0.5, 2.25, 4.0]
    assert [played.reward for played in do.turns] == [0.75, 0.0, 6.0]
    assert [played.rewards["all"] for played in do.turns] == [0.75, 0.0, 6.0]
    assert plan.reward == episode().reward  # it spoke first
    assert (plan.final, do.final) == ((user("over"),), ())
    assert [played.reward for played in episode().turns] == [0.0, 0.5, 0.25, 0.0, 2.0, 4.0]  # as they were


def test_what_others_said_stands_in_what_a_role_has_read() -> None:
    read = [text(message) for message in take_turns(episode(), [0, 2, 5], "plan").turns[1].observation]
    assert read == ["read (4,)", "say (5, 6)", "read (7,)"]
    read = [text(message) for message in take_turns(episode(), [0, 2, 5], "plan").turns[2].observation]
    assert read[0] == "read (9, 9, 9)"  # since the history began anew


def test_calls_are_unbroken_runs_of_another_role() -> None:
    assert calls_of(episode(), "plan") == {"do": [[1], [3, 4]]}
    assert calls_of(episode(), "do") == {"plan": [[0], [2], [5]]}
    report = take_turns(episode(), [3, 4], "do")
    assert report.reward == 6.0 and prompts(report) == prompts(episode())[3:5]


def test_a_reply_without_a_role_is_the_agents_and_a_seat_stands_before_a_role() -> None:
    seat = Trajectory([turn((1,), (2,), ""), turn((3,), (4,), "summary")], Stop.TERMINATED, agent="player_1")
    assert roles_of(seat) == {"player_1": [0], "player_1.summary": [1]}
    assert roles_of(Trajectory([turn((1,), (2,), "")], Stop.TERMINATED)) == {"agent": [0]}


def test_a_copy_is_replayed_and_shares_no_stream() -> None:
    original = take_turns(episode(), [1, 3, 4], "do")
    copy = copy_of(original)
    original.turns[0].streams["advantage"] = (1.0, 1.0)
    assert copy.replayed and not original.replayed and copy.turns[0].streams == {}
    assert (copy.num_new_sampled, original.num_new_sampled) == (0, 4)


@pytest.mark.parametrize("name", ["plan", "do"])
def test_the_tokens_of_a_part_are_those_of_the_episode(name: str) -> None:
    whole = [*episode().sequences()]
    parts = [*take_turns(episode(), roles_of(episode())[name], name).sequences()]
    for part, history in zip(parts, whole, strict=True):
        assert part.ids == history.ids[: len(part.ids)]
