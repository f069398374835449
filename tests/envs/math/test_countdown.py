"""Countdown: every target can be reached, expressions are worked out exactly, numbers are counted."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from envs.grading.expression import evaluate
from envs.math.countdown import Countdown, declared_expression, search
from envs.types import Task, user


@pytest.fixture
def played(monkeypatch):
    """A function that plays a reply on the numbers 3, 7, 25 and the target 82."""
    task = Task("test/0", (user("3 7 25 = 82"),), "82", {"numbers": [3, 7, 25]})
    monkeypatch.setattr(Countdown, "tasks", lambda self, split: [task])

    def play(reply: str, **arguments):
        env = Countdown(max_seconds=77.0, **arguments)
        env.reset(options={"split": "test", "index": 0})
        _, reward, _, _, info = env.step(reply)
        return reward, info["valid"]

    return play


@pytest.mark.parametrize(
    "reply",
    [
        "3*25+7",
        "7 + (25 * 3) = 82",
        r"\boxed{3 \times 25 + 7}",
        "<answer>7-(-3)*25</answer>",
        "3×25 + 7",
        "The answer is 3*25+7.",
        "**3*25+7**",
        "*3*25+7 = 82.*",
        "`3*25+7 = 82`",
        "```\n3*25+7\n```",
        "$3*25+7 = 82$",
        r"\[3 \cdot 25+7 = 82\]",
        "**Final answer: 3*25+7**",
        "So the answer is **3*25+7**!",
    ],
)
def test_a_right_expression_counts_in_its_clothes(played, reply):
    assert played(reply) == (1.0, True)


@pytest.mark.parametrize(
    "reply, valid",
    [
        ("3*25", True),
        ("3*25-7", True),
        ("82", False),
        ("3*25+7+0", False),
        ("3*25+7-3+3", False),
        ("3*25+7 = 83", False),
        ("3*25+7 or 3*25", False),
        ("3*25+7\n3*25", False),
        ("3*25+7*", False),
        ("*3*25+7* = 83", False),
        ("3**25+7", False),
        ("25//3", False),
        ("2 5*3+7", False),
        ("3*25+07", False),
        ("25*3+seven", False),
        ("", False),
    ],
)
def test_a_wrong_or_unlawful_expression_earns_nothing(played, reply, valid):
    assert played(reply) == (0.0, valid)


def test_all_numbers_are_needed_only_on_demand(monkeypatch):
    task = Task("test/0", (user("2 3 4 = 7"),), "7", {"numbers": [2, 3, 4]})
    monkeypatch.setattr(Countdown, "tasks", lambda self, split: [task])
    for every, rewards in ((False, [1.0, 0.0]), (True, [0.0, 0.0])):
        env = Countdown(max_seconds=78.0, every=every)
        actual_rewards = []
        for reply in ("3+4", "3+4+2"):
            env.reset(options={"split": "test", "index": 0})
            actual_rewards.append(env.step(reply)[1])
        assert actual_rewards == rewards


@pytest.mark.parametrize("size, top", [(2, 10), (2, 40), (3, 10), (3, 12), (4, 25), (5, 50)])
@pytest.mark.parametrize("every", [False, True])
def test_every_test_task_is_solved_by_the_search(size, top, every):
    env = Countdown(size=size, top=top, every=every)
    for task in env.load("test")[:: 1 if size < 5 else 5]:
        way = evaluate(search(task.metadata["numbers"], int(task.answer), every=every))
        assert way.value == int(task.answer)
        numbers, available = sorted(way.numbers), task.metadata["numbers"]
        assert (
            numbers == available
            if every
            else all(numbers.count(number) <= available.count(number) for number in numbers)
        )


@pytest.mark.parametrize("every", [False, True])
def test_the_search_finds_a_way_exactly_where_trying_everything_does(every):
    rng = np.random.default_rng(0)
    for _ in range(4):
        numbers = sorted(rng.integers(1, 10, size=3).tolist())
        reachable = {value for order in permutations(numbers) for value in outcomes(order, every)}
        targets = {target for target in range(1, 120) if search(numbers, target, every=every) is not None}
        assert targets == {value for value in reachable if value < 120}


def outcomes(order, every):
    """All values of three numbers, in this order, by whole positive steps."""
    a, b, c = order
    if not every:
        yield from (a, *(value for value in combined(a, b)))
    yield from (value for first in combined(a, b) for value in (*combined(first, c), *combined(c, first)))


def combined(a, b):
    values = [a + b, a * b]
    values += [a - b] * (a > b) + [a // b] * (a % b == 0)
    return values


@pytest.mark.parametrize(
    "text, value",
    [
        ("1/3+1/6", Fraction(1, 2)),
        (r"\frac{6}{7-5}", 3),
        (r"2-\dfrac{1}{1+\frac12}", Fraction(4, 3)),
        (r"8 / \frac{4}{2}", 4),
        (r"2\frac{1}{2}", None),
        (r"\frac{1}{2}3", None),
        (r"\frac" * 50_000, None),
        ("3*7**", None),
        ("2*(3+4)-5", 9),
        ("-3+7", 4),
        ("((((7))))", 7),
        ("1/0", None),
        ("7 7", None),
        ("7(3)", None),
        ("1_000", None),
        ("0x10", None),
        ("1e3", None),
        ("9**9", None),
        ("x+1", None),
        ("1+" * 150 + "1", None),
        ("9" * 10, None),
    ],
)
def test_an_expression_has_an_exact_value_or_none(text, value):
    result = evaluate(text)
    assert (result and result.value) == value


def test_the_marked_expression_is_the_stated_one():
    assert declared_expression("First 3*7, then \\boxed{3*25+7}.") == "3*25+7"
    assert declared_expression("3*7\n3*25") == ""
    assert evaluate(declared_expression(r"$$\boxed{\frac{6}{7-5} = 3}$$").partition("=")[0]).value == 3


@pytest.mark.parametrize("wrong, name", [({"size": 1}, "size 1"), ({"size": 7}, "size 7"), ({"top": 5}, "top 5")])
def test_a_difficulty_out_of_bounds_is_named(wrong, name):
    with pytest.raises(ValueError, match=name):
        Countdown(**wrong)


def test_each_prompt_is_the_numbers_and_the_target_in_every_split():
    env, earlier_prompts = Countdown(style="short"), set()
    for split in ("train", "val", "test"):
        prompts = {task.prompt[0]["content"] for task in env.load(split)[:300]}
        assert not prompts & earlier_prompts
        earlier_prompts |= prompts
    assert max(map(len, earlier_prompts)) <= 16
