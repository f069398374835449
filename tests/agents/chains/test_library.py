"""Skills as data: how they are read, filled in and bounded."""

from __future__ import annotations

import json

import pytest

from agents.chains.library import MAX_CHARACTERS, Library, Skill, read_skill
from envs.types import assistant, text

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "buy",
            "parameters": {
                "type": "object",
                "properties": {"id": {"type": "string"}, "n": {"type": "integer"}, "gift": {"type": "boolean"}},
            },
        },
    }
]


def arguments(skill: Skill, *values: str) -> dict:
    filled = skill.fill(values, TOOLS)
    assert filled is not None
    return json.loads(filled["tool_calls"][0]["function"]["arguments"])


def test_a_reply_describes_a_skill() -> None:
    message = assistant("<think>hm</think>\nbuy_one: buys\nSure.", tool_calls=[("buy", {"id": "$1"})])
    assert read_skill(message) == Skill("buy_one", "buys", "Sure.", (("buy", '{"id": "$1"}'),))
    assert read_skill(assistant("low: below\n1\n2")) == Skill("low", "below", "1\n2")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "none",
        "name: only a purpose",
        "two words: x\n7",
        ": x\n7",
        "a" * 33 + ": x\n7",
        "a: " + "x" * 300 + "\n7",
        "<think>\na: x\n7",
        "7up: x\n7",
        "а: x\n7",
    ],
)
def test_another_reply_describes_none(content: str) -> None:
    assert read_skill(assistant(content)) is None


def test_calls_that_cannot_be_read_are_no_skill() -> None:
    for text_ in ("{", "[1]", "7", "[" * 100_000):
        assert read_skill(assistant("a: x", tool_calls=[("buy", text_)])) is None
    message = assistant("a: x", tool_calls=[("buy", {})])
    message["tool_calls"][0]["error"] = "wrong"
    assert read_skill(message) is None


def test_gaps_take_the_type_of_their_argument() -> None:
    skill = Skill("s", "", "", (("buy", '{"id": "$1", "n": "$2", "gift": "$3", "note": "$2 of $1", "more": ["$1"]}'),))
    found = arguments(skill, "42", "7", "true")
    assert found == {"id": "42", "n": 7, "gift": True, "note": "7 of 42", "more": ["42"]}
    assert arguments(skill, "x", "1e999", "yes")["n"] == "1e999"
    assert arguments(skill, "x", "7.5")["n"] == "7.5"
    assert arguments(skill)["id"] == "$1"


def test_a_value_is_no_gap_and_no_json() -> None:
    found = arguments(Skill("s", "", "", (("buy", '{"id": "$1$2"}'),)), '$2", "n": "9', "b")
    assert found == {"id": '$2", "n": "9b'}


def test_a_filled_reply_has_a_bound() -> None:
    skill = Skill("s", "", "$1" * 100)
    assert skill.fill(["x" * (MAX_CHARACTERS // 100 + 1)]) is None
    assert len(text(skill.fill(["x" * 100]))) == 10_000


def test_the_library_is_bounded_and_forgets_what_is_not_used() -> None:
    library = Library(2)
    library.store(Skill("a", "", "1"))
    library.store(Skill("b", "", "2"))
    assert library.use("a") and library.use("c") is None
    library.store(Skill("c", "", "3"))
    assert [skill.name for skill in library.skills()] == ["a", "c"]
    library.store(Skill("a", "", "9"))
    assert [skill.content for skill in library.skills()] == ["9", "3"]
