"""Read what the methods and arguments of an environment hold. A value of a wrong type is an error that names it.

Nothing is guessed: the text `"no"` is no flag, though Python takes it for true, and `"0.5"` is no number.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from envs.episodes.guide import STYLES, Guide
from envs.spaces import ROLES, message_error
from envs.types import Message, Messages, assistant

PLAIN = {dict}
MAX_SHOWN = 60  # characters of a value that an error shows


def read_flag(name: str, value: Any) -> bool:
    """Return True or False, as `value` is, or 1 or 0 for it. Raises TypeError, which begins with `name`, for others."""
    if value is True or value is False:
        return value
    if isinstance(value, np.bool_ | int | float | np.number) and value in (0, 1):
        return bool(value)
    raise TypeError(f"{name} must be True or False, not {_show(value)}")


def read_reward(name: str, value: Any) -> float:
    """Return `value` as a float. Raises TypeError or ValueError, which begin with `name`, unless it is finite."""
    reward = read_number(name, value)
    if not isfinite(reward):
        raise ValueError(f"{name} is {reward}, not a finite number")
    return reward


def read_number(name: str, value: Any) -> float:
    """Return `value`, a real number, as a float. Raises TypeError, which begins with `name`, for other types."""
    if type(value) is float:
        return value
    try:
        if not isinstance(value, str | bytes | bytearray):
            return float(value)
    except (TypeError, ValueError, RuntimeError):  # the last one is of a tensor of several elements
        pass
    raise TypeError(f"{name} must be a number, not {_show(value)}")


def read_numbers(name: str, values: Any, *, finite: bool = False) -> dict[str, float]:
    """Return a mapping from names to numbers as a dict of floats.

    Raises TypeError for another type, a name that is no str or a value that is no number, and if `finite` is set
    ValueError for one that is not finite. The message begins with `name`.
    """
    if type(values) is dict and not values:  # as in most steps
        return {}
    if type(values) is not dict and not isinstance(values, Mapping):
        raise TypeError(f"{name} must be a dict of numbers, such as {{'format': 0.1}}, not {_show(values)}")
    numbers = {}
    for key, value in values.items():
        if not isinstance(key, str):
            raise TypeError(f"{name} has the name {_show(key)}, which must be a str")
        label = f"{name}[{key!r}]"
        numbers[key] = read_reward(label, value) if finite else read_number(label, value)
    return numbers


def read_messages(name: str, messages: Any) -> Messages:
    """Return messages as a tuple. Raises TypeError, which begins with `name`, for other values."""
    if type(messages) is tuple and {*map(type, messages)} <= PLAIN:  # as in most steps
        _check_fields(name, messages)
        return messages
    hint = "such as (user('...'),)"
    if isinstance(messages, Mapping | str) or not isinstance(messages, Iterable):
        what = "a single message" if isinstance(messages, Mapping) else _show(messages)
        raise TypeError(f"{name} must be a tuple of messages, {hint}, not {what}")
    copies = tuple(messages)
    for message in copies:
        if not isinstance(message, Mapping):
            raise TypeError(f"{name} must be a tuple of messages, {hint}; {_show(message)} is none")
    _check_fields(name, copies)
    return copies


def _check_fields(name: str, messages: Iterable[Any]) -> None:
    """Raise TypeError for a message without a role, and one whose content is neither a text nor a list of blocks."""
    for message in messages:
        if type(message.get("content")) is str and message.get("role") in ROLES:
            continue
        content = message.get("content")
        if error := message_error({**message, "content": [*content]} if isinstance(content, tuple) else message):
            raise TypeError(f"{name}: {error}")


def read_reset(result: Any) -> tuple[Messages, Mapping[str, Any]]:
    """Return messages and info of a `reset` that a class may have overridden. Raises TypeError for anything else."""
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Mapping):
        raise TypeError(f"reset() must return (messages, info), not {_show(result)}")
    return read_messages("what reset() returns", result[0]), result[1]


def read_step(result: Any) -> tuple[Messages, float, bool, bool, Mapping[str, Any]]:
    """Return the result of a `step` that a class may have overridden. Raises TypeError or ValueError for others."""
    if not isinstance(result, tuple) or len(result) != 5 or not isinstance(result[4], Mapping):
        raise TypeError(f"step() must return (messages, reward, terminated, truncated, info), not {_show(result)}")
    messages, reward, terminated, truncated, info = result
    return (
        read_messages("what step() returns", messages),
        read_reward("the reward", reward),
        read_flag("terminated", terminated),
        read_flag("truncated", truncated),
        info,
    )


def read_replies(name: str, replies: Any) -> Iterator[Message]:
    """Return an iterator over replies, in which a str becomes a message. Raises ValueError, which begins with `name`.

    It does so for a text and for a single message, which `return` in place of `yield` gives, and for what is no
    iterable.
    """
    if isinstance(replies, (str, Mapping)) or not isinstance(replies, Iterable):
        raise ValueError(f"{name} must yield replies, not return a {type(replies).__name__}")
    return (_read_reply(name, reply) for reply in replies)


def _read_reply(name: str, reply: Any) -> Message:
    if isinstance(reply, str):
        return assistant(reply)
    if not isinstance(reply, Mapping):
        raise ValueError(f"{name} gives {_show(reply)}; a reply is an assistant message or a str")
    return reply  # type: ignore[return-value]


def read_guide(guide: Any) -> Guide | None:
    """Return a guide or None. Raises TypeError for anything else, such as a text."""
    if guide is None or isinstance(guide, Guide):
        return guide
    raise TypeError(f"guide() must return an envs.episodes.guide.Guide or None, not {_show(guide)}")


def check_tools(tools: Any) -> None:
    """Raise TypeError unless `tools` is a sequence of OpenAI function schemas, ValueError for wrong or equal names."""
    if isinstance(tools, Mapping | str) or not isinstance(tools, Iterable):
        raise TypeError(f"tools must be a list of OpenAI function schemas, not {_show(tools)}")
    names: set[str] = set()
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            hint = "envs.tools.tool_env.ToolEnv makes them from methods"
            raise TypeError(f"{_show(tool)} in tools is no OpenAI function schema; {hint}")
        name, parameters = function["name"], function.get("parameters", {})
        if not name or name in names or any(map(str.isspace, name)):
            fault = "is the name of two" if name in names else "has white space or is empty"
            raise ValueError(f"tools: {name!r} {fault}; a model calls each by a name of its own")
        if not isinstance(parameters, Mapping):
            raise TypeError(f"tools: parameters of {name!r} must be a JSON schema, a dict, not {_show(parameters)}")
        names.add(name)


def check_settings(
    style: str, max_turns: Any, max_seconds: float | None, render_mode: str | None, render_modes: Sequence[str]
) -> int:
    """Check the arguments that all environments share; return `max_turns` as an int.

    Raises ValueError for a style, a limit or a render mode that is none.
    """
    if style not in STYLES:
        raise ValueError(f"style {style!r} is not one of {', '.join(STYLES)}")
    if max_seconds is not None and not max_seconds > 0:
        raise ValueError(f"max_seconds must be above 0, not {max_seconds}")
    if render_mode is not None and render_mode not in render_modes:
        raise ValueError(f"render_mode {render_mode!r} is not one of {', '.join(render_modes)}")
    try:
        number = operator.index(max_turns)
    except TypeError:
        raise ValueError(f"max_turns must be a whole number, not {_show(max_turns)}") from None
    if number < 1:
        raise ValueError(f"max_turns must be at least 1, not {number}")
    return number


def _show(value: Any) -> str:
    """The value with its type, in few characters; the type alone of what is not shown alike in every process."""
    if value is None:
        return "None"
    kind = type(value).__name__
    if not isinstance(value, str | bytes | int | float | complex | list | tuple | dict):
        return f"a value of type {kind}"
    text = " ".join(repr(value).split())
    if " at 0x" in text:
        return f"a value of type {kind}"
    return f"the {kind} {text[:MAX_SHOWN]}{'...' * (len(text) > MAX_SHOWN)}"
