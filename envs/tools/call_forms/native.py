"""Tool calls in the forms that chat templates of model families ask for, where an endpoint passes them on as text.

Llama, Mistral, DeepSeek, Qwen-Coder, GLM, Kimi, Granite, Phi, gpt-oss, `<invoke>` and ReAct. `agents.tool_calls` reads
the one form of the model that is played; an environment does not know the model, so it reads each of them, at the end
of a reply only. Values in tags are texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from envs.types import ToolError

MAX_TEXT = 40_000  # characters at the end of a reply in which calls are searched
MAX_CALLS = 64
MAX_SIGNS = 1000  # of `<` in the arguments of a call in tags
FORM = '{"name": "TOOL", "arguments": {"KEY": "VALUE"}}'


class TextCall(NamedTuple):
    """A call read from text: the tool's name, and its arguments as JSON text."""

    name: str
    arguments: str


_NAME = r"(?P<name>[\w.-]{1,100})"
_KEY, _REST = r"(?P<key>[^<>\"\n]{1,100})", r"(?P<value>.*?)"
_ARGUMENTS = (  # in tags
    re.compile(rf"<parameter={_KEY}>\n?{_REST}\n?</parameter>", re.DOTALL),
    re.compile(rf'<parameter name="{_KEY}">\n?{_REST}\n?</parameter>', re.DOTALL),
    re.compile(rf"<arg_key>{_KEY}</arg_key>\s*<arg_value>{_REST}</arg_value>", re.DOTALL),
)
# A sign of each form; how a call begins; its arguments; how it ends.
_PARTS = (
    ("<tool_call>", rf"<tool_call>\s*<function={_NAME}>", ".*?", r"</function>\s*</tool_call>"),
    ("<tool_call>", rf"<tool_call>\s*{_NAME}\s*", "<arg_key>.*?", "</tool_call>"),
    ("<function=", rf"<function={_NAME}>", ".*?", "</function>"),
    ("<invoke", rf'(?:<function_calls>\s*)?<invoke name="{_NAME}">', ".*?", r"</invoke>(?:\s*</function_calls>)?"),
    (
        "[TOOL_CALLS]",
        rf"\[TOOL_CALLS\]\s*{_NAME}(?:\[CALL_ID\]\w{{1,40}})?\[ARGS\]",
        ".*?",
        r"(?=\[TOOL_CALLS\]|\Z)",
    ),
    ("<｜tool▁sep｜>", rf"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{_NAME}\n", ".*?", "<｜tool▁call▁end｜>"),
    ("<｜tool▁sep｜>", rf"<｜tool▁call▁begin｜>{_NAME}<｜tool▁sep｜>", ".*?", "<｜tool▁call▁end｜>"),
    (
        "<|tool_call_begin|>",
        rf"<\|tool_call_begin\|>\s*(?:functions\.)?{_NAME}(?::\d+)?\s*<\|tool_call_argument_begin\|>",
        ".*?",
        r"<\|tool_call_end\|>",
    ),
    (
        "<|channel|>",
        rf"<\|channel\|>\w+ to=functions\.{_NAME}[^\n<]*(?:<\|constrain\|>json)?<\|message\|>",
        ".*?",
        r"(?:<\|call\|>|\Z)",
    ),
    (
        "Action Input:",
        rf"^[*_]*Action:[*_]*[ \t]*`?{_NAME}`?[ \t]*\n[*_]*Action Input:[*_]*",
        r"[ \t]*\{[^\n]*\}",
        r"\Z",
    ),
)
_SIGNS = ("<", "[TOOL_CALLS]", "Action Input:")  # one of them is in every reply with such a call
_BRACKETS = re.compile(
    r"<｜tool▁calls▁(?:begin|end)｜>|<\|tool_calls_section_(?:begin|end)\|>|<｜end▁of▁sentence｜>|<\|eo[tm]_id\|>|</s>|<\|/tool_call\|>"
)
_JSON_MARKS = ("<|python_tag|>", "[TOOL_CALLS]", "<|tool_call|>")  # JSON follows


def native_calls(text: str) -> list[TextCall]:
    """Read the calls that a reply ends with in the form of a family of models; none for a reply without one.

    Raises ToolError for a call in such a form whose arguments cannot be read.
    """
    if not _may_hold_calls(text):
        return []
    end = text[-MAX_TEXT:]
    forms = [_form(*parts) for sign, *parts in _PARTS if 0 < end.count(sign) <= MAX_CALLS]
    end = _BRACKETS.sub("", end).rstrip() if forms else ""
    return next(filter(None, ([*_calls(end, form)] for form in forms)), [])


def plain_text(text: str) -> str:
    """Return a reply without the mark before calls in JSON at its end, such as `[TOOL_CALLS]`, on a line of its own."""
    for mark in _JSON_MARKS if _may_hold_calls(text) else ():
        before, found, calls = text.rpartition(mark)
        calls = _BRACKETS.sub("", calls).strip() if found else ""
        if calls.startswith(("{", "[")):
            return f"{before}\n{calls}"
    return text


def _may_hold_calls(text: str) -> bool:
    return any(sign in text for sign in _SIGNS)


@lru_cache
def _form(start: str, body: str, end: str) -> re.Pattern[str]:
    return re.compile(f"{start}(?P<body>{body}){end}", re.DOTALL | re.MULTILINE)


def _calls(text: str, form: re.Pattern[str]) -> Iterator[TextCall]:
    """The calls in one form with which a text ends, in their order."""
    matches: list[re.Match[str]] = []
    for match in form.finditer(text):
        if matches and text[matches[-1].end() : match.start()].strip():
            matches.clear()  # text between them: only what the reply ends with counts
        matches.append(match)
    if not matches or text[matches[-1].end() :].strip():
        return
    for match in matches:
        yield TextCall(match["name"], _arguments(match["name"], match["body"].strip()))


def _arguments(name: str, body: str) -> str:
    """The JSON text of arguments that are written in JSON or in tags."""
    for pattern in _ARGUMENTS if body.count("<") <= MAX_SIGNS else ():
        if parts := [*pattern.finditer(body)]:
            if pattern.sub("", body).strip():
                break
            return json.dumps({part["key"].strip(): part["value"] for part in parts})
    if not body:
        return "{}"
    try:
        values = json.loads(body.removeprefix("```json").removeprefix("```").removesuffix("```"))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ToolError(f"the arguments of {name} cannot be read; the form of a call is {FORM}")
    return json.dumps(values)
