"""Right answers in the forms that language models write are paid; several, denied and doubted ones are not."""

from __future__ import annotations

import pytest

from envs.grading.math import verify


@pytest.mark.parametrize(
    "reply",
    [
        "4 / 9",
        "The value is 4 / 9.",
        "$4 / 9$",
        "**4 / 9**",
        "4/ 9",
        "4⁄9",
        "4 ⁄ 9",
        "4/9 ≈ 0.44",
        "4/9 (≈0.444)",
        "The value is 4/9 ≈ 0.44.",
        "The value is 4 / 9 (≈ 0.444).",
        "The answer is 4 / 9.",
        "The sum is:\n4/9 ≈ 0.44",
        "\\boxed{4/9 \\approx 0.44}",
    ],
)
def test_a_fraction_may_have_spaces_and_its_rounded_value(reply: str) -> None:
    assert verify(reply, "4/9", symbolic=False).correct


@pytest.mark.parametrize(
    "reply",
    [
        "4 / 9 or 5 / 9",
        "5 / 9, 4 / 9",
        "1 / 4 / 9",
        "3 + 4 / 9",
        "not 4 / 9",
        "4/9 ≈ 0.54",
        "4/9 ≈ 5/9",
        "5/9 ≈ 0.55, 4/9 ≈ 0.44",
        "0.44 ≈ 4/9 or 5/9",
        "about 4 / 9",
        "4 / 9 * 2",
    ],
)
def test_several_or_other_fractions_are_wrong(reply: str) -> None:
    assert not verify(reply, "4/9", symbolic=False).correct


@pytest.mark.parametrize("reply", ["96 / 8", "The value is 96 / 8."])
def test_a_quotient_that_is_not_worked_out_is_wrong(reply: str) -> None:
    assert not verify(reply, "12", symbolic=False).correct
