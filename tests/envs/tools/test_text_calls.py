"""Calls written as text: JSON, Python keywords, words; what cannot be read says what to mend."""

from __future__ import annotations

import json

import pytest

from envs.tools.text_calls import parse_text_calls, parse_word_call
from envs.tools.tool import tool
from envs.types import ToolError


@tool
def send(fruit: str, amount: int = 1, note: str = "") -> None:
    """Send fruit."""


def values(line: str) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in parse_text_calls(line)]


def test_calls_are_json_objects_or_python_calls_with_keywords() -> None:
    assert values('{"name": "send", "arguments": {"fruit": "pears"}}') == [("send", {"fruit": "pears"})]
    assert values('[{"name": "a"}, {"name": "b", "arguments": {}}]') == [("a", {}), ("b", {})]
    assert values("send(fruit='pears', amount=-3)") == [("send", {"fruit": "pears", "amount": -3})]
    assert values("done()") == [("done", {})]


@pytest.mark.parametrize("line", ["", "done", "{", "[1, 2]", '{"reward": 1}', "see you (soon)", "send (a)", "[B]"])
def test_other_lines_are_no_calls(line: str) -> None:
    assert parse_text_calls(line) == []


@pytest.mark.parametrize(
    "line",
    [
        '{"name": "send", "arguments": {"fruit": }}',
        '{"name": "send", "arguments": "pears"}',
        '{"name": 3, "arguments": {}}',
        '{"name": ' + "[" * 9_000,
        "send('pears')",
        "send(**{'fruit': 'pears'})",
        "send(fruit=open('/etc/passwd'))",
        "send(fruit=)",
        "send(fruit=" + "(" * 1_000 + ")",
        "send(fruit={1, 2})",
    ],
)
def test_a_call_that_cannot_be_read_says_what_to_mend(line: str) -> None:
    with pytest.raises(ToolError, match=r"form|by name"):
        parse_text_calls(line)


def test_words_are_arguments_in_their_order_and_the_last_one_takes_the_rest() -> None:
    call = parse_word_call("send pears 3 with many thanks", {"send": send.schema})
    assert call and json.loads(call.arguments) == {"fruit": "pears", "amount": 3, "note": "with many thanks"}
    few = parse_word_call("send pears", {"send": send.schema})
    assert few and json.loads(few.arguments) == {"fruit": "pears"}
    wrong = parse_word_call("send pears many", {"send": send.schema})
    assert wrong and json.loads(wrong.arguments)["amount"] == "many"
    assert parse_word_call("ask send", {"send": send.schema}) is None
    assert parse_word_call("", {"send": send.schema}) is None
