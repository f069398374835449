"""Revise: the problems of Arithmetic, several tries, and hints that say what they promise."""

from __future__ import annotations

import pytest

from envs.math.arithmetic import Arithmetic
from envs.math.revise import HINTS, Revise


def session(replies, *, index=0, **arguments):
    """The hints, the rewards and the last info of replies to a test task, in short style unless another is named."""
    env = Revise(**{"style": "short", **arguments})
    env.reset(seed=0, options={"split": "test", "index": index})
    hints, rewards, info = [], [], {}
    for reply in replies:
        messages, reward, terminated, truncated, info = env.step(str(reply))
        hints += [message["content"] for message in messages]
        rewards.append(reward)
        if terminated or truncated:
            break
    return hints, rewards, info


def value(index=0, **arguments) -> int:
    return int(Revise(**arguments).load("test")[index].answer)


@pytest.mark.parametrize("level", range(4))
def test_problems_and_splits_are_those_of_arithmetic(level):
    for split in ("train", "val", "test"):
        ours, theirs = Revise(level=level).load(split)[:50], Arithmetic(level=level).load(split)[:50]
        assert [(task.prompt, task.answer) for task in ours] == [(task.prompt, task.answer) for task in theirs]


def test_a_wrong_answer_is_called_low_or_high_until_the_value_is_named():
    right = value()
    hints, rewards, info = session([right - 5, right + 1, right])
    assert (hints, rewards) == (["low", "high"], [0.0, 0.0, 1.0])
    assert info["success"] and info["stop"] == "terminated"
    assert info["metrics"] == {"first": 0.0, "distance": 0.0}


def test_the_first_try_may_be_right():
    hints, rewards, info = session([value()])
    assert (hints, rewards, info["metrics"]["first"]) == ([], [1.0], 1.0)


def test_tries_run_out():
    hints, rewards, info = session([value() + 1] * 9, max_turns=4)
    assert (hints, rewards) == (["high"] * 4, [0.0] * 4)
    assert (info["stop"], info["success"]) == ("turn_limit", False)


def test_a_reply_without_an_integer_costs_a_try_and_tells_nothing():
    hints, _, info = session(["no idea", "1 or 2"])
    assert hints == ["?", "?"] and not info["valid"]


def test_digits_show_which_ones_are_right():
    index = next(i for i, task in enumerate(Revise().load("test")) if 99 < int(task.answer) < 199)
    right = value(index)
    tens = right // 10 % 10
    wrong = right + 10 * (1 if tens < 9 else -1)
    hints, _, _ = session([wrong, right % 10], index=index, hint="digits")
    assert hints == [f"1_{right % 10}", f"__{right % 10}"]


def test_a_negative_value_shows_its_sign_and_no_hint_says_all_digits():
    index = next(i for i, task in enumerate(Revise(level=2).load("test")) if int(task.answer) < -9)
    right = value(index, level=2)
    hints, _, _ = session([-right, 0], index=index, level=2, hint="digits")
    assert hints == ["wrong", "-__" if right % 10 else "-_0"]


def test_the_verdict_alone_says_no_more_than_wrong():
    assert session([value() + 1, value() - 1], hint="verdict")[0] == ["wrong", "wrong"]


def test_situations_are_equal_exactly_if_the_hints_leave_the_same():
    right = value()

    def state(*replies):
        env = Revise(max_turns=9)
        env.reset(options={"split": "test", "index": 0})
        for reply in replies:
            env.step(str(reply))
        return env.state()

    assert state(right - 3, right - 1) == state(right - 1, right - 3) == state(right - 1, right - 1)
    assert len({state(), state(right - 1), state(right + 1), state(right - 1, "x"), state(right - 2)}) == 5


@pytest.mark.parametrize("hint", HINTS)
def test_repeating_a_hint_earns_nothing(hint):
    env = Revise(hint=hint, max_turns=6)
    for index in range(20):
        env.reset(options={"split": "test", "index": index})
        reply, total = "9" * 15, 0.0
        for _ in range(6):
            messages, reward, terminated, *_ = env.step(reply)
            total += reward
            if terminated:
                break
            reply = messages[0]["content"]
        assert total == 0.0


@pytest.mark.parametrize(
    "wrong, name", [({"level": 4}, "level 4"), ({"hint": "all"}, "hint 'all'"), ({"max_turns": 0}, "not 0")]
)
def test_a_wrong_argument_is_named(wrong, name):
    with pytest.raises(ValueError, match=name):
        Revise(**wrong)


def test_hints_in_full_style_are_sentences():
    right = value()
    hints, _, _ = session([right - 1, "no number", right + 1], style="full")
    assert hints[0] == f"{right - 1} is too low. You have 2 replies left."
    assert hints[1].startswith("Your reply does not state exactly one whole number. Reply with the value")
    assert hints[1].endswith("You have 1 reply left.")
    assert hints[2] == (
        f"{right + 1} is too high. That was your last reply.\nThe episode is over: you have not succeeded."
    )
    shown = session([right + 1], style="full", hint="digits")[0][0]
    assert shown.startswith(f"{right + 1} is wrong. Its digits that are right: `")
