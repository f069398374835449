"""Arithmetic: the problems are right and distinct, and one declared integer decides."""

import re

import pytest

from envs.grading.integer import declared_integer
from envs.math.arithmetic import Arithmetic
from envs.math.sums import LEVELS, problem, total


@pytest.mark.parametrize(
    "reply, value",
    [
        ("132", 132),
        (" 132.\n", 132),
        ("-7", -7),
        ("\u22127", -7),
        ("+132", 132),
        ("1,024", 1024),
        ("**132**", 132),
        ("$132$", 132),
        ("It makes 132.", 132),
        ("132, yes 132!", 132),
        ("47 + 85 = 132", 132),
        ("47+85=132.", 132),
        ("47 - 85 = -38", -38),
        ("First 40 + 80 = 120, then 120 + 12 = 132", 132),
        ("7 + 5 = 12, carry 1.\n#### 132", 132),
        (r"so \boxed{132}", 132),
        ("47 and 85: the answer is 132.", 132),
        ("The answer is: 132", 132),
        ("Answer: **132**", 132),
        ("I said #### 131, but #### 132", 132),
        ("84 + 59 = 143\n\n**143**", 143),
        ("84 + 59 = 143, so the sum is 143.", 143),
        ("The answer is 143.\n\n143", 143),
        ("\\[84 + 59 = 143\\]\nThe sum is 143.", 143),
        ("The answer is **143**. Check: 143 - 59 = 84", 143),
        ("Answer: 143 (84 + 59 = 143)", 143),
        ("The answer is 84 + 59 = 143.", 143),
        (r"\boxed{40 + 80 = 120 + 12 = 132}", 132),
        ("#### 143\nBecause 84 + 59 = 143", 143),
        ("```\n143\n```", 143),
        ("", None),
        ("no idea", None),
        ("The answer is 143.\n\n144", 144),
        ("84 + 59 = 143, or 144", None),
        ("The answer is 143 144 = 145", None),
        ("= 71 * 2, 71", None),
        ("The answer is 71 + 71", None),
        ("#### 71 71", None),
        ("#### 143 \u0661", None),
        ("The answer is 143. 84 + 59 = 143.5", None),
        ("131 132", None),
        ("132 or 133", None),
        ("#### 131 132", None),
        ("The answer is 132 or 133", None),
        ("= 131, 132, 133", None),
        ("132.0", None),
        ("132e0", None),
        ("1.32e2", None),
        ("132,5", None),
        ("0x84", None),
        ("132abc", None),
        ("1_32", None),
        ("\u0661\u0663\u0662", None),
        ("132 \u0661", None),
        ("1" * 19, None),
        ("9" * 100_000, None),
        ("=" * 50_000, None),
        ("answer is " * 10_000, None),
        ("answer is 1 2 " * 10_000, None),
        ("answer is 1" + " + 1" * 10_000, None),
        ("#### 1" + "1 + " * 50_000, None),
    ],
)
def test_a_reply_declares_one_integer_or_none(reply, value):
    assert declared_integer(reply) == value


def test_the_value_is_compared_beyond_the_precision_of_floats():
    assert declared_integer(str(2**53 + 1)) == 2**53 + 1 != declared_integer(str(2**53))


@pytest.mark.parametrize("level", LEVELS)
def test_every_shown_expression_has_its_value_and_is_shown_once(level):
    numbers = range(0, total(level), max(1, total(level) // 5000))
    problems = [problem(level, number) for number in numbers]
    assert all(eval(expression) == value for expression, value in problems)
    assert len({expression for expression, _ in problems}) == len(problems)


@pytest.mark.parametrize(
    "level, form",
    [
        (0, r"\d \+ \d = \?"),
        (1, r"\d\d \+ \d\d = \?"),
        (2, r"\d\d [+-] \d\d = \?"),
        (3, r"\d{3} ([+-] \d{3}|\* [2-9]) ([+-] \d{3}|\* [2-9]) = \?"),
    ],
)
def test_a_level_has_the_documented_form(level, form):
    env = Arithmetic(level=level)
    prompts = [task.prompt[0]["content"] for split in ("train", "test") for task in env.load(split)[:300]]
    assert all(re.fullmatch(form, prompt) for prompt in prompts)
    signs = {sign for prompt in prompts for sign in re.findall(r" ([-+*]) ", prompt)}
    assert signs == [{"+"}, {"+"}, {"+", "-"}, {"+", "-", "*"}][level]


def test_a_sum_and_its_mirror_image_are_one_problem():
    for level in (0, 1, 2):
        pairs = [(sign, *sorted((a, b))) for a, sign, b in (problem(level, n)[0].split() for n in range(total(level)))]
        assert len(set(pairs)) == len(pairs)
    first = [int(problem(1, n)[0].split()[0]) < int(problem(1, n)[0].split()[2]) for n in range(1000)]
    assert 0.4 < sum(first) / len(first) < 0.6


def test_every_pair_of_operators_is_equally_frequent():
    operators = [tuple(problem(3, number)[0].split()[1::2]) for number in range(900)]
    assert {operators.count(pair) for pair in set(operators)} == {100} and len(set(operators)) == 9


def test_a_right_reply_earns_1_and_a_wrong_one_0():
    env = Arithmetic()
    for reply, expected_reward, valid in (
        ("{}", 1.0, True),
        ("so it is {}", 1.0, True),
        ("1{}", 0.0, True),
        ("", 0.0, False),
    ):
        _, info = env.reset(seed=1)
        messages, reward, terminated, truncated, end = env.step(reply.format(info["answer"]))
        assert (reward, terminated, truncated) == (expected_reward, True, False)
        assert messages[-1]["content"].endswith(f"you have {'' if expected_reward else 'not '}succeeded.")
        assert end["valid"] is valid and end["success"] is (expected_reward == 1.0)


def test_content_blocks_are_read_as_text():
    env = Arithmetic()
    _, info = env.reset(seed=1)
    assert env.step({"role": "assistant", "content": [{"type": "text", "text": info["answer"]}]})[1] == 1.0


@pytest.mark.parametrize("level", [4, -1, "two", 1.5])
def test_an_unknown_level_is_named(level):
    with pytest.raises(ValueError, match=str(level)):
        Arithmetic(level=level)


def test_random_replies_are_rarely_right():
    import numpy as np

    env, rng, right = Arithmetic(), np.random.default_rng(0), 0
    for seed in range(1000):
        env.reset(seed=seed)
        right += env.step(env.random(rng))[1]
    assert right < 30
