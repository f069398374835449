"""Decoration: what surrounds an answer is taken off in layers, and never a part of it or one of two answers."""

from __future__ import annotations

import pytest

from envs.grading.decoration import undecorated


@pytest.mark.parametrize(
    "text",
    [
        "5",
        " **5** ",
        "***5***",
        "`5`",
        "$5$",
        "$$5$$",
        "\\(5\\)",
        "\\[ 5 \\]",
        "\\boxed{5}",
        "$\\boxed{\\text{5}}$",
        "**5**.",
        "“5”",
        "```\n5\n```",
        "```text\n**5**\n```",
        "__5__",
    ],
)
def test_layers_around_the_whole_of_an_answer_are_taken_off(text):
    assert undecorated(text) == "5"


@pytest.mark.parametrize(
    "text",
    [
        "**4** or **5**",
        "$4$, $5$",
        "\\boxed{4} \\boxed{5}",
        "~~5~~",
        "\\cancel{5}",
        "$5",
        "_ Q\nQ _",
        "2*x**3",
        "```\n4\n```\n```\n5\n```",
        "5.",
        "**",
        "",
        "['1', '2']",
        "`" * 49_000 + "\n" + "`" * 48_999,  # at once
    ],
)
def test_what_is_a_part_of_the_answer_stays(text):
    assert undecorated(text) == text


def test_a_formula_with_powers_can_be_bold():
    assert undecorated("**9*x**6/2 - 3*x**4 + C**") == "9*x**6/2 - 3*x**4 + C"
