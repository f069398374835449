"""Replies on which the grader of integers and the one of all answers must agree: denials, labels, hedges, honest work."""

from __future__ import annotations

import pytest

from envs.grading.integer import declared_integer
from envs.grading.math import verify


@pytest.mark.parametrize(
    ("gold", "reply"),
    [
        ("C", "A) false\nB) false\nC) true\nD) false\n\nThe correct answer is C."),
        ("C", "A. Incorrect.\nB. Incorrect.\nC. Correct.\nD. Incorrect.\n\nTherefore, the answer is C."),
        ("C", "D: The sun orbits the earth. This is false.\n\nThe answer is C."),
        ("C", "D says that the sun orbits the earth, which is wrong.\n\nThe answer is C."),
        ("C", "D: incorrect\n\\boxed{C}"),
        ("C", "D is impossible.\n\\boxed{C}"),
        ("\\text{Evelyn}", "Tom is wrong.\n\nThe answer is Evelyn."),
        ("42", "He earned $\\boxed{42}$ over 6 weeks in total."),
        ("42", "\\boxed{42} - 6 groups of 7."),
        ("42", "\\boxed{42} \\quad (1)"),
        ("42", "\\boxed{42}, which may be written as 6 × 7."),
        ("42", "\\boxed{42}, or 6 weeks"),
        ("7/2", "\\boxed{\\frac72}, or $3\\frac12$"),
        ("7/2", "\\boxed{3.5}, or $\\frac{7}{2}$"),
        ("3/4", "\\boxed{\\frac{3}{4}}, or $\\frac{6}{8}$."),
        ("3/4", "\\boxed{\\frac{3}{4}}, or 3 out of 4"),
        ("1/3", "\\boxed{\\frac13}, or 33%"),
        ("50\\%", "\\boxed{50\\%}, or $\\frac{1}{2}$."),
        ("1000000", "\\boxed{1000000}, or 1 million"),
        ("1000000", "\\boxed{1000000} (or 10^6)"),
        ("2\\pi", "\\boxed{2\\pi}, or about 6.28"),
        ("\\sqrt{2}", "\\boxed{\\sqrt{2}}, or 2^{1/2}"),
        ("x^2+1", "\\boxed{x^2+1}, or $1 + x^2$"),
        ("42", "\\boxed{42}? Yes."),
        ("42", "\\boxed{42}\n\nThis might be 1 of many ways."),
        ("1/8", "\\boxed{1/8}, or about 0.13"),
        ("\\frac12", "= \\frac{1}{2} \\quad \\boxed{\\frac12}"),
        ("C", "Which of the following is not true:\n\\boxed{C}"),
    ],
)
def test_words_that_deny_or_label_something_else_cost_nothing(gold: str, reply: str) -> None:
    assert verify(reply, gold, symbolic=False).correct


@pytest.mark.parametrize(
    ("gold", "reply"),
    [
        ("42", "Suppose it is odd. But this is impossible.\n\nSo the answer is 42."),
        ("42", "It has no solution.\n\nThe answer is 42."),
        ("42", "Case A: impossible.\n\n\\boxed{42}"),
        ("42", "Statement I: true\nStatement II: false\n\nThe answer is 42."),
        ("42", "Maybe we should add? That is not correct.\n\nThe answer is 42."),
        ("42", "Adding is wrong.\n\n\\boxed{42}"),
        ("42", "Wait, that's wrong.\n\n42"),
        ("42", "Number of wrong answers: \\boxed{42}"),
        ("42", "So the number of wrong answers:\n\n\\boxed{42}"),
        ("42", "Number of invalid values: \\boxed{42}"),
        ("42", "The number of outcomes that are not valid: \\boxed{42}"),
        ("42", "Right: 8\nWrong: \\boxed{42}"),
        ("42", "If I'm not mistaken: \\boxed{42}"),
        ("42", "Please correct me if I am wrong: \\boxed{42}"),
        ("42", "You can't go wrong:\n\n\\boxed{42}"),
        ("42", "– \\boxed{42}"),
        ("42", "– 6 × 7\n– \\boxed{42}"),
        ("42", "Step 3 - \\boxed{42}"),
        ("42", "Problem 3 - \\boxed{42}"),
        ("42", "Step 3 – \\boxed{42}"),
        ("42", "Q3 - \\boxed{42}"),
        ("42", "Answer:- \\boxed{42}"),
        ("42", "Answer:-\\boxed{42}"),
        ("42", "Answer -\\boxed{42}"),
        ("-20", "– \\boxed{-20}"),
        ("-20", "-\\boxed{20}"),
        ("-20", "= -\\boxed{20}"),
        ("-20", "$-\\boxed{20}$"),
        ("42", "\\boxed{42} - A nice number."),
        ("42", "\\boxed{42}/h"),
        ("42", "\\boxed{42}/L"),
        ("42", "\\boxed{42}\n\nAlternatively, 21 × 2 = 42."),
        ("42", "\\boxed{42}.\n\nAlternatively, one can compute 21 + 21 = 42."),
        ("42", "\\boxed{42}. This could be checked with 6 × 7 = 42."),
        ("42", "6 \\cdot 7 = 42 \\quad \\boxed{42}"),
        ("42", "6 × 7 = 42 (\\boxed{42})"),
        ("42", "Answer: 42 \\boxed{42}"),
        ("42", "x = 42 \\boxed{42}"),
        ("42", "Q3 \\boxed{42}"),
        ("42", "Solution 1 \\boxed{42}"),
        ("42", "Day 6 \\boxed{42}"),
        ("42", "for n = 6 \\boxed{42}"),
        ("42", "When n = 6,\\boxed{42}"),
        ("42", "(iii)\\boxed{42}"),
    ],
)
def test_both_graders_pay_an_honest_answer(gold: str, reply: str) -> None:
    assert verify(reply, gold, symbolic=False).correct
    assert declared_integer(reply) == int(gold)


@pytest.mark.parametrize(
    ("gold", "reply"),
    [
        ("C", "\\boxed{C} or D"),
        ("C", "\\boxed{C}, D"),
        ("C", "\\boxed{C} and D"),
        ("3/4", "\\boxed{\\frac34} or 0.8"),
        ("17", "\\boxed{17} or 16 eggs"),
        ("1/8", "\\boxed{1/8} or 0.2"),
    ],
)
def test_another_answer_behind_a_mark_is_not_paid(gold: str, reply: str) -> None:
    assert not verify(reply, gold, symbolic=False).correct


@pytest.mark.parametrize(
    ("gold", "reply"),
    [
        ("17", "not <answer>17</answer>"),
        ("17", "It is not <answer>17</answer>"),
        ("17", "The answer is not <answer>17</answer>"),
        ("17", "It is not \\boxed{17}"),
        ("17", "Not \\boxed{17}"),
        ("17", "\\cancel{\\boxed{17}}"),
        ("17", "not #### 17"),
        ("17", "maybe <answer>16</answer> maybe <answer>17</answer>"),
        ("17", "<answer>15</answer> no <answer>16</answer> no <answer>17</answer>"),
        ("17", "<answer>16</answer> again <answer>17</answer>"),
        ("17", "Perhaps \\boxed{16}, perhaps \\boxed{17}"),
        ("17", "could be \\boxed{16}, could be \\boxed{17}"),
        ("17", "The answer is 16? The answer is 17?"),
        ("17", "\\boxed{16}, however \\boxed{17}"),
        ("17", "\\boxed{16} \\boxed{17}"),
        ("17", "The answer is 16. The answer is 17."),
        ("17", "\\boxed{16}\n\\boxed{17}"),
        ("-20", "– \\boxed{20}"),
        ("17", "17\nCheck, because this is wrong: 17 = 17"),
        ("17", "The answer is 17.\nCheck shows it is wrong: 17 = 17"),
        ("17", "17\nVerification failed, the answer is 18: 17 = 17"),
        ("17", "\\boxed{17}\nCheck shows that is 18 instead: 17 = 17"),
        ("17", "17\nCheck: 17 = 17 \n18 = 18"),
        ("17", '{"answer": 17, "check": "failed: answer is 18"}'),
        ("17", '{"answer": 17, "confidence": "the answer is wrong"}'),
        ("17", '{"answer": 17, "work": "or 18"}'),
        ("17", "\\boxed{17} \\text{ or } 18"),
        ("17", "\\boxed{17}\n18"),
        ("17", "\\boxed{17} (wrong)"),
        ("17", "\\boxed{17} is not the answer"),
    ],
)
def test_neither_grader_pays_an_answer_that_is_denied_or_one_of_several(gold: str, reply: str) -> None:
    assert not verify(reply, gold, symbolic=False).correct
    assert declared_integer(reply) != int(gold)
