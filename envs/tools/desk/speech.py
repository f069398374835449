"""How a desk's replies and results are written in each style."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from envs.tools.desk.case import Case, Texts
from envs.types import Message, assistant


class OpenDesk(Protocol):
    """What an oracle reads of the environment; the replies so far have changed it."""

    case: Any
    memory: Any
    turns: int
    style: Any


class Speaker:
    """Writes an oracle's replies in the style of the episode."""

    def __init__(self, desk: OpenDesk) -> None:
        self._desk = desk

    def text(self, full: str, short: str) -> Message:
        """A message to the customer."""
        return assistant(short if self._desk.style == "short" else full)

    def calls(self, *calls: tuple[str, dict[str, Any]]) -> Iterator[Message]:
        """Calls of tools, in short style one a reply."""
        if self._desk.style != "short":
            yield assistant(tool_calls=calls, first_id=self._desk.turns)
            return
        for name, arguments in calls:
            yield assistant(" ".join([name, *map(str, arguments.values())]))

    def call(self, name: str, /, **arguments: Any) -> Message:
        """One call of a tool."""
        return next(self.calls((name, arguments)))

    def facts(self, case: Case, sentences: dict[str, str], count: int) -> Iterator[Message]:
        """Tell the first `count` facts of the case, each in the sentence for its kind."""
        for kind, value in case.facts[:count]:
            yield self.text(sentences[kind].format(value), f"tell {'rule ' if kind == 'rule' else ''}{value}")


def call_line(name: str, /, **arguments: Any) -> str:
    """Return a call as a line of JSON."""
    return json.dumps({"name": name, "arguments": arguments})


def pick(texts: Sequence[Texts], place: int, *, is_short: bool) -> Message:
    """Return one of several replies in a style."""
    return assistant(texts[place][is_short])


def bare_values(result: str) -> str:
    """Return the values of a JSON text without keys and signs, `C123 Ada Abel 4.50`; other texts as they are."""
    try:
        value = json.loads(result)
    except ValueError:
        return result
    return " ".join(_values(value)) or "none"


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _values(each)
    elif value not in (None, "", False):
        yield str(value)
