"""Replies in the forms that instruction-tuned language models write: each pays, and does not for another answer."""

from __future__ import annotations

import pytest

import envs
from envs.grading.integer import declared_integer
from envs.grading.math import verify
from envs.math.first_error import named_step

THOUGHT = "Let us work this out step by step.\n\n"

RIGHT = [  # gold answer, another answer, reply
    ("10", "9", "Therefore, the smallest possible value of $n$ is $\\boxed{10}$."),
    ("10", "9", "**Final Answer**\nThe maximum possible value is \\boxed{10}."),
    ("10", "9", "So the sum of all possible values of $x$ is $\\boxed{10}$."),
    ("18", "17", "The maximum possible value is 18."),
    ("10", "9", "Equality holds if and only if $n = \\boxed{10}$."),
    ("10", "9", "So the other solution is $\\boxed{10}$."),
    ("10", "9", "So the number of students who say yes is $\\boxed{10}$."),
    ("10", "9", "#### 1. Set up the equation\nx + 2 = 12\n#### 2. Solve it\n\\[ x = 10 \\]\n\n\\[\\boxed{10}\\]"),
    ("14", "13", f"{THOUGHT}44 − 30 = **14**"),
    ("14", "13", f"{THOUGHT}**14** ✅"),
    ("3", "4", f"{THOUGHT}**x = 3** ✅"),
    ("3", "4", f"{THOUGHT}``x = **3**``"),
    ("18", "17", "#### <18>"),
    ("18", "17", "#### [18]"),
    ("18", "17", "#### <number>18</number>"),
    ("18", "17", "#### 18 (dollars)"),
    ("18", "17", f"{THOUGHT}#### `18`"),
    ("630/53", "630/54", "630/53 hours (≈ 11.89 hours)"),
    ("630/53", "630/54", "So they need 630/53 hours (approximately 11.89 hours)."),
    ("5/4", "5/3", "5/4 or 1 1/4"),
    ("5/4", "5/3", "\\boxed{\\frac{5}{4} \\text{ or } 1\\frac{1}{4}}"),
    ("5/4", "5/3", "1 1/4"),
    ("10", "9", "\\boxed{10\\mathrm{~cm}}"),
    ("90", "9", "\\boxed{90\\degree}"),
    ("18", "17", "$\\boldsymbol{18}$"),
    ("3\\sqrt{13}", "2\\sqrt{13}", "\\boxed{3\\sqrt{13} \\approx 10.82}"),
    ("3\\sqrt{13}", "2\\sqrt{13}", "\\boxed{3\\sqrt{13}\\,\\text{cm}}"),
    ("-2, 1", "-2, 2", "\\boxed{x = -2 \\quad \\text{or} \\quad x = 1}"),
    ("-2, 1", "-2, 2", "\\boxed{x = 1,\\; x=-2}"),
    ("-2, 1", "-2, 2", "\\boxed{x = -2, 1}"),
    ("-2, 1", "-2, 2", "\\boxed{x = -2 \\text{ or } 1}"),
    ("-2, 1", "-2, 2", "\\boxed{1}, \\boxed{-2}"),
    ("-2, 1", "-2, 2", "So the solutions are $\\boxed{1}$ and $\\boxed{-2}$."),
    ("C", "D", "\\boxed{\\textbf{(C)}\\ 10}"),
    ("C", "D", "\\boxed{C. 10}"),
    ("C", "D", "\\boxed{\\text{Option C}}"),
]
WRONG = [  # gold answer, reply
    ("18", "#### 18\n\nActually the answer is 27."),
    ("10", "\\boxed{10}\n\nWait, I made an error. The correct answer is 9."),
    ("18", "#### 18\n\nWait, that's wrong. It should be 19."),
    ("18", "#### 18\n\nHmm, or 27."),
    ("10", "\\boxed{10}\n\nAnswer: 9"),
    ("18", "10 through 18"),
    ("18", "Any number but 18."),
    ("18", "Possible answers: 18"),
    ("18", "#### 18 (wrong)"),
    ("5/4", "5/4 or 1 1/3"),
    ("630/53", "630/53 hours (≈ 12.5 hours)"),
    ("1", "\\boxed{1}, \\boxed{-2}"),
    ("1, -2", "\\boxed{1}, \\boxed{-2}, \\boxed{3}"),
    ("3", f"{THOUGHT}x = 3 + c"),
    ("C", "\\boxed{\\text{(C) or (D)}}"),
    ("C", "\\boxed{(C) (D)}"),
]


@pytest.mark.parametrize(("gold", "other", "reply"), RIGHT)
def test_the_form_of_a_reply_costs_nothing(gold, other, reply):
    assert verify(reply, gold, symbolic=False).correct
    assert not verify(reply, other, symbolic=False).correct


@pytest.mark.parametrize(("gold", "reply"), WRONG)
def test_what_takes_an_answer_back_or_offers_another_one_pays_nothing(gold, reply):
    assert not verify(reply, gold, symbolic=False).correct


@pytest.mark.parametrize(
    "reply",
    [
        "\\boxed{10}. Wait, let me check: 5+5=10. Yes.\n\n**Final answer:** \\boxed{10}",
        "\\boxed{10}\n\nWait, let me double-check. 5+5=10. Yes.",
        "\\boxed{10}\n\nNote: the answer is not 9, since $x>9$.",
    ],
)
def test_a_check_behind_a_mark_takes_nothing_back(reply):
    assert verify(reply, "10", symbolic=False).correct


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("The sum of 68 and 30 is 98.", 98),
        ("68 + 30 equals 98", 98),
        ("Adding 68 and 30 gives 98.", 98),
        ("The value of `382 + 217 - 260` is `339`.", 339),
        ("\\boxed{1{,}900}", 1900),
        ("$1{,}900$", 1900),
        ("\\boxed{1\\,900}", 1900),
        ("The sum of 68 and 30 is 97 or 98", None),
        ("It is 97 or it is 98", None),
        ("It is 97. It is 98.", None),
        ("68 and 30 is not 98", None),
        ("Is 30 and 68 what is 98?", None),
    ],
)
def test_an_integer_is_declared_by_a_sentence_about_others(reply, value):
    assert declared_integer(reply) == value


@pytest.mark.parametrize(("reply", "step"), [("The answer is **4**.", 4), ("Therefore, the answer is **-1**.", -1)])
def test_a_step_is_named_in_bold(reply, step):
    assert named_step(reply) == step


@pytest.mark.parametrize(
    ("name", "arguments", "form"),
    [
        ("math/LinearSystem-v0", {}, "Substitute into the first equation to find x:\n\nx = 1\n\n{answer}"),
        ("math/Sets-v0", {}, "A ∪ B = {answer}\n\n{answer}"),
        ("math/Countdown-v0", {}, "= 448\n\n{answer}"),
        ("math/Countdown-v0", {}, "This works.\n\n---\n\n{answer}"),
        ("math/Algebra-v0", {"level": 4}, "Let us solve it.\n\nx = 1\n\n{answer}"),
    ],
)
def test_a_line_of_work_before_the_answer_costs_nothing(name, arguments, form):
    env = envs.make(name, style="full", **arguments).unwrapped
    env.reset(seed=0)
    answer = next(iter(env.oracle()))["content"]
    assert env.step(form.replace("{answer}", answer))[1] == 1
