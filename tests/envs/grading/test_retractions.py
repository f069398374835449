"""An answer that the reply itself calls wrong, strikes out or replaces earns nothing; a contrast does not hide it."""

from __future__ import annotations

import pytest

from envs.grading.integer import declared_integer
from envs.grading.math import verify


@pytest.mark.parametrize(
    "reply",
    [
        "The answer is 18. Wait, no, it's 17.",
        "The answer is 18. Wait, no.\nIt's 17.",
        "The answer is 18. Wait, no.",
        "The answer is 18. Correction: 17.",
        "The answer is 18. Make that 17.",
        "> \\boxed{18}\n\nThe quoted answer is wrong; it is 17.",
        "The user wrote \\boxed{18}.",
        "\\boxed{18} is incorrect.",
        "$\\boxed{18}$ would be a mistake.",
        "<answer>18</answer> is wrong",
        "#### 18\nThat answer is wrong.",
        "\\cancel{\\boxed{18}}",
        "\\xcancel{\\boxed{18}}",
        "~~\\boxed{18}~~",
        "18 would be a mistake.",
        "Avoid 18.",
        "I reject 18.",
        "A: 16, B: 17, C: 18",
        "(A) 16 (B) 17 (C) 18",
    ],
)
def test_an_answer_that_is_retracted_or_one_of_a_list_is_not_paid(reply: str) -> None:
    assert not verify(reply, "18", symbolic=False).correct


@pytest.mark.parametrize("reply", ["18 would be a mistake.", "Avoid 18.", "I reject 18."])
def test_an_integer_that_is_rejected_is_not_declared(reply: str) -> None:
    assert declared_integer(reply) is None


@pytest.mark.parametrize(
    "reply",
    [
        "The result is 18, not 17.",
        "The answer is 18, not 17.",
        "Let's go with 18.",
        "Let’s go with 18.",
        "\\boxed{18}. Any other answer is wrong.",
        "\\boxed{18}\n\nThis is the total.",
        "Q: What is 9*2? A: 18",
        "Choice A: 18",
        "First I got 17, which was wrong.\n\\boxed{18}",
        "The answer is 18. Wait, let me check it: 9*2 = 18.",
        "The answer is 18. Wait, no mistakes there.",
        "The answer is 18 (wait, no units are needed).",
        "The answer is 18.\n\nCorrection: none needed.",
    ],
)
def test_a_contrast_or_a_choice_of_words_does_not_hide_an_answer(reply: str) -> None:
    assert verify(reply, "18", symbolic=False).correct


@pytest.mark.parametrize(
    "reply", ["The result is 17, not 18.", "The answer is 17, not 18.", "Let's say 18.", "Let x be 18"]
)
def test_the_other_side_of_a_contrast_and_an_assumption_are_not_paid(reply: str) -> None:
    assert not verify(reply, "18", symbolic=False).correct
