"""One integer is declared, in the forms that models write; several values in marks of one kind declare none."""

from __future__ import annotations

import time

import pytest

from envs.grading.integer import declared_integer
from envs.grading.math import verify


@pytest.mark.parametrize(
    "reply",
    [
        "143",
        "**143**\n\nVerification: 143 - 59 = 84",
        "**143**\n\nVerification: 84 + 59 = 143",
        '{"answer": 143, "confidence": 0.9}',
        '{"answer": "143"}',
        '```json\n{"answer": 143}\n```',
        '{"reasoning": "84 + 59 = 143", "answer": 143}',
        "143 (one hundred forty-three)",
        "**143** (one hundred and forty-three)",
        "The answer is 143 (one hundred forty-three).",
        "\\boxed{143}",
        "- \\boxed{143}",
        "$\\boxed{143}$.",
        "84 + 59 = \\boxed{143}",
        "<answer>143</answer>",
        "<answer> 143 </answer>",
        "Final answer: <answer>143</answer>.",
        "84 + 59 = 133? No, 84 + 59 = 143",
        "The answer is 142. Wait, no. The answer is 143.",
        "\\boxed{142}. Actually, I made an error: \\boxed{143}",
        "The answer is 143. So the answer is 143.",
        "**Answer:** 143",
        "Sure! 84 + 59 = 143.",
        "To add 84 and 59:\n\n1. 4 + 9 = 13, carry 1.\n2. 8 + 5 + 1 = 14.\n\nSo the answer is **143**.",
        "84 + 59\n= 80 + 50 + 4 + 9\n= 130 + 13\n= 143",
        "Answer: 143\n\nCheck: 143 - 59 = 84.",
        "143\n\n(84 + 59 = 143)",
        "Let me compute: 84+59. 80+50=130, 4+9=13, total 143.\n\\boxed{143}",
        "143 ✓",
        "The sum is 143.\n\nCheck: 143 - 84 = 59",
        "#### 143",
        "84 + 59 equals 143.",
        "The answer is $143$.",
        "\\(143\\)",
        "\\[\\boxed{143}\\]",
        "The final answer is \\(\\boxed{143}\\)",
        "I think the answer is 143!",
        "Answer = 143",
        "Is the answer 142? No. The answer is 143.",
    ],
)
def test_a_natural_reply_declares_its_integer(reply: str) -> None:
    assert declared_integer(reply) == 143


@pytest.mark.parametrize(
    "reply",
    [
        "\\boxed{142} \\boxed{143}",
        "The answer is 142. The answer is 143.",
        "The answer is 142.\nThe answer is 143.",
        "\\boxed{142}\n\\boxed{143}",
        "#### 142\n#### 143",
        "<answer>142</answer><answer>143</answer>",
        "84 + 59 = 142, 84 + 59 = 143",
        "-\\boxed{143}",
        "2\\boxed{143}",
        "\\boxed{143} + 1",
        "Anything but <answer>143</answer>.",
        "<answer>143</answer> would be a mistake.",
        "\\boxed{143} would be a mistake.",
        "143 (one hundred forty-two)",
        "The answer is 143 (one hundred forty-two)",
        "\\boxed{143} or so",
        "\\boxed{143} or one hundred forty-two",
        '{"answer": 143, "answer": 142}',
        '{"answer": [142, 143]}',
        '{"answer": 142, "result": 143}',
        "This is wrong:\n\\boxed{143}",
        "Not the answer:\n143",
        "143\n\nCheck: or 142",
        "143\n\nCheck: 142",
        "Answer: 142. Answer: 143.",
        "Answer: 142\nAnswer: 143",
        "\\boxed{142}, and also \\boxed{143}",
        "<answer>142</answer> or <answer>143</answer>",
        "The answer is 142 \\boxed{143} or \\boxed{142}",
        "Avoid <answer>143</answer>",
        "I reject \\boxed{143}.",
        "\\boxed{143}?",
        "\\boxed{143}, 142",
    ],
)
def test_several_values_a_hedge_and_a_denial_do_not_declare_an_integer(reply: str) -> None:
    assert declared_integer(reply) != 143


@pytest.mark.parametrize(
    ("value", "reply"),
    [
        (42, "1. 6+6 = \\boxed{12}\n2. 12 + 30 = \\boxed{42}\n\nFinal answer: 42"),
        (42, "Step 1: \\boxed{36}\nStep 2: \\boxed{42}\n\n**Final Answer:** \\boxed{42}"),
        (42, "1) \\boxed{36}\n2) \\boxed{42}\n\n#### 42"),
        (42, "Intermediate answer: 36. Final answer: 42."),
        (42, "\\boxed{36}\n\nNext, add 6.\n\n\\boxed{42}"),
        (143, "Step 1 answer: 130\nStep 2 answer: 13\nFinal answer: 143"),
        (42, '{"answer": "42 apples"}'),
        (42, '{"answer": "$42"}'),
        (42, '{"answer": "\\\\boxed{42}"}'),
        (42, '{"answer": "6*7 = 42"}'),
        (42, "\\boxed{16}, \\boxed{17}\n\nBut neither fits, as 6 × 7 is larger.\n\n42"),
        (143, "84 + 59 = 142\n\nLet me add once more.\n\n84 + 59 = 143"),
        (42, "\\boxed{42} is not wrong."),
        (42, "\\boxed{42}? Yes."),
    ],
)
def test_the_result_of_an_earlier_step_is_no_rival(value: int, reply: str) -> None:
    assert declared_integer(reply) == value


@pytest.mark.parametrize(
    ("value", "reply"),
    [
        (17, "perhaps <answer>17</answer>"),
        (17, "84-67=16\n84-67=18\n84-67=17"),
        (17, "#### 16\n#### 17"),
        (17, "Final answer: 16\nFinal answer: 17"),
        (17, "Final answer: 16. Final answer: 17."),
        (17, "\\boxed{16}\n\nFinal answer: \\boxed{16} \\boxed{17}"),
        (17, "Perhaps the answer is 17"),
        (17, "The answer is 16.\nThe answer is 17."),
        (17, "#### 16\nFinal answer: 17"),
    ],
)
def test_guesses_and_lists_declare_no_integer(value: int, reply: str) -> None:
    assert declared_integer(reply) != value


@pytest.mark.parametrize("piece", [" ", "\n", "-", "7", "(", ",;", "wait ", "= 3 ", "a"])
@pytest.mark.parametrize("head", ["answer is 3 ", "\\boxed{3", "3\nCheck: 3 = 3 "])
def test_what_follows_a_value_is_read_in_linear_time(head: str, piece: str) -> None:
    start = time.process_time()
    declared_integer(head + piece * (80_000 // len(piece)))
    verify(head + piece * (80_000 // len(piece)), "3", symbolic=False)
    assert time.process_time() - start < 2.0
