"""gpt-oss: messages in channels. `analysis` is reasoning, `commentary` with a recipient a call, the rest the answer."""

from __future__ import annotations

import re

from agents.tool_calls.parsing import (
    Call,
    CallError,
    MalformedCall,
    ToolFormat,
    ToolReply,
    Types,
    call_or_malformed,
    make_call,
    read_json,
)

_TOKENS = re.compile(r"(<\|(?:start|channel|constrain|message|end|return|call)\|>)")
_RECIPIENT = re.compile(r"to=(\S+)")
_NAMESPACE = "functions."
# What `_set_thinking` leaves of a call for `_read`, which sees the answer only.
_CALL, _CALL_END = "<|call|>", "<|end|>"


def _messages(text: str) -> list[tuple[str, str]]:
    """Header and body of each message of a reply, whose first header may begin in the prompt."""
    messages: list[tuple[str, str]] = []
    header, body, in_body = "", "", False
    for part in [*_TOKENS.split(text), "<|end|>"]:
        if part == "<|message|>":
            in_body = True
        elif part in ("<|end|>", "<|return|>", "<|call|>", "<|start|>"):
            if in_body or header.strip():
                messages.append((header, body))
            header, body, in_body = "", "", False
        elif in_body:
            body += part
        else:
            header += " " if part in ("<|channel|>", "<|constrain|>") else part
    return messages


def _set_thinking(text: str) -> str:
    """Reasoning in `<think>`, then the answer, then the calls as `<|call|>TOOL JSON<|end|>`."""
    if not _TOKENS.search(text):
        return text
    thinking: list[str] = []
    answer: list[str] = []
    calls: list[str] = []
    for header, body in _messages(text):
        recipient = _RECIPIENT.search(header)
        words = header.split()
        if recipient:
            calls.append(f"{_CALL}{recipient[1].removeprefix(_NAMESPACE)} {body}{_CALL_END}")
        elif "analysis" in words:
            thinking.append(body)
        else:
            answer.append(body or header)
    reasoning = "\n".join(filter(None, thinking))
    block = f"<think>\n{reasoning}\n</think>\n\n" if reasoning else ""
    return block + "\n".join(answer) + "".join(calls)


def _read(text: str, types: Types) -> ToolReply:
    content, *parts = text.split(_CALL)
    calls: list[Call | MalformedCall] = [call_or_malformed(_read_call, part.removesuffix(_CALL_END)) for part in parts]
    return ToolReply(content, calls)


def _read_call(text: str) -> Call:
    name, _, arguments = text.partition(" ")
    try:
        return make_call(name, read_json(arguments))
    except CallError as error:
        raise CallError(str(error), name) from None


GPT_OSS = ToolFormat(
    "gpt_oss",
    '<|channel|>commentary to=functions.TOOL <|constrain|>json<|message|>{"ARGUMENT": "VALUE"}<|call|>',
    _read,
    _set_thinking,
)
