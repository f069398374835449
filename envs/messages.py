"""Check, copy and format chat messages at the boundary of an environment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from envs.spaces import message_error
from envs.types import Message, assistant, user

_ATOMS = frozenset((str, int, float, bool, type(None)))  # a copy of these is the value itself
_encode = json.JSONEncoder(sort_keys=True, default=repr).encode
_encode_text = json.encoder.encode_basestring_ascii
# Lone surrogates, which have no UTF-8, and control characters other than tab and the ends of lines.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]|\r(?!\n)")


def parse_action(action: Any) -> Message:
    """Copy an assistant message, or build one whose content is the given str.

    Keys whose value is None are dropped, and an agent's own key `skill`. Raises TypeError for an action of another
    type, ValueError for a message that is malformed or has another role.
    """
    if isinstance(action, str):
        return assistant(action)
    if not isinstance(action, Mapping):
        raise TypeError(f"an action is an assistant message or a str, not {type(action).__name__}")
    error = message_error(action)
    if error is None and action["role"] != "assistant":
        error = f"role is {action['role']!r}, not 'assistant'"
    if error:
        raise ValueError(f"not an assistant message: {error}")
    message: Any = {
        key: value if type(value) is str else copy_value(value)
        for key, value in action.items()
        if value is not None and key != "skill"  # OpenAI's client has None; skills are the agent's own
    }
    message.setdefault("content", "")
    return message


def copy_message(message: Mapping[str, Any]) -> Message:
    """Copy a message so that the copy shares no mutable value with it."""
    return {key: value if isinstance(value, str) else copy_value(value) for key, value in message.items()}  # type: ignore


def copy_value(value: Any) -> Any:
    """Copy JSON-able data so that the copy shares no mutable value with it; several times faster than `deepcopy`."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:  # most items are atoms, for which a call would take longer than the rest
        return {key: item if type(item) in _ATOMS else copy_value(item) for key, item in value.items()}
    if kind is list:
        return [item if type(item) in _ATOMS else copy_value(item) for item in value]
    return deepcopy(value)


def encode_message(message: Mapping[str, Any]) -> str:
    """Return a message as JSON, with its keys sorted; of what JSON cannot hold, the `repr`."""
    if len(message) == 2:  # nearly always a text and whose it is: a tenth of the time of an encoder, made for each text
        content, role = message.get("content"), message.get("role")
        if type(content) is str and type(role) is str:
            return f'{{"content": {_encode_text(content)}, "role": {_encode_text(role)}}}'
    return _encode(message)


def observed(message: Mapping[str, Any]) -> Message:
    """Copy a message of an environment for the policy, with all its texts `printable`."""
    return {  # type: ignore
        key: printable(value) if type(value) is str else _printable_copy(value) for key, value in message.items()
    }


def join_messages(messages: Sequence[Message]) -> Message:
    """Return one message of the user with the content of all, since chat templates refuse two of the user in a row."""
    if all(isinstance(message["content"], str) for message in messages):
        return user("\n\n".join(message["content"] for message in messages if message["content"]))
    blocks: list[Any] = []
    for message in messages:
        content = message["content"]
        blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": "user", "content": blocks}


def printable(text: str) -> str:
    r"""Write each lone surrogate and control character of a text as its Python escape: `\ud800`, `\x1b`, `\x00`.

    Programs, files and pages hold anything; what this returns can be encoded as UTF-8, tokenised and shown in a
    terminal. Tabs and ends of lines stay.
    """
    if text.isprintable() or text.replace("\n", "").isprintable():  # nearly always, and much faster than the search
        return text
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _printable_copy(value: Any) -> Any:
    if type(value) is str:
        return printable(value)
    if isinstance(value, dict):
        return {_printable_copy(key): _printable_copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_printable_copy, value))
    return deepcopy(value)


def format_message(message: Mapping[str, Any]) -> str:
    """Format a message as text: its texts, `[type]` for each other content block, `name(arguments)` for each tool call.

    The pieces are separated by spaces; the role is not among them.
    """
    content = message["content"]
    if not isinstance(content, str):
        content = " ".join(block.get("text", f"[{block['type']}]") for block in content)
    calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in message.get("tool_calls") or ()]
    return " ".join([content, *calls]).strip()
