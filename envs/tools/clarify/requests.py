"""Requests with details: what there is to ask for, the values of each detail, and how a user words them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Literal, get_args

Value = int | str
Values = Mapping[str, Value]

Day = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
Place = Literal["hall", "garden", "cellar", "loft", "lounge", "yard"]
Colour = Literal["red", "blue", "green", "black", "white", "gold"]
Size = Literal["xs", "s", "m", "l", "xl", "xxl"]
Fabric = Literal["cotton", "linen", "wool", "silk", "hemp", "fleece"]
Minutes = Literal[15, 20, 30, 45, 60, 90]
Room = Literal["ash", "birch", "cedar", "elm", "oak", "pine"]
EVENING, OFFICE, PEOPLE, SHIRTS = (17, 22), (8, 16), (2, 9), (2, 9)  # least and greatest number

OPENERS = ("Please {}.", "Hi! Could you {}?", "I would like you to {}.", "Hello, {}, please.")
UNKNOWN = "?"  # stands for a missing detail in short style
SHORT_LENGTH = 3  # letters of a word in short style


@dataclass(frozen=True)
class Detail:
    """One detail of a request.

    Attributes:
        name: Its name, which is the name of the argument too.
        values: All values that it may have.
        words: Regular expression of the words by which a question names it.
        phrase: How the user says it, with {} for the value.
    """

    name: str
    values: tuple[Value, ...]
    words: str
    phrase: str

    @property
    def bits(self) -> float:
        """The information that the answer to a question about it holds; all values are equally likely."""
        return log2(len(self.values))

    def say(self, value: Value) -> str:
        """Return the words of the user for a value: `on Monday`."""
        return self.phrase.format(str(value).capitalize() if self.name == "day" else value)

    def describe_values(self) -> str:
        """Return what values there are: `17 to 22`, or all of them."""
        values = self.values
        if isinstance(values[0], int) and values == tuple(range(values[0], values[0] + len(values))):
            return f"{values[0]} to {values[-1]}"
        return ", ".join(map(str, values))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled `words`, matched as whole words in any case."""
        return re.compile(rf"\b(?:{self.words})\b", re.IGNORECASE)


@dataclass(frozen=True)
class Kind:
    """A kind of request: the tool that fulfils it, its name in short style, the user's wish, and its details."""

    tool: str
    short: str
    wish: str
    details: tuple[Detail, ...]

    def find(self, question: str) -> list[Detail]:
        """Return the details that a question names."""
        return [detail for detail in self.details if detail.pattern.search(question)]

    def detail(self, name: str) -> Detail:
        """Return a detail by its name. Raises KeyError for another name."""
        return {detail.name: detail for detail in self.details}[name]

    @property
    def names(self) -> list[str]:
        """The names of the details, in their order."""
        return [detail.name for detail in self.details]


_DAY = Detail("day", get_args(Day), "days?|dates?|weekdays?", "on {}")
KINDS: dict[str, Kind] = {
    "table": Kind(
        "book_table",
        "book",
        "book a table",
        (
            _DAY,
            Detail("hour", tuple(range(EVENING[0], EVENING[1] + 1)), "hours?|time|o'clock", "at {} o'clock"),
            Detail("people", tuple(range(PEOPLE[0], PEOPLE[1] + 1)), "people|persons?|guests?|seats?", "for {} people"),
            Detail("place", get_args(Place), "places?|where|area", "in the {}"),
        ),
    ),
    "shirts": Kind(
        "order_shirts",
        "order",
        "order shirts",
        (
            Detail("count", tuple(range(SHIRTS[0], SHIRTS[1] + 1)), "count|how many|number|quantity", "{} of them"),
            Detail("colour", get_args(Colour), "colou?rs?", "in {}"),
            Detail("size", get_args(Size), "sizes?", "in size {}"),
            Detail("fabric", get_args(Fabric), "fabrics?|materials?|cloth", "made of {}"),
        ),
    ),
    "meeting": Kind(
        "schedule_meeting",
        "meet",
        "schedule a meeting",
        (
            _DAY,
            Detail("hour", tuple(range(OFFICE[0], OFFICE[1] + 1)), "hours?|time|o'clock", "at {} o'clock"),
            Detail("minutes", get_args(Minutes), "minutes|how long|duration|length", "for {} minutes"),
            Detail("room", get_args(Room), "rooms?|where|places?", "in room {}"),
        ),
    ),
}
_WORDS = {value for kind in KINDS.values() for detail in kind.details for value in detail.values}
EXPANSIONS = {word[:SHORT_LENGTH]: word for word in _WORDS if isinstance(word, str)}


def request_text(kind: Kind, values: Values, known: Collection[str], opener: int) -> str:
    """Return the user's request, which says the `known` details only: `Please book a table on Monday.`."""
    phrases = [detail.say(values[detail.name]) for detail in kind.details if detail.name in known]
    return OPENERS[opener % len(OPENERS)].format(", ".join([" ".join([kind.wish, *phrases[:1]]), *phrases[1:]]))


def short_form(kind: Kind, values: Values, known: Collection[str]) -> str:
    """Return the values of a request in short style, `mon ? 4 ?`."""
    return " ".join(str(values[name])[:SHORT_LENGTH] if name in known else UNKNOWN for name in kind.names)


def short_call(kind: Kind, values: Values) -> str:
    """Return the final call in short style, `book mon 19 4 hal`."""
    return f"{kind.short} {short_form(kind, values, kind.names)}"
