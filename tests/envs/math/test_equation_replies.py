"""A value of x is an answer to an equation; the value of an expression in x, or of another letter, is none."""

from __future__ import annotations

import pytest

import envs

RIGHT = [
    "x = -2",
    "-2",
    "So x=-2",
    "$x = -2$",
    "\\boxed{x=-2}",
    "The solution is $x = -2$.",
    "x = -4/2 = -2",
    "**x = -2**",
    "- x = -2",
    "4x = -8\nx = -2",
    "x=-2 is the answer",
    "I get x = -2",
    "\\(x=-2\\)",
    "2x = -4, so x = -2",
    "4x = -8 → x = -2",
    "1. x = -2",
    "Done. x = -2",
    "Answer: -2",
    "The answer = -2",
    "I think the result = -2",
    "$$x=-2$$",
    "\\[x = -2\\]",
    "x equals -2",
    "(x) = -2",
    "So (x = -2).",
    "Hence $4x=-8$ and $x=-2$.",
    "x= -2",
    "x: -2",
    "9x = -18, x = -2",
    "**Answer:** x = -2",
    "Therefore, the value of x is -2",
    "x\n= -2",
    "\\boxed{-2}",
    "`x = -2`",
    "(x = -2)",
    "> x = -2",
    "The solution to 4x + 3 = -5 is -2.",
    "The answer to 4x + 3 = -5 is \\boxed{-2}.",
    "The value of x that satisfies 4x + 3 = -5 is -2.",
    "Solving 4x + 3 = -5 gives -2.",
    "4x = -8, so the answer is \\boxed{-2}",
    "4x = -8. The answer is -2.",
    "4x = -8. Answer: -2",
    "$4x = -8 \\Rightarrow \\boxed{-2}$",
    "4x = -8 #### -2",
    "The answer is -2, since 4x = -8.",
    "*x = -2*",
    "_x = -2_",
    "`x` = -2",
    "*x* = -2",
    "The value of `x` = -2",
    'The value of "x" = -2',
    "\\mathbf{x} = -2",
    "$\\text{x} = -2$",
    "x &= -2",
    "* x = -2",
    "(1) x = -2",
    "(a) x = -2",
    "a) x = -2",
    "Step 2 x = -2",
    "X = -2",
    "x := -2",
    "x = (c - b)/a = (-5-3)/4 = -2",
    "If 4x + 3 = -5, then the answer is -2.",
]
UNFINISHED = [
    "4x = -2",
    "The answer is 4x = -2",
    "x+1 = -2",
    "-x = -2",
    "Therefore 4x = -2.",
    "Answer: 4x=-2",
    "2x + 1 = -2",
    "y = -2",
    "4 x = -2",
    "x^2 = -2",
    "3 * x = -2",
    "x/2 = -2",
    "\\boxed{4x=-2}",
    "4x = -4/2 = -2",
    "$-x = -2$",
    "x - 3 = -2",
    "1 - x = -2",
    "4·x = -2",
    "4×x = -2",
    "$4 \\cdot x = -2$",
    "4 \\times x = -2",
    "4 times x = -2",
    "−x = -2",
    "4(x) = -2",
    "2(x) = -2",
    "(2)x = -2",
    "-(x) = -2",
    "4$x$ = -2",
    "4\\,x = -2",
    "f(x) = -2",
    "minus x = -2",
    "twice x = -2",
    "4x\\;=\\;-2",
    "3y + 1 = -2",
]


def pay(reply: str) -> float:
    env = envs.make("math/Algebra-v0")
    env.reset(seed=1)
    assert env.unwrapped.task.answer == "-2"  # type: ignore[attr-defined]
    return float(env.step({"role": "assistant", "content": reply})[1])


@pytest.mark.parametrize("reply", RIGHT)
def test_a_value_of_x_is_paid_however_it_is_introduced(reply: str) -> None:
    assert pay(reply) == 1


@pytest.mark.parametrize("reply", UNFINISHED)
def test_the_value_of_something_else_is_not(reply: str) -> None:
    assert pay(reply) == 0
