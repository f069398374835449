"""Gemma 4's calls, `<|tool_call>call:TOOL{key:<|"|>text<|"|>,key:1}<tool_call|>`, and its reasoning channel."""

from __future__ import annotations

import re
from typing import Any

from agents.tool_calls.parsing import (
    MAX_DEPTH,
    Call,
    CallError,
    ToolFormat,
    ToolReply,
    Types,
    make_call,
    read_blocks,
    read_json,
)

START, END, QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
CHANNEL, CHANNEL_END = "<|channel>", "<channel|>"
_PLAIN = re.compile(r"[^,{}\[\]<]*")
_KEY = re.compile(r"[^:,{}\[\]<]*")


def _read(text: str, types: Types) -> ToolReply:
    return read_blocks(text, START, END, _read_call)


def _read_call(text: str) -> Call:
    name, brace, _ = text.strip().removeprefix("call:").partition("{")
    if not text.strip().startswith("call:") or not brace:
        raise CallError("it does not begin with call:TOOL{")
    reader = _Reader(text.strip()[len("call:") + len(name) :], name)
    arguments = reader.value(0)
    if reader.position < len(reader.text):
        raise CallError("there is text after its arguments", name)
    return make_call(name, arguments)


class _Reader:
    """Reads one value of the arguments' notation after the other, from left to right."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name, self.position = text, name, 0

    def value(self, depth: int) -> Any:
        """Read a value. Raises CallError."""
        if depth > MAX_DEPTH:
            raise CallError(f"it is nested more than {MAX_DEPTH} deep", self.name)
        if self._skip(QUOTE):
            return self._quoted()
        if self._skip("{"):
            items: dict[str, Any] = {}
            while not self._skip("}"):
                key = self._quoted() if self._skip(QUOTE) else self._match(_KEY)
                self._expect(":")
                items[key] = self.value(depth + 1)
                if not self._skip(",") and not self.text.startswith("}", self.position):
                    self._expect("}")
            return items
        if self._skip("["):
            values: list[Any] = []
            while not self._skip("]"):
                values.append(self.value(depth + 1))
                if not self._skip(",") and not self.text.startswith("]", self.position):
                    self._expect("]")
            return values
        word = self._match(_PLAIN)
        try:
            return read_json(word)
        except CallError:
            raise CallError(f"{word[:40]!r} is no value; texts stand between {QUOTE}", self.name) from None

    def _quoted(self) -> str:
        end = self.text.find(QUOTE, self.position)
        if end < 0:
            raise CallError(f"a text is not closed by {QUOTE}", self.name)
        text, self.position = self.text[self.position : end], end + len(QUOTE)
        return text

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        return match[0].strip()

    def _skip(self, sign: str) -> bool:
        while self.text[self.position : self.position + 1].isspace():
            self.position += 1
        is_there = self.text.startswith(sign, self.position)
        self.position += len(sign) * is_there
        return is_there

    def _expect(self, sign: str) -> None:
        if not self._skip(sign):
            place = self.text[self.position : self.position + 20]
            raise CallError(f"{sign} is missing before {place!r}" if place else f"{sign} is missing", self.name)


def _set_thinking(text: str) -> str:
    thinking, end, answer = text.rpartition(CHANNEL_END)
    if not end:
        head, start, thinking = text.partition(CHANNEL)
        return f"{head}<think>{thinking.removeprefix('thought')}" if start else text
    thinking = thinking.replace(CHANNEL_END, "").replace(CHANNEL + "thought", "").strip("\n")
    return f"<think>\n{thinking}\n</think>\n\n{answer}" if thinking.strip() else answer


GEMMA4 = ToolFormat("gemma4", f"{START}call:TOOL{{ARGUMENT:{QUOTE}VALUE{QUOTE},OTHER:1}}{END}", _read, _set_thinking)
