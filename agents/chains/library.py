"""Skills: replies with gaps that a policy has stored, and the library of an episode that holds them.

A skill is data. It is carried out by filling its gaps with text, never by running it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agents.tool_calls.parsing import argument_types
from envs.types import Message, assistant, final_text

GAPS = 9
MAX_CHARACTERS = 20_000  # of a reply that a skill is filled in to: a gap may stand in it many times
MAX_LINE = 200  # characters of a skill's first line
_GAP = re.compile(r"\$([1-9])")
_NAME = re.compile(r"[A-Za-z]\w{0,31}", re.ASCII)


class Skill(NamedTuple):
    """A reply with gaps `$1` to `$9`.

    Attributes:
        name: What a reply calls it by: a letter, then letters, digits and `_`, at most 32 in all.
        purpose: What it is for, in the policy's words; one line.
        content: The text of the reply.
        calls: Its tool calls, each as a tool's name and arguments as JSON text.
    """

    name: str
    purpose: str
    content: str
    calls: tuple[tuple[str, str], ...] = ()

    def fill(self, values: Sequence[str], tools: Sequence[dict] = ()) -> Message | None:
        """Return the reply with `values` in its gaps; None if it would exceed `MAX_CHARACTERS`.

        A gap without a value stays as it is. In a tool call, a gap that is the whole of an argument takes the type that
        the schemas `tools` name for that argument, if the value is of that type; otherwise it is text.
        """
        texts = (self.content, *(arguments for _, arguments in self.calls))
        longest = max(map(len, values), default=0)
        if sum(len(text) + longest * len(_GAP.findall(text)) for text in texts) > MAX_CHARACTERS:
            return None
        types = argument_types(tools)
        calls = []
        for tool, arguments in self.calls:
            items = json.loads(arguments).items()
            calls.append(
                (tool, {key: _fill_value(value, values, types.get(tool, {}).get(key)) for key, value in items})
            )
        return assistant(_fill_text(self.content, values), tool_calls=calls)

    def describe(self) -> str:
        """Return the skill as text: its name and purpose on a line, and what it sends on those after it."""
        calls = [f"{tool} {arguments}" for tool, arguments in self.calls]
        return "\n".join(filter(None, (f"{self.name}: {self.purpose}".strip(": "), self.content, *calls)))


def read_skill(message: Message) -> Skill | None:
    """Return the skill that a reply describes; None if it describes none.

    Its first line is `NAME: PURPOSE`, what follows is the reply to store. Calls that could not be read, or whose
    arguments are no JSON object, make it none.
    """
    first, _, body = final_text(message).strip().partition("\n")
    name, colon, purpose = first.partition(":")
    calls = []
    for call in message.get("tool_calls") or ():
        if "error" in call or not _is_object(call["function"]["arguments"]):
            return None
        calls.append((call["function"]["name"], call["function"]["arguments"]))
    body = body.strip()
    if not colon or not _NAME.fullmatch(name.strip()) or len(first) > MAX_LINE or not (body or calls):
        return None
    return Skill(name.strip(), purpose.strip(), body, tuple(calls))


class Library:
    """The skills of an episode, at most `most` of them: the one that was stored or used longest ago goes first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._skills: dict[str, Skill] = {}  # in the order in which they were stored or used

    def __len__(self) -> int:
        return len(self._skills)

    def store(self, skill: Skill) -> None:
        """Add a skill; one of the same name is replaced."""
        self._skills.pop(skill.name, None)
        self._skills[skill.name] = skill
        if len(self._skills) > self.most:
            del self._skills[next(iter(self._skills))]

    def use(self, name: str) -> Skill | None:
        """Return the skill of this name, which is now the latest; None if there is none."""
        skill = self._skills.pop(name, None)
        if skill is not None:
            self._skills[name] = skill
        return skill

    def skills(self) -> list[Skill]:
        """Return all skills, sorted by name, so that using one does not change how the library is shown."""
        return [self._skills[name] for name in sorted(self._skills)]


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _fill_text(text: str, values: Sequence[str]) -> str:
    return _GAP.sub(lambda gap: values[int(gap[1]) - 1] if int(gap[1]) <= len(values) else gap[0], text)


def _fill_value(value: Any, values: Sequence[str], kind: Any) -> Any:
    if isinstance(value, str):
        text = _fill_text(value, values)
        return _typed(text, kind) if _GAP.fullmatch(value) and text != value else text
    if isinstance(value, list):
        return [_fill_value(item, values, None) for item in value]
    if isinstance(value, Mapping):
        return {key: _fill_value(item, values, None) for key, item in value.items()}
    return value


def _typed(text: str, kind: Any) -> Any:
    """The value of an argument of the schema type `kind`: number or truth value if `text` writes one, else `text`."""
    if kind not in ("integer", "number", "boolean"):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = isinstance(value, bool) if kind == "boolean" else is_number and (kind == "number" or isinstance(value, int))
    return value if fits and value == value and abs(value) < 1e300 else text
