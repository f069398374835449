"""Calls written as text: JSON, Python keywords, words; what cannot be read says what to mend."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial

import pytest

from envs.tools.text_calls import parse_reply_calls, parse_single_call, parse_text_calls, parse_word_call
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


SEND = '{"name": "send", "arguments": {"fruit": "pears"}}'
DONE = '{"name": "done"}'
PRETTY = json.dumps(json.loads(SEND), indent=2)


def reply_calls(text: str) -> list[str]:
    return [call.name for call in parse_reply_calls(text, parse_text_calls)]


@pytest.mark.parametrize(
    "text",
    [
        f"{SEND}\n{DONE}",
        f"I send them, then I am done.\n\n{SEND}\n{DONE}\n",
        f"[{SEND}, {DONE}]",
        f"{SEND} {DONE}",
        f"{SEND}, {DONE}",
        f"send(fruit='pears')\n{DONE}",
        f"Now:\n```json\n{SEND}\n{DONE}\n```",
        f"```\n[\n{SEND},\n{DONE}\n]\n```",
        f"[\n{SEND},\n{DONE}\n]",
        f"So be it.\n<tool_call>\n{SEND}\n</tool_call>\n<tool_call>{DONE}</tool_call>",
    ],
)
def test_all_calls_at_the_end_of_a_reply_are_read_in_their_order(text: str) -> None:
    assert reply_calls(text) == ["send", "done"]


@pytest.mark.parametrize(
    "text", [PRETTY, f"Pears it is.\n{PRETTY}", f"```json\n{PRETTY}\n```", f"<tool_call>{PRETTY}</tool_call>"]
)
def test_a_call_may_take_several_lines(text: str) -> None:
    assert reply_calls(text) == ["send"]


@pytest.mark.parametrize(
    "text",
    [
        "Which fruit?",
        "```python\nx = 1\n```",
        f"First I thought of {SEND}.\n\nWhich fruit?",
        "{\n}",
        "]",
        "",
        "```",
        "``````",
    ],
)
def test_a_reply_that_ends_with_words_has_no_call(text: str) -> None:
    assert reply_calls(text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"I call {SEND}",
        f"{SEND}\nPlease wait.",
        f"{SEND} {{",
        f"{DONE}\n</tool_call>",
        "<tool_call>pears</tool_call>",
        f"<tool_call>{SEND[:-1]}</tool_call>",
        f"{SEND[:-1]}\n{DONE}",
    ],
)
def test_a_call_that_would_not_be_made_is_an_error(text: str) -> None:
    with pytest.raises(ToolError, match=r"alone|form"):
        reply_calls(text)


def test_long_replies_are_read_in_linear_time() -> None:
    for part in (
        "<tool_call>",
        "</tool_call>",
        "```\n",
        "{",
        "}\n",
        f"{DONE}\n",
        "[" * 50 + "\n",
        f"<tool_call>{DONE}</tool_call>",
        '{"name": ,}',
        '{"\\"',
        "**`- ",
        ", ",
    ):
        for size in (10_000, 1_000_000):
            with suppress(ToolError):
                reply_calls(part * (size // len(part)))


FREE_FORMS = [
    '{"name": "send", "parameters": {"fruit": "pears"}}',
    '{"name": "send", "arguments": "{\\"fruit\\": \\"pears\\"}"}',
    '{"name": "send", "arguments": {"fruit": "pears",},}',
    '[{"name": "send", "arguments": {"fruit": "pears"}},]',
]
WRAPPED = [
    f"`{SEND}`",
    f"**{SEND}**",
    f"- {SEND}",
    f"1. {SEND}",
    f"Action: {SEND}",
    f"**Action:** `{SEND}`",
    f"I send them.\nTool call: {SEND}",
    "`send(fruit='pears')`",
]


@pytest.mark.parametrize("text", FREE_FORMS + WRAPPED)
def test_calls_in_the_forms_of_other_models_are_read_unless_exact_ones_are_asked_for(text: str) -> None:
    calls = parse_reply_calls(text, parse_text_calls)
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("send", {"fruit": "pears"})]
    try:
        exact = parse_reply_calls(text, partial(parse_text_calls, exact=True), exact=True)
    except ToolError:
        exact = []
    assert [call for call in exact if "pears" in call.arguments] == []


def test_commas_in_texts_stay() -> None:
    assert values('{"name": "send", "arguments": {"fruit": ",}\\",]",},}') == [("send", {"fruit": ',}",]'})]


@pytest.mark.parametrize(
    "text",
    [
        f"> {SEND}",
        f"The page says: {SEND}",
        f'The page says "{SEND}"',
        f"- {SEND}\n- {DONE}",
        f"> {SEND}\n`{DONE}`",
        f"The page says: - {SEND}",
        f"- {SEND}\nIs that right?",
        f"`{SEND}` is what the page asks for.",
        f"Action: {SEND} and then {DONE}",
    ],
)
def test_a_quoted_call_is_not_made(text: str) -> None:
    with suppress(ToolError):
        assert reply_calls(text) == []


def test_the_one_call_of_a_reply_is_told_from_code() -> None:
    assert parse_single_call(f"I send them.\n{SEND}") == ("send", '{"fruit": "pears"}')
    assert parse_single_call("print(end='')") is None and parse_single_call('{ echo "name"; }') is None
    assert parse_single_call(f"cat > a <<EOF\n{DONE}\nEOF", refuse_hidden=False) is None
    with pytest.raises(ToolError, match="one call a turn"):
        parse_single_call(f"{SEND}\n{DONE}")
