"""Answers with words on their own line: what is taken, and what is doubted and therefore not."""

from __future__ import annotations

import pytest

from envs.grading.lines import after_words, only_braces
from envs.math.countdown import declared_expression
from envs.math.sets import Sets
from envs.types import assistant


@pytest.mark.parametrize(
    "line",
    [
        "The difference is {14, 16}.",
        "It is {14, 16}.",
        "So {14, 16}",
        "Result: {14, 16}",
        "difference = {14, 16}",
        "The members are 14 and 16. {14, 16}",
        "I take away 0, 13 and 19: {14, 16}",
    ],
)
def test_the_only_braces_of_a_line_are_its_set(line: str) -> None:
    assert only_braces(line) == "{14, 16}"


@pytest.mark.parametrize(
    "line",
    [
        "From {0, 14, 16} take away 0: {14, 16}",
        "{14, 16} or {14}",
        "14 and {16}",
        "{14, 16} and 3",
        "It is not {14, 16}",
        "It isn't {14, 16}",
        "The wrong answer is {14, 16}",
        "anything but {14, 16}",
        "Suppose {14, 16}",
        "I doubt it is {14, 16}",
        "The complement of {14, 16}",
        "{14, 16} is wrong",
        "{14, 16} or so",
        "{14, 16",
        "{x in {14, 16}}",
        "{14, 16}" * 1000,
    ],
)
def test_doubted_or_several_sets_are_none(line: str) -> None:
    assert only_braces(line) == ""


def test_a_set_in_a_sentence_is_paid_and_a_denied_one_is_not() -> None:
    with Sets() as env:
        for words, reward in (("The set is {}.", 1.0), ("I count again.\nThen it is {}", 1.0), ("It is not {}.", 0.0)):
            env.reset(seed=1)
            assert env.step(assistant(words.replace("{}", env.task.answer)))[1] == reward


@pytest.mark.parametrize(
    "reply", ["I write 6+12/4", "12/4 is 3, and 3+6 is 9: 6+12/4", "Half of it helps.\nSo I write 6+12/4."]
)
def test_an_expression_may_follow_words(reply: str) -> None:
    assert declared_expression(reply) == "6+12/4"


@pytest.mark.parametrize(
    "reply",
    [
        "I would not write 6+12/4",
        "Suppose 6+12/4",
        "Not: 6+12/4",
        "It is wrong to say: 6+12/4",
        "either 6+12/4",
        "6+12/4 is wrong",
        "I say 6+12/4 or 12/4+6",
        "3*7\n6+12/4",
        "3*7\nI write 6+12/4",
    ],
)
def test_an_expression_that_is_denied_is_none(reply: str) -> None:
    assert declared_expression(reply) != "6+12/4"


def test_words_without_anything_behind_them_lead_to_nothing() -> None:
    assert after_words("") == after_words("nothing here ") == after_words("6+3") == after_words("Answer:") == ""
