"""SQuAD's scores, on values worked out by hand."""

import pytest

from envs.tools.corpus.squad import exact_match, f1, normalise


@pytest.mark.parametrize(
    ("text", "words"),
    [("The  Old-Kent Road.", "oldkent road"), ("A", "a"), ("an apple, a day", "apple day"), ("!?", "")],
)
def test_normalised_texts(text, words):
    assert normalise(text) == words


def test_exact_match_is_with_any_answer_and_never_of_nothing():
    assert exact_match("the punched cards", ["cards", "Punched Cards!"])
    assert not exact_match("punched card", ["punched cards"])
    assert not exact_match("...", ["..."])
    assert exact_match("a", ["A"]) and not exact_match("the", ["A"])


def test_f1_of_words():
    assert f1("punched cards", ["punched cards"]) == 1.0
    assert f1("red punched cards", ["punched cards"]) == pytest.approx(0.8)  # precision 2/3, recall 1
    assert f1("cards cards", ["punched cards"]) == pytest.approx(0.5)  # a word counts as often as in both
    assert f1("loom", ["punched cards"]) == f1("", ["punched cards"]) == 0.0
