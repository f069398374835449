"""One integer is declared, in the forms that models write; several values in marks of one kind declare none."""

from __future__ import annotations

import pytest

from envs.grading.integer import declared_integer


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
