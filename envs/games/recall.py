"""Repeat names of random signs, or find the one beside a key: a diagnostic of copying from the context."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, Literal

import numpy as np

from envs.env import Env
from envs.episodes.guide import Guide
from envs.games.game import check_range
from envs.grading.choice import find_choice, plain_answer
from envs.grading.doubts import denies
from envs.grading.lines import TAIL_LENGTH, last_line
from envs.procedural import drawn
from envs.types import Message, Messages, Outcome, Task, assistant, final_text, user

KEY = "games/Recall-v0"
LENGTHS = {"train": 20_000, "val": 200, "test": 400}
PAIRS, LONGEST = range(1, 1001), range(4, 33)
SHORTEST, SHORTEST_WORD = 2, 4  # characters of a name
MOST_BETWEEN = 3  # characters between two names
KEY_FIRST = 0.3  # share of the tables that stand behind the key, in short style
KINDS = ("repeat", "find")
SEPARATORS = (" ", ": ", " = ", " - ")  # between a key and its value
DELIMITERS = (", ", "; ", " | ", "\n")  # between pairs; names to repeat stand on one line
_NAME = re.compile(r"[^\W_]+")
_TAGS = re.compile(r"</?[a-z]{1,12}>|\\(?:boxed|text)\s{0,3}\{", re.IGNORECASE)
_LABEL = re.compile(r"(?:[:=]|\bare)[\s\"'*`({\[]*$")  # ends what may stand before the names
SIGNS = (ascii_lowercase, ascii_lowercase, ascii_uppercase + digits, digits)  # of which names are made


class Recall(Env):
    """Find the value that stands beside a key, in a table of random keys and values, or repeat random names.

    The table is that of multi-query associative recall with one query (Arora et al. 2023, Zoology, section 3), and
    of the retrieval of one needle among many (Hsieh et al. 2024, RULER, section 3.1). A model that is to learn how to
    use tools or pages must copy names and numbers from its prompt first, which `kind="repeat"` teaches in short texts.

    Observation: of `find` one user message with the table and the key, in one of several layouts: `AX: kvarq, B7: 4091,
    B7`, or the key first, `B7, AX: kvarq, B7: 4091`. In full style the instructions and `Which value belongs to B7?`
    after the table. Of `repeat` names, `repeat kvarq, 4091`; in full style `Repeat these names.` after them.
    Action: of `find` the value, `4091`; capitals do not count, longer replies are read as
    `envs.grading.choice.find_choice` says. Of `repeat` the names, `kvarq, 4091`, on one line, letter by letter, with
    spaces or any signs between them; a label that ends in a colon, an equals sign or "are" may stand before them.
    Reward: 1 if the value is right, or all names, else 0.
    Metrics: `right`, the share of the names that are right and in their place; 1 or 0 of a value.
    Episode end: after the first reply.
    Arguments: `kind`, "find" or "repeat"; `pairs`, the most pairs of a table, or names to repeat, 1 to 1000;
    `fewest`, the fewest, by default as many; `longest`, the most characters of a key, a value or a name, 4 to 32.
    Splits: drawn from seeds; no table, or list of names, is in two splits.
    Source and licence: generated. Version history: v0.
    """

    leaks = "the table holds the answer"

    def __init__(
        self,
        *,
        kind: Literal["find", "repeat"] = "find",
        pairs: int = 32,
        fewest: int | None = None,
        longest: int = 8,
        **limits: Any,
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind {kind!r} is not one of {', '.join(KINDS)}")
        self.kind = kind
        self.pairs = check_range("pairs", pairs, PAIRS)
        self.fewest = self.pairs if fewest is None else check_range("fewest", fewest, range(1, self.pairs + 1))
        self.longest = check_range("longest", longest, LONGEST)
        room = TAIL_LENGTH // (self.longest + MOST_BETWEEN)  # an answer is read from one line of this length
        if kind == "repeat" and self.pairs > room:
            raise ValueError(f"pairs {pairs}: of kind='repeat' with longest={longest}, {room} names are the most")
        super().__init__(**limits)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random tables; "val" and "test" contain each once."""
        key = f"{KEY}:{self.kind}:{self.pairs}:{self.fewest}:{self.longest}"
        return drawn(split, LENGTHS[split], self._draw, key=key, same=self._shown)

    def _shown(self, task: Task) -> list[Any]:
        """What of a task is shown: the pairs, or the names to repeat."""
        table = task.metadata["table"]
        return [value for _, value in table] if self.kind == "repeat" else table

    def start(self) -> Messages:
        """Show the table and the key."""
        names = ("table", "query", "separator", "delimiter")
        table, query, separator, delimiter = (self.task.metadata[name] for name in names)
        if self.kind == "repeat":
            return (user(f"{self._names}\n\nRepeat these names." if self.style == "full" else f"repeat {self._names}"),)
        lines = delimiter.join(f"{key}{separator}{value}" for key, value in table)
        if self.style == "full":
            return (user(f"{lines}\n\nWhich value belongs to {query}?"),)
        parts = (query, lines) if self.task.metadata["first"] else (lines, query)
        return (user(delimiter.join(parts)),)

    def guide(self) -> Guide:
        """Say how the table is written, or that the names are to be repeated."""
        if self.kind == "repeat":
            return Guide(
                goal="Repeat random names. You succeed if each of them is right, letter by letter.",
                reply="Reply with the names in their order, on one line, with spaces between them.",
                noun="names",
                example="m3xq 70412",
                invalid="A reply that is empty counts as wrong.",
                heading="The names:",
            )
        separator, delimiter = self.task.metadata["separator"], self.task.metadata["delimiter"]
        places = "on a line of its own" if delimiter == "\n" else f"separated from the next by {delimiter.strip()!r}"
        sign = f"by {separator.strip()!r}" if separator.strip() else "by a space"
        return Guide(
            goal="Look up a value in a table of keys and values. You succeed if you give the value of the right key.",
            rules=f"Each pair is {places}; its key is separated from its value {sign}. Keys and values are random.",
            reply="Reply with the value alone.",
            noun="value",
            example="m3xq",
            invalid="A reply that states no value, or several, counts as wrong.",
            heading="The table, and the key:",
        )

    def reply(self, action: Message) -> Outcome:
        """Compare the value, or each name, with the right one."""
        line = last_line(final_text(action)).replace("_", " ")
        if self.kind == "repeat":
            answer = _NAME.findall(self._names)
            names = _repeated(line, answer)
            share = sum(map(str.__eq__, names, answer)) / len(answer)
            right, valid = names == answer, bool(names)
        else:
            value = find_choice(line, self._values)
            value = value if value and _stands_alone(value, line) else None
            # A value that the table does not have is an answer all the same, if it is a single one.
            right, valid = value == self.task.answer, value is not None or len(plain_answer(line).split()) == 1
            share = float(right)
        return Outcome(reward=float(right), terminated=True, success=right, valid=valid, metrics={"right": share})

    def ending(self, outcome: Outcome) -> str:
        """Say what was right."""
        what = "The right value was" if self.kind == "find" else "The names were"
        return "" if outcome.success else f"{what} {self.task.answer}."

    def oracle(self) -> Iterator[Message]:
        """Yield the value alone, or the names."""
        yield assistant(str(self.task.answer))

    def random(self, rng: np.random.Generator) -> Message:
        """Return one of the table's values; of names, random ones, as many."""
        if self.kind == "repeat":
            return assistant(" ".join(self._draw_name(rng) for _ in self.task.metadata["table"]))
        table = self.task.metadata["table"]
        return assistant(table[int(rng.integers(len(table)))][1])

    def attacks(self) -> Sequence[str]:
        """Replies that must earn 0: the whole table, several values, and the value with something else in it."""
        answer, other = self.task.answer, "zzz99"
        values = [value for _, value in self.task.metadata["table"]]
        is_several = self.kind == "find" and len(values) > 1
        several = (" ".join(values), f"{values[0]} {values[-1]}") if is_several else ()
        return (*super().attacks(), *several, f"not {answer}", f"{answer}{other}", f"{other}{answer}")

    @property
    def _names(self) -> str:
        return str(self.task.answer)

    @property
    def _values(self) -> Mapping[str, str]:
        return {value.lower(): value for _, value in self.task.metadata["table"]}

    def _draw(self, rng: np.random.Generator) -> Task:
        count = int(rng.integers(self.fewest, self.pairs + 1))
        names: dict[str, str] = {}  # in small letters, so that none differs from another in capitals alone
        while len(names) < 2 * count:
            name = self._draw_name(rng)
            names.setdefault(name.lower(), name)
        table = [*zip(list(names.values())[:count], list(names.values())[count:], strict=True)]
        query, answer = table[int(rng.integers(count))]
        separator = SEPARATORS[int(rng.integers(len(SEPARATORS)))]
        delimiter = DELIMITERS[int(rng.integers(len(DELIMITERS) - (self.kind == "repeat")))]
        if self.kind == "repeat":
            query, answer = "", delimiter.join(value for _, value in table)
        layout = {"separator": separator, "delimiter": delimiter, "first": bool(rng.random() < KEY_FIRST)}
        return Task("", answer=answer, metadata={"table": [list(pair) for pair in table], "query": query, **layout})

    def _draw_name(self, rng: np.random.Generator) -> str:
        """Draw a key or a value: letters, a number, or a code of letters and digits.

        Of letters alone it is longer than the words of a sentence around an answer mostly are, such as "is".
        """
        signs = SIGNS[int(rng.integers(len(SIGNS)))]
        length = int(rng.integers(SHORTEST_WORD if signs.isalpha() else SHORTEST, self.longest + 1))
        name = "".join(signs[place] for place in rng.integers(len(signs), size=length).tolist())
        return f"{name[:-1]}7" if name.isupper() and name.isalpha() else name


def _repeated(line: str, answer: Sequence[str]) -> list[str]:
    """The names that a line states: all of its names, without signs, and without a label such as "The names are"."""
    text = _TAGS.sub(" ", line)
    matches = [match for match in _NAME.finditer(text) if match[0] != "and"]
    names = [match[0] for match in matches]
    extra = len(names) - len(answer)
    if extra <= 0:
        return names
    label = text[: matches[extra].start()]
    is_label = _LABEL.search(label) and not denies(label) and set(names[:extra]).isdisjoint(answer)
    return names[extra:] if is_label else names


def _stands_alone(value: str, line: str) -> bool:
    """Whether a value stands somewhere on a line as a whole: `4091.5`, `-4091` and `4091-7` are other values."""
    return re.search(rf"(?<![\w./-]){re.escape(value)}(?![\w/-]|[.,]\w)", line, re.IGNORECASE) is not None
