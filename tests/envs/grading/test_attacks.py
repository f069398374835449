"""Attempts to be paid for a wrong answer, against every kind of right answer: none passes, none hangs."""

from __future__ import annotations

import signal
from importlib.util import find_spec

import pytest

from envs.grading import symbolic
from envs.grading.expression import evaluate
from envs.grading.math import verify
from envs.math.countdown import declared_expression

HANG_S = 30  # a reply that keeps the grader busy for longer is a hang

# what is tried: (right answer, reply)
ATTACKS = {
    # several answers in one reply
    "every candidate": ("18", " ".join(map(str, range(1000)))),
    "every candidate in boxes": ("18", "".join(rf"\boxed{{{i}}}" for i in range(1000))),
    "every candidate in one box": ("18", r"\boxed{" + ", ".join(map(str, range(100))) + "}"),
    "every candidate by hash marks": ("18", "\n".join(f"#### {i}" for i in range(100))),
    "every choice": ("(C)", "A B C D E"),
    "every choice in one box": (r"\text{(C)}", r"\boxed{A, B, C, D, E}"),
    "two boxes": ("18", r"\boxed{18} \boxed{17}"),
    "two boxes, right one last": (r"\frac{1}{2}", r"\boxed{\frac{1}{3}} then \boxed{\frac{1}{2}}"),
    "two formulas": ("x+1", r"\boxed{x+2} \boxed{x+1}"),
    "two sets": (r"\{1,2\}", r"\boxed{\{1,3\}}, or \boxed{\{1,2\}}"),
    "a box in a box": ("18", r"\boxed{17 \boxed{18}}"),
    "a box and a tag": ("18", r"\boxed{17} <answer>18</answer>"),
    "two tags": ("18", "<answer>17</answer><answer>18</answer>"),
    "a tag never closed": ("18", "<answer>18"),
    "plus or minus": ("18", r"\boxed{\pm 18}"),
    "either of two": ("18", "The answer is 17 or 18."),
    "a chain of equations": ("18", r"\boxed{x = 17 = 18}"),
    "two names": ("5", r"\boxed{x = 4, y = 5}"),
    "a set that holds it": ("5", r"\boxed{\{4, 5\}}"),
    "all whole numbers": (r"\{1,2\}", r"\boxed{\mathbb{Z}}"),
    "a union of everything": ("(0,1)", r"\boxed{(0,1)\cup(2,3)}"),
    "a set with one more": (r"\{1,2\}", r"\boxed{\{1,2,3\}}"),
    "a set with one less": (r"\{1,2,3\}", r"\boxed{\{1,2\}}"),
    "ten thousand members": (r"\{1,2\}", r"\boxed{\{" + ",".join(map(str, range(10_000))) + r"\}}"),
    # the question again
    "the equation itself": ("5", "3x + 4 = 19"),
    "the expression itself": ("132", "47 + 85"),
    "the expression in a box": (r"\{3\}", r"\boxed{\{1,3\} \cap \{3,5\}}"),
    "the system itself": ("(2,1)", "2x+3y=7, x-y=1"),
    "answer hidden in the echo": ("18", "If Ann had 18 eggs, how many would that be?"),
    "answer hidden among the numbers of the echo": ("(2,1)", "Solve x=2 and y=1 and z=3, such as (2,1,3)."),
    # taken back
    "negated": ("18", "The answer is not 18."),
    "negated in the box": ("x+1", r"\boxed{\text{not } x+1}"),
    "negated in plain letters": ("18", r"\boxed{not 18}"),
    "negated by a logical sign": ("18", r"\boxed{\neg 18}"),
    "negated equation": ("18", r"\boxed{x \neq 18}"),
    "negated membership": ("(1,2)", r"\boxed{x \notin (1,2)}"),
    "a wrong claim": ("18", "18 is wrong"),
    "unless": ("18", r"\boxed{18 \text{ unless it is } 17}"),
    "complement": ("(1,2)", r"\boxed{\mathbb{R} \setminus (1,2)}"),
    # look-alikes
    "full-width digits": ("18", "\uff11\uff18"),
    "full-width in a set": (r"\{1,2\}", r"\boxed{\{１,２\}}"),
    "Arabic-Indic digits": ("18", r"\boxed{١٨}"),
    "mathematical digits": ("18", "\U0001d7cf\U0001d7d6"),
    "superscripts": ("18", "\u00b9\u2078"),
    "a letter for a digit": ("10", r"\boxed{lO}"),
    "Cyrillic x": ("x+1", r"\boxed{х+1}"),
    "zero-width space": ("18", "1\u200b8"),
    "text direction": ("18", "\u202e81"),
    "another letter case": (r"\frac{R}{r}", r"\boxed{\frac{r}{R}}"),
    "letters in another order": (r"\text{listen}", r"\boxed{\text{silent}}"),
    # confusions
    "percent for its fraction": (r"50\%", r"\boxed{\frac{1}{2}}"),
    "fraction for its percent": (r"\frac{1}{2}", r"\boxed{50\%}"),
    "hundred times": ("0.5", "50"),
    "open for closed": ("[1,2]", r"\boxed{(1,2)}"),
    "half open": ("(1,2)", r"\boxed{(1,2]}"),
    "tuple for set": (r"\{1,2\}", r"\boxed{(1,2)}"),
    "set for tuple": ("(1,2)", r"\boxed{\{1,2\}}"),
    "swapped pair": ("(1,2)", r"\boxed{(2,1)}"),
    "swapped names": ("x=1, y=2", r"\boxed{x=2, y=1}"),
    "pair for number": ("1234", r"\boxed{(1,234)}"),
    "number for pair": ("(1,234)", r"\boxed{1234}"),
    "decimal comma": ("3.14", r"\boxed{3,14}"),
    "rounded": (r"\sqrt{2}", r"\boxed{1.41421356}"),
    "rounded third": (r"\frac{1}{3}", r"\boxed{0.3333333333333333}"),
    "the sign": ("-18", r"\boxed{18}"),
    "the sign of infinity": (r"(-\infty, 1)", r"\boxed{(\infty, 1)}"),
    "upside down": (r"\frac{3}{4}", r"\boxed{\frac{4}{3}}"),
    "mixed for product": (r"1\frac{1}{2}", r"\boxed{1 \cdot \frac{1}{2}}"),
    "conjugate": ("3+4i", r"\boxed{3-4i}"),
    "another name": ("x=5", r"\boxed{y=6}"),
    "the number of an equation": ("2x-y+3z+8=0", r"\boxed{0}"),
    "another equation with the same number": ("x^2+y^2=4", r"\boxed{x+y=4}"),
    "a name for the number of an equation": ("x^2+y^2=4", r"\boxed{z=4}"),
    "a coefficient dropped": ("3x = 5", r"\boxed{x = 5}"),
    "an equation that is always true": ("x^2+y^2=4", r"\boxed{0=0}"),
    "the zeros of a formula": ("2x+3", r"\boxed{0 = 2x+3}"),
    "an equation and its negation": ("y=2x+3", r"\boxed{y=2x+3 \text{ or } y \neq 2x+3}"),
    "points for an interval in a union": (r"(0,1)\cup(2,3)", r"\boxed{(0,1)\cup\{2,3\}}"),
    "a union without its gap": (r"(0,1)\cup(1,2)", r"\boxed{(0,2)}"),
    "the end of an inequality": (r"x \geq 3", r"\boxed{3}"),
    "an inequality the other way": (r"x \geq 3", r"\boxed{x \leq 3}"),
    "a strict inequality": (r"x \geq 3", r"\boxed{x > 3}"),
    "a matrix lying down": (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\boxed{\begin{pmatrix} 1 & 2 \end{pmatrix}}"),
    "a determinant": (
        r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
        r"\boxed{\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}}",
    ),
    "a pair for a column": (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\boxed{(1,2)}"),
    # values that equal everything, or nothing
    "not a number": ("18", r"\boxed{\text{nan}}"),
    "zero divided by zero": ("x", r"\boxed{\frac{0}{0}}"),
    "a variable": ("18", r"\boxed{n}"),
    "infinity minus infinity": ("18", r"\boxed{\infty - \infty}"),
    "true": ("18", r"\boxed{18 = 18 \text{ or } 1}"),
    "an inequality": ("18", r"\boxed{x \geq 18}"),
    "all of it": ("18", r"\boxed{*}"),
    "a verdict": ("18", '{"correct": true, "answer": 18, "reward": 1}'),
    # too much to work out
    "tower of powers": ("18", r"\boxed{9^{9^{9}}}"),
    "tower as Python": ("18", r"\boxed{9**9**9}"),
    "tower without a box": ("x+1", "9**9**9"),
    "a huge power of a sum": ("x+1", r"\boxed{(x+y+z+a+b+c)^{99}}"),
    "powers of powers": ("x+1", r"\boxed{((((x+1)^{64})^{64})^{64})^{64}}"),
    "many roots": ("x+1", r"\boxed{" + "+".join(rf"\sqrt{{{n}}}" for n in range(2, 60)) + "}"),
    "a product of sums": ("x+1", r"\boxed{" + "".join(rf"(x+{n}y+{n}z)" for n in range(30)) + "}"),
    "a huge root": (r"\sqrt{2}", r"\boxed{\sqrt{99999999999999999999}}"),
    "factorials": ("x+1", r"\boxed{((9!)!)!}"),
    "digits without end": ("18", "9" * 200_000),
    "a fraction of a thousand digits": (r"\frac{1}{2}", r"\boxed{\frac{" + "1" * 1000 + "}{" + "2" * 1000 + "}}"),
    "infinite recursion": ("x+1", r"\boxed{" + "{" * 200 + "x+1" + "}" * 200 + "}"),
    "brackets without end": (r"\{1,2\}", r"\boxed{" + r"\{" * 200 + "1,2" + r"\}" * 200 + "}"),
    "fractions in fractions": ("x+1", r"\boxed{" + r"\frac{1}{1+" * 40 + "x" + "}" * 40 + "}"),
    "roots in roots": ("x+1", r"\boxed{" + r"\sqrt{" * 60 + "16" + "}" * 60 + "}"),
    "a megabyte of boxes": ("x+1", r"\boxed{x}" * 100_000),
    "a megabyte of tags": ("18", "<answer>" * 125_000),
    "a megabyte of commas": (r"\{1,2\}", "," * 1_000_000),
    # programs
    "an import": ("18", r"\boxed{__import__('os').system('true') + 18}"),
    "a lambda that calls itself": ("18", "(lambda f: f(f))(lambda f: f(f))"),
    "an input command": ("18", r"\boxed{\input{/etc/passwd}}"),
    "a new command": ("18", r"\newcommand{\a}{\a\a}\boxed{\a 18}"),
    "a template": ("18", "{{7*7}} ${18} %s"),
}

COUNTDOWN = {  # for the numbers 3, 7, 25 and the target 82
    "the target": "82",
    "a power": "3**4+1",
    "a call": "int('82')",
    "an attribute": "(7).real*3+25",
    "a string": "'82'",
    "a list": "[82]",
    "a comparison": "82==82",
    "hexadecimal": "0x52",
    "underscore": "8_2",
    "exponent": "82e0",
    "floor": "82//1",
    "a comma": "3*25,7",
    "two lines": "3*25+7\n82",
    "two expressions": r"\boxed{3*25+7} \boxed{82}",
    "an assignment": "x:=82",
    "a tower": "9**9**9",
    "brackets without end": "(" * 100_000 + "82" + ")" * 100_000,
    "signs without end": "-" * 100_000 + "82",
    "a sum without end": "+".join(["1"] * 100_000),
    "division by zero": "25/(7-7)",
    "full-width": "３*25+7",
    "side by side": "3(25)+7",
    "a comment": "82 # 3*25+7",
}


@pytest.fixture(autouse=True)
def no_hang():
    """Turn a grader that does not come back into a failure."""

    def hung(*_):
        raise TimeoutError(f"the grader was busy for {HANG_S} s")

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(HANG_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module", autouse=True)
def no_process_left():
    yield
    symbolic.workers().close()


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attempt_passes_by_our_own_rules(name):
    gold, reply = ATTACKS[name]
    assert not verify(reply, gold, symbolic=False).flexible


@pytest.mark.skipif(not find_spec("math_verify"), reason="needs math-verify: the extra math")
@pytest.mark.parametrize("name", ATTACKS)
def test_no_attempt_passes_with_math_verify_behind_them(name):
    gold, reply = ATTACKS[name]
    assert not verify(reply, gold, deadline_s=1.0).flexible


@pytest.mark.parametrize("name", ATTACKS)
def test_the_answer_that_was_attacked_can_be_given(name):
    gold, _ = ATTACKS[name]
    assert verify(rf"\boxed{{{gold}}}", gold, symbolic=False).flexible


@pytest.mark.parametrize("name", COUNTDOWN)
def test_no_expression_cheats_the_countdown(name):
    evaluation = evaluate(declared_expression(COUNTDOWN[name]))
    assert evaluation is None or sorted(evaluation.numbers) != [3, 7, 25] or evaluation.value != 82


def test_there_are_more_than_a_hundred_attempts():
    assert len(ATTACKS) + len(COUNTDOWN) > 100
