"""Ordinary ways to write a right answer, and near-misses that look like it: found by reading graded replies."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from envs.grading import symbolic
from envs.grading.math import verify

needs_math_verify = pytest.mark.skipif(not find_spec("math_verify"), reason="needs math-verify: the extra math")

# gold, replies that say the same; decided without math-verify
RIGHT = {
    "18": (
        r"\boxed{2 \times 9 = 18}",
        r"The answer is $2 \times 9 = 18$.",
        r"#### 2 \times 9 = 18",
        r"\boxed{\frac{36}2}",
        "```\n18\n```",
        "The least number is 18.",
        "Half of 36 is 18.",
        r"\boxed{18 \text{ L}}",
    ),
    "1000": (r"\boxed{1,\! 000}", r"\boxed{1{,}\!000}", r"\boxed{1\,000}", "#### 1,000"),
    r"11,\! 111,\! 111,\! 100": (r"\boxed{11111111100}", r"\boxed{11,111,111,100}"),
    r"3\sqrt{2}\text{ cm}": (
        r"\boxed{3\sqrt{2}}",
        r"\boxed{\sqrt{18}\text{ cm}}",
        r"\boxed{3\sqrt{2}\text{ cm}}",
        r"The answer is $\sqrt{18}$.",
        r"\sqrt{18}",
    ),
    r"\frac{270}7\text{ degrees}": (r"\boxed{\frac{270}{7}}", r"\boxed{38\frac47}", r"\boxed{\frac{270}{7}^\circ}"),
    r"6\pi\text{ inches}": (r"\boxed{6\pi \text{ in}}", r"\boxed{6\pi}"),
    r"12\pi \mbox{ cm}^3": (r"\boxed{12\pi}", r"\boxed{12\pi\text{ cm}^{3}}"),
    r"x<-4 \text{ or } x>4": (r"\boxed{(-\infty,-4)\cup(4,\infty)}", r"\boxed{x>4 \text{ or } x<-4}"),
    r"\frac12 \text{ or } \frac13": (r"\boxed{\frac12, \frac13}", r"\boxed{\frac{1}{3} \text{ or } \frac{1}{2}}"),
    r"x = 2 \text{ and } y = 3": (r"\boxed{(2,3)}",),
    r"2^{10}\text{ ways}": (r"\boxed{1024}",),
    r"2x+3 \text{ cents}": (r"\boxed{3+2x}", r"\boxed{2x+3 \text{ cents}}"),
    r"0.\overline{3}": (r"\boxed{\frac13}", r"\boxed{0.\bar{3}}", "The answer is 1/3."),
    r"\frac{1}{6}": (r"\boxed{0.1\overline{6}}", r"\boxed{0.1\bar 6}"),
    r"\frac{12}{99}": (r"\boxed{0.\overline{12}}",),
    "4343_6": (r"\boxed{4343_6}", r"\boxed{4343_{6}}", r"\boxed{\text{4343}_6}", r"$\boxed{4343}_6$"),
    "11:30": (r"\boxed{11:30}", r"\boxed{11 : 30}"),
    "x=3": (r"\boxed{3}", r"\boxed{x = 3}"),
    "(3,-2)": ("**(3,-2)**", "`(3,-2)`", "```\n(3,-2)\n```", "The answer is **(3, -2)**.", "**Final answer: (3,-2)**"),
}
# gold, replies that say something else
WRONG = {
    "18": (
        r"\boxed{18 \times 10}",
        r"\boxed{2 \times 18}",
        r"2 \cdot 18",
        r"18 \times 18",
        "18 × 18",
        r"\boxed{18_8}",
        "The answer is twice 18",
        "The answer is half of 18.",
        "It is at least 18",
        "The answer is at most 18",
        "the answer is 18M",
        r"\boxed{1\ 8}",
        "```\n17\n18\n```",
    ),
    "4343_6": (r"\boxed{4343_7}", r"\boxed{4343_{10}}", r"\boxed{4344_6}"),
    "1,2": (r"\boxed{1,2_3}", r"\boxed{1,\ldots,2}", r"\boxed{1,2,\ldots}", r"\boxed{1,2,\cdots}"),
    r"\{1,2\}": (r"\boxed{\{1,2,\ldots\}}", r"\boxed{\{1,2,...\}}"),
    r"\{1,2,\dots,10\}": (r"\boxed{\{1,2,10\}}", r"\boxed{\{1,2,\dots,11\}}"),
    "(1,2)": (r"\boxed{(1,2,\ldots)}",),
    "1:2:3": (r"\boxed{1:6}", r"\boxed{1/2/3}"),
    "11:30": (r"\boxed{11/30}",),
    r"\angle ABC": (r"\boxed{\angle CAB}",),
    r"\triangle ABC": (r"\boxed{\triangle BCD}",),
    r"3\sqrt{2}": (
        r"\boxed{3\sqrt{2}^\circ}",
        r"\boxed{3\sqrt{2} \text{ is wrong}}",
        r"\boxed{3\sqrt{2}\text{ dozen}}",
    ),
    r"3\sqrt{2}\text{ cm}": (r"\boxed{\sqrt{12}}", r"\boxed{3\sqrt{2}\text{ or so}}", r"\boxed{3\sqrt{3}\text{ cm}}"),
    r"6\pi\text{ inches}": (r"\boxed{5\pi \text{ inches}}", r"\boxed{\text{inches}}"),
    r"0.\overline{3}": (
        r"\boxed{0.\overline{3} \times 10^2}",
        r"\boxed{0\overline{3}}",
        r"\boxed{5}",
        r"\boxed{0.3}",
        r"\boxed{0.\overline{33}4}",
    ),
    r"x \equiv 3 \pmod{7}": (r"\boxed{3}", r"\boxed{x \equiv 4 \pmod{7}}"),
    "x=3": (r"\boxed{y=3}", "The answer is $y = 3$."),
    r"3\text{ hours} \text{ and } 20\text{ minutes}": (
        r"\boxed{20\text{ hours} \text{ and } 3\text{ minutes}}",
        r"\boxed{3, 20}",
    ),
    "3": (r"\boxed{x = 2 and y = 3}", r"\boxed{x = 2 \text{ and } y = 3}"),
    "3 cm and 20 mm": (r"\boxed{3 mm and 20 cm}",),
    r"2\sqrt{3}": (r"\boxed{2\sqrt{3}\mathrm{i}}", r"\boxed{2\sqrt{3}\text{ e}^2}"),
    r"2k \text{ is even}": (r"\boxed{2k \text{ is odd}}", r"\boxed{2k}"),
    "x+1": (r"\boxed{x+1 \text{ is odd}}", r"\boxed{x+1 \text{ or so}}"),
    r"\text{listen}": (r"\boxed{\text{silent}}", r"\boxed{x}"),
}


def cases(table):
    return [
        pytest.param(gold, reply, id=f"{gold} <- {reply!r}") for gold, replies in table.items() for reply in replies
    ]


@pytest.fixture(scope="module", autouse=True)
def no_process_left():
    yield
    symbolic.workers().close()


@pytest.mark.parametrize("gold, reply", cases(RIGHT))
def test_a_right_answer_counts_in_an_ordinary_form(gold, reply):
    assert verify(reply, gold, symbolic=False).flexible


@pytest.mark.parametrize("gold, reply", cases(WRONG))
def test_a_near_miss_is_wrong_by_our_own_rules(gold, reply):
    assert not verify(reply, gold, symbolic=False).flexible


@needs_math_verify
@pytest.mark.parametrize("gold, reply", cases(WRONG))
def test_a_near_miss_is_wrong_with_math_verify_behind_our_rules(gold, reply):
    assert not verify(reply, gold, deadline_s=20).flexible


@needs_math_verify
@pytest.mark.parametrize(
    "gold, reply",
    [
        ("18", r"\boxed{2 \times 9}"),
        (r"2\sqrt{3}", r"\boxed{2 \times 3^{1/2}}"),
        (r"3\sin 20^\circ", r"\boxed{3 \times \sin 20^\circ}"),
        (r"2\log_2 3", r"\boxed{2 \times \log_{2} 3}"),
        ("x_1+x_2", r"\boxed{x_2+x_1}"),
    ],
)
def test_math_verify_is_still_asked_for_formulas(gold, reply):
    assert verify(reply, gold, deadline_s=20).method in ("math-verify", "exact")
    assert verify(reply, gold, deadline_s=20).correct


@needs_math_verify
def test_a_gold_answer_that_nobody_can_read_counts_as_its_text():
    for gold in (r"x \equiv 3 \pmod{7}", r"\frac{"):
        verdict = verify(r"\boxed{x+1}", gold, deadline_s=20)
        assert (verdict.correct, verdict.method) == (False, "text")
    assert verify(r"\boxed{x\equiv 3 \pmod{7}}", r"x \equiv 3 \pmod{7}", deadline_s=20).correct
