"""Messages on their way into and out of an environment: checked, copied, shown."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from envs.spaces import message_fault
from envs.types import Message, assistant


def parsed(action: Any) -> Message:
    """A copy of an assistant message, or the one whose content a str is. Raises TypeError or ValueError for others."""
    if isinstance(action, str):
        return assistant(action)
    if not isinstance(action, Mapping):
        raise TypeError(f"an action is an assistant message or a str, not {type(action).__name__}")
    fault = message_fault(action)
    if fault is None and action["role"] != "assistant":
        fault = f"role is {action['role']!r}, not 'assistant'"
    if fault:
        raise ValueError(f"not an assistant message: {fault}")
    message = copied({key: value for key, value in action.items() if value is not None})  # as OpenAI's client has them
    message.setdefault("content", "")
    return message


def copied(message: Mapping[str, Any]) -> Message:
    """A copy that shares nothing that could be changed."""
    return {key: value if isinstance(value, str) else deepcopy(value) for key, value in message.items()}  # type: ignore


def plain(message: Mapping[str, Any]) -> str:
    """Its texts, the kinds of its other blocks, and its calls, on one line."""
    content = message["content"]
    if not isinstance(content, str):
        content = " ".join(block.get("text", f"[{block['type']}]") for block in content)
    calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in message.get("tool_calls") or ()]
    return " ".join([content, *calls]).strip()
