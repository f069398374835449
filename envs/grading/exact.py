r"""Compare two answers exactly, without a worker process, if both are formulas or collections of formulas.

Collections:
- `\{1,2\}` and a bare list `1, 2` (also `1 and 2`, `{1, and 2}`) are sets: order and repetition do not count;
- `(1,2)`, `[1,2]`, `(1,2]`, `[1,2)` are tuples or intervals: brackets and order count, and ends may be `\infty`;
- `x = 1, y = 2` is the tuple of its values in the alphabetical order of their names, and `x = 1, x = 2` is a set;
- `A \cup B` is a union: with rational ends it may be divided into other parts, otherwise only the order is free; it
  equals `(1,3)`, which may be a point, only if its parts do not overlap;
- `x \geq 3` is `[3,\infty)`, and other inequalities in one unknown are intervals as well (`envs.grading.intervals`);
- a matrix is compared by its cells, whatever brackets are around it;
- `\emptyset` and `\{\}` are the empty set, and a set of one equals its member. Members may be collections.
A name before `=` or `\in` is dropped (`x = 5` is 5) unless the other answer has another name. Equations are compared as
equations (`envs.grading.equation`) and never equal the number on their right. Members in different units are undecided:
neither right nor wrong. `envs.grading.formula` lists the formulas that are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

from envs.grading import equation, formula, intervals
from envs.grading.number import MAX_TEXT, parse_number
from envs.grading.polynomial import Undecided, Value, constant

MAX_MEMBERS = 100
MAX_DEPTH = 4
_NAME = re.compile(r"\s*([A-Za-z]|\\[a-z]+)\s*(?:=|\\in(?![a-z])|∈)(?![=])")
_MATRIX = ("\\begin{pmatrix}", "\\end{pmatrix}")
_ROW = re.compile(r"\\\\(?:\[[0-9.a-z]*\])?")
_AND = re.compile(r",?\s+(?:and|or)\s+")
_INFINITIES = {
    "\\infty": intervals.INFINITY,
    "+\\infty": intervals.INFINITY,
    "-\\infty": intervals.MINUS_INFINITY,
    "−\\infty": intervals.MINUS_INFINITY,
}
_PAIRS = ("()", "[]", "(]", "[)")
_UNIT_AFTER_NUMBER = re.compile(r"[0-9]\s*([A-Za-z%][A-Za-z ./%]*)$")
_AMBIGUOUS = re.compile(r"[0-9],[0-9]{3}(?![0-9])")


class Collection(NamedTuple):
    r"""A collection. `form` is "set", "union", "matrix" (of rows), "row", or a pair of brackets such as "(]"."""

    form: str
    members: tuple[Answer, ...]


Answer = Fraction | Value | Collection | str  # a str is an infinity
Parse = Callable[[str], Fraction | Value]  # raises Undecided


def is_equal(gold: str, answer: str, *, literal: bool = False) -> bool | None:
    """Whether both texts state the same answer, as formulas or collections of formulas; None if that is undecided.

    With `literal`, numbers must be worked out: if all members of the gold answer are number literals (`7/2`, not `3 +
    1/2`), those of `answer` must be, too.
    """
    if max(len(gold), len(answer)) > MAX_TEXT:
        return None
    try:
        plain = [intervals.as_interval(formula.normalize(text)) for text in (gold, answer)]
        if any(map(equation.is_equation, plain)):
            return equation.is_same_equation(*plain)
        names, texts = zip(*map(_split_name, plain), strict=True)
        gold_value = _parse(texts[0], _parse_formula)
        answer_value = _parse(texts[1], _parse_literal if literal and _is_literal(gold_value) else _parse_formula)
        if literal and _is_point(gold_value) and ("\\cup" in plain[1] or plain[1] != formula.normalize(answer)):
            return False  # an interval, in another notation than that of a point
        is_one_collection = isinstance(gold_value, Collection) != isinstance(answer_value, Collection)
        if is_one_collection and any(map(_AMBIGUOUS.search, texts)):
            return None  # a comma may group digits or separate members
        is_same = _is_same(gold_value, answer_value)
    except Undecided:
        return None
    return None if is_same and None not in names and names[0] != names[1] else is_same


def have_different_names(gold: str, answer: str) -> bool:
    """Whether both texts give a value a name, and different ones: `x = 5`, `y = 5`."""
    names = {_split_name(formula.normalize(text))[0] for text in (gold, answer) if "=" in text}
    return len(names - {None}) > 1


def collection_key(text: str) -> Hashable | None:
    r"""Return a key that is equal for equal sets, lists and tuples of number literals, `\{1,2\}` and `2, 1`.

    None for any other text.
    """
    try:
        value = _parse(_split_name(formula.normalize(text))[1], _parse_literal)
    except Undecided:
        return None
    if not isinstance(value, Collection) or not all(isinstance(member, Fraction) for member in value.members):
        return None
    numbers: tuple[Fraction, ...] = value.members  # type: ignore[assignment]
    return value.form, tuple(sorted(set(numbers))) if value.form == "set" else numbers


def member_numbers(text: str) -> list[Fraction] | None:
    """Return the numbers of a set, list or tuple of number literals, in the order of the text; of one number, itself.

    None for any other text.
    """
    try:
        value = _parse(formula.normalize(text), _parse_literal)
    except Undecided:
        return None
    if isinstance(value, Collection):
        numbers = [member for member in value.members if isinstance(member, Fraction)]
        return numbers if len(numbers) == len(value.members) and value.form != "union" else None
    return [value] if isinstance(value, Fraction) else None


def _split_name(text: str) -> tuple[str | None, str]:
    r"""The name before `=` or `\in` and the rest. A list has no name, as its members may have names of their own."""
    match = _NAME.match(text) if len(_split_list(text)) == 1 or parse_number(text) is not None else None
    return (match[1], text[match.end() :].strip()) if match else (None, text)


def _split_list(text: str) -> list[str]:
    return [part for piece in _split(text, ",") for part in _AND.split(piece)]


def _parse(text: str, parse_member: Parse, depth: int = 0) -> Answer:
    """Parse an answer; `parse_member` parses what is no collection."""
    if depth > MAX_DEPTH:
        raise Undecided("collections in collections")
    text = text.strip()
    if text in _INFINITIES:
        return _INFINITIES[text]
    if text == "\\emptyset":
        return Collection("set", ())
    if text.startswith(_MATRIX[0]) and text.endswith(_MATRIX[1]):
        return _matrix(text[len(_MATRIX[0]) : -len(_MATRIX[1])], parse_member, depth)
    if len(parts := _split(text, "\\cup")) > 1:
        return _collect("union", parts, parse_member, depth)
    inner = _split_brackets(text)
    if inner is None:
        is_number = depth == 0 and parse_number(text) is not None  # 1,000 is a number, not a list
        parts = [] if is_number else _split_list(text)
        return _collect("set", parts, parse_member, depth) if len(parts) > 1 else parse_member(text)
    form, content = inner
    parts = _split(content, ",")
    if len(parts) == 1 and form in ("()", "[]", "{}"):
        return _parse(content, parse_member, depth + 1) if form == "{}" else parse_member(content)
    return _collect("set" if form in ("{}", "\\{\\}") else form, parts, parse_member, depth)


def _collect(form: str, parts: Sequence[str], parse_member: Parse, depth: int) -> Collection:
    if len(parts) > MAX_MEMBERS or not all(part.strip() for part in parts):
        raise Undecided("too many members, or an empty one")
    if len({_unit(part) for part in parts} - {""}) > 1:
        raise Undecided("members in different units")
    pairs = [_split_name(part) for part in parts]
    if form == "set" and pairs[0][0] is not None and not any(name for name, _ in pairs[1:]):
        pairs = [(pairs[0][0], text) for _, text in pairs]  # x = 1, 2
    names = {name for name, _ in pairs}
    if len(names) == len(pairs) > 1:  # values of different unknowns
        if None in names or form != "set":
            raise Undecided("names for some members only")
        form, pairs = "()", sorted(pairs, key=lambda pair: str(pair[0]))
    elif len(names) > 1:
        raise Undecided("several names, some of them repeated")
    return Collection(form, tuple(_parse(part, parse_member, depth + 1) for _, part in pairs))


def _unit(part: str) -> str:
    match = _UNIT_AFTER_NUMBER.search(part)
    return match[1].strip() if match and parse_number(part) is not None else formula.without_unit(part)[1]


def _matrix(content: str, parse_member: Parse, depth: int) -> Collection:
    rows = [row.split("&") for row in _ROW.split(content) if row.strip()]
    if len({len(row) for row in rows}) != 1 or sum(map(len, rows)) > MAX_MEMBERS or "\\begin" in content:
        raise Undecided("rows of different lengths, or too large a matrix")
    return Collection("matrix", tuple(_collect("row", row, parse_member, depth + 1) for row in rows))


def _split_brackets(text: str) -> tuple[str, str] | None:
    """The brackets around all of `text` and the text inside; None if there are none."""
    for opening, closings in (("\\{", ("\\}",)), ("{", ("}",)), ("(", (")", "]")), ("[", ("]", ")"))):
        for closing in closings:
            if text.startswith(opening) and text.endswith(closing) and (closing != "}" or text[-2:] != "\\}"):
                content = text[len(opening) : -len(closing)]
                return (opening + closing, content) if _is_balanced(content) else None
    return None


def _is_balanced(content: str) -> bool:
    depths = list(accumulate(((char in "([{") - (char in ")]}") for char in content), initial=0))
    return min(depths) == depths[-1] == 0


def _split(text: str, separator: str) -> list[str]:
    """Split `text` at every separator outside brackets."""
    parts, depth, start, position = [], 0, 0, 0
    while position < len(text):
        depth += (text[position] in "([{") - (text[position] in ")]}")
        if depth == 0 and text.startswith(separator, position):
            parts.append(text[start:position])
            start = position = position + len(separator)
        else:
            position += 1
    return [*parts, text[start:]]


def _parse_formula(text: str) -> Fraction | Value:
    if (number := parse_number(text)) is not None:
        return number
    value = formula.parse(text)
    return value if (rational := value.rational()) is None else rational


def _parse_literal(text: str) -> Fraction:
    if (number := parse_number(text)) is None:
        raise Undecided("not a number literal")
    return number


def _is_literal(answer: Answer) -> bool:
    """Whether it consists of rational numbers and infinities only."""
    return all(map(_is_literal, answer.members)) if isinstance(answer, Collection) else not isinstance(answer, Value)


def _is_same(gold: Answer, answer: Answer) -> bool:
    gold, answer = _unpack_single(gold), _unpack_single(answer)
    if isinstance(gold, Collection) and isinstance(answer, Collection):
        return _has_same_members(gold, answer)
    if isinstance(gold, (str, Collection)) or isinstance(answer, (str, Collection)):
        return gold == answer
    if isinstance(gold, Fraction) and isinstance(answer, Fraction):
        return gold == answer
    gold_value, answer_value = (constant(side) if isinstance(side, Fraction) else side for side in (gold, answer))
    if gold_value.equals(answer_value):
        return True
    if "i" in gold_value.variables() | answer_value.variables():
        raise Undecided("i may be the imaginary unit")
    return False


def _is_point(answer: Answer) -> bool:
    """Whether it is a tuple of finite numbers, `(1,2)`, which may be an open interval as well."""
    return (
        isinstance(answer, Collection) and answer.form == "()" and not any(isinstance(m, str) for m in answer.members)
    )


def _unpack_single(answer: Answer) -> Answer:
    """The member of a set of one; any other answer unchanged."""
    if isinstance(answer, Collection) and answer.form == "set" and len(answer.members) == 1:
        return answer.members[0]
    return answer


def _has_same_members(gold: Collection, answer: Collection) -> bool:
    if "union" in (gold.form, answer.form):
        return _is_same_union(gold, answer)
    if gold.form != answer.form:
        return False
    if gold.form == "set":
        return _is_same_set(gold, answer)
    pairs = list(zip(gold.members, answer.members, strict=False))
    return len(gold.members) == len(answer.members) and all(_is_same(first, second) for first, second in pairs)


def _is_same_union(gold: Collection, answer: Collection) -> bool:
    try:
        if _is_point(gold) and any(low < high for (_, high), (low, _) in pairwise(sorted(_spans(answer)))):
            return False
        return intervals.merge(_spans(gold)) == intervals.merge(_spans(answer))
    except Undecided:
        if gold.form == answer.form and _is_same_set(gold, answer):
            return True
        raise


def _is_same_set(gold: Collection, answer: Collection) -> bool:
    """Whether each member of either collection is in the other one."""
    sides = gold.members, answer.members
    is_subset = all(any(_is_same(first, second) for second in sides[1]) for first in sides[0])
    return is_subset and all(any(_is_same(first, second) for second in sides[0]) for first in sides[1])


def _spans(answer: Answer) -> list[intervals.Span]:
    """The part of the real line that a number, interval or union covers. Raises Undecided for an irrational end."""
    if isinstance(answer, Fraction):
        return [intervals.point(answer)]
    if isinstance(answer, Collection):
        if answer.form == "union":
            return [span for part in answer.members for span in _spans(part)]
        if answer.form == "set" and all(isinstance(member, Fraction) for member in answer.members):
            return [span for member in answer.members for span in _spans(member)]
        if answer.form in _PAIRS and len(answer.members) == 2:
            return [intervals.interval(answer.form, *answer.members)]
    raise Undecided("not a subset of the real line")
