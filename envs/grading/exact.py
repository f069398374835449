r"""Whether two answers are equal, decided exactly and at once where both are formulas or collections of them.

Collections, by their brackets:
- `\{1,2\}` and a bare list `1, 2` (also `1 and 2`, `{1,2}`) are sets: order and repetition do not count;
- `(1,2)`, `[1,2]`, `(1,2]`, `[1,2)` are tuples or intervals: brackets and order count, and ends may be `\infty`;
- `x = 1, y = 2` is the tuple of its values in the alphabetical order of their names, and `x = 1, x = 2` is a set;
- `A \cup B` is a union: where all ends are rational it may be cut in other parts, else in another order only;
- `x \geq 3` is `[3,\infty)`, and other inequalities in one unknown are intervals as well (`envs.grading.line`);
- a matrix has its rows and cells, whatever brackets stand around it;
- `\emptyset` and `\{\}` are the empty set, and a set of one is its member. Members may be collections themselves.
A name before `=` or `\in` is dropped (`x = 5` is 5) unless the other side has another name. Equations are compared as
such (`envs.grading.equation`), and are never the number on their right.

What formulas are read says `envs.grading.formula`. Members in different units are "undecided": neither right nor wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import NamedTuple

from envs.grading import equation, formula, line
from envs.grading.number import MAX_TEXT, number
from envs.grading.polynomial import Undecided, Value, constant

MAX_MEMBERS = 100
MAX_DEPTH = 4
_NAME = re.compile(r"\s*([A-Za-z]|\\[a-z]+)\s*(?:=|\\in(?![a-z])|∈)(?![=])")
_SPELLED: list[tuple[re.Pattern[str], str]] = [
    (re.compile(r"\\(?:left|right|big|Big|bigl|bigr|Bigl|Bigr)(?![A-Za-z])\s*(?=[\\(\[{}\])|.])"), ""),
    (re.compile(r"\\lbrace(?![a-z])"), r"\\{"),
    (re.compile(r"\\rbrace(?![a-z])"), r"\\}"),
    (re.compile(r"\\(?:varnothing|emptyset)(?![a-z])|∅|\\?\{\s*\\?\}"), r"\\emptyset "),
    (re.compile(r"∞"), r"\\infty "),
    (re.compile(r"∪"), r"\\cup "),
    (re.compile(r"\\(?:text|mathrm|mbox)\s*\{\s*(and|or)\s*\}"), r" \1 "),
    (re.compile(r"\(\s*\\begin\{array\}\{[^{}]*\}|\\begin\{bmatrix\}"), r"\\begin{pmatrix}"),
    (re.compile(r"\\end\{array\}\s*\)|\\end\{bmatrix\}"), r"\\end{pmatrix}"),
    (re.compile(r"^\s*\\\(|\\\)\s*$|^\s*\\\[|\\\]\s*$|\$"), ""),
]
_MATRIX = ("\\begin{pmatrix}", "\\end{pmatrix}")
_ROW = re.compile(r"\\\\(?:\[[0-9.a-z]*\])?")
_AND = re.compile(r",?\s+(?:and|or)\s+")
_INFINITE = {"\\infty": line.ABOVE, "+\\infty": line.ABOVE, "-\\infty": line.BELOW, "−\\infty": line.BELOW}
_PAIRS = ("()", "[]", "(]", "[)")
_BEHIND = re.compile(r"[0-9]\s*([A-Za-z%][A-Za-z ./%]*)$")
_AMBIGUOUS = re.compile(r"[0-9],[0-9]{3}(?![0-9])")


class Collection(NamedTuple):
    r"""Members and what holds them: "set", "union", "matrix" (of rows), "row", or a pair of brackets such as "(]"."""

    form: str
    members: tuple[Answer, ...]


Answer = Fraction | Value | Collection | str  # a str is an infinity
Reading = Callable[[str], Fraction | Value]


def equal(gold: str, given: str, *, literal: bool = False) -> bool | None:
    """Whether both texts say the same; None where that is undecided.

    With `literal`, what is a number in the gold text must be worked out in the other: where all members of the gold are
    number literals (`envs.grading.number`), so must the given ones be.
    """
    if max(len(gold), len(given)) > MAX_TEXT:
        return None
    try:
        plain = [line.as_interval(_plain(text)) for text in (gold, given)]
        if any(map(equation.is_equation, plain)):
            return equation.same(*plain)
        names, texts = zip(*map(_named, plain), strict=True)
        wanted = _read(texts[0], _formula)
        said = _read(texts[1], _literal if literal and _is_literal(wanted) else _formula)
        if isinstance(wanted, Collection) != isinstance(said, Collection) and any(map(_AMBIGUOUS.search, texts)):
            return None  # a comma may group digits or part members
        same = _same(wanted, said)
    except Undecided:
        return None
    return None if same and None not in names and names[0] != names[1] else same


def is_renamed(gold: str, given: str) -> bool:
    """Whether both name a value, and not by the same name: `x = 5`, `y = 5`."""
    names = {_named(_plain(text))[0] for text in (gold, given) if "=" in text}
    return len(names - {None}) > 1


def key(text: str) -> Hashable | None:
    """Equal for sets, lists and tuples of number literals that are equal; None for anything else."""
    try:
        found = _read(_named(_plain(text))[1], _literal)
    except Undecided:
        return None
    if not isinstance(found, Collection) or not all(isinstance(member, Fraction) for member in found.members):
        return None
    numbers: tuple[Fraction, ...] = found.members  # type: ignore[assignment]
    return found.form, tuple(sorted(set(numbers))) if found.form == "set" else numbers


def members(text: str) -> list[Fraction] | None:
    """The numbers that a set, list or tuple names, in their order; None for anything else."""
    try:
        found = _read(_plain(text), _literal)
    except Undecided:
        return None
    if isinstance(found, Collection):
        numbers = [member for member in found.members if isinstance(member, Fraction)]
        return numbers if len(numbers) == len(found.members) and found.form != "union" else None
    return [found] if isinstance(found, Fraction) else None


def _plain(text: str) -> str:
    text = text.rstrip(". ").strip("*_` \n")
    for pattern, spelled in _SPELLED:
        text = pattern.sub(spelled, text)
    return text.strip().rstrip(".").strip()


def _named(text: str) -> tuple[str | None, str]:
    r"""The name before `=` or `\in` and what follows; no name for a list, whose members may have their own."""
    match = _NAME.match(text) if len(_listed(text)) == 1 or number(text) is not None else None
    return (match[1], text[match.end() :].strip()) if match else (None, text)


def _listed(text: str) -> list[str]:
    return [part for piece in _split(text, ",") for part in _AND.split(piece)]


def _read(text: str, reading: Reading, depth: int = 0) -> Answer:
    if depth > MAX_DEPTH:
        raise Undecided("collections in collections")
    text = text.strip()
    if text in _INFINITE:
        return _INFINITE[text]
    if text == "\\emptyset":
        return Collection("set", ())
    if text.startswith(_MATRIX[0]) and text.endswith(_MATRIX[1]):
        return _matrix(text[len(_MATRIX[0]) : -len(_MATRIX[1])], reading, depth)
    if len(parts := _split(text, "\\cup")) > 1:
        return _collected("union", parts, reading, depth)
    inner = _inside(text)
    if inner is None:
        grouped = depth == 0 and number(text) is not None  # 1,000 is a number
        parts = [] if grouped else _listed(text)
        return _collected("set", parts, reading, depth) if len(parts) > 1 else reading(text)
    form, content = inner
    parts = _split(content, ",")
    if len(parts) == 1 and form in ("()", "[]", "{}"):
        return _read(content, reading, depth + 1) if form == "{}" else reading(content)
    return _collected("set" if form in ("{}", "\\{\\}") else form, parts, reading, depth)


def _collected(form: str, parts: Sequence[str], reading: Reading, depth: int) -> Collection:
    if len(parts) > MAX_MEMBERS or not all(part.strip() for part in parts):
        raise Undecided("too many members, or an empty one")
    if len({_unit(part) for part in parts} - {""}) > 1:
        raise Undecided("members in different units")
    named = [_named(part) for part in parts]
    names = {name for name, _ in named}
    if len(names) == len(named) > 1:  # values of different unknowns
        if None in names or form != "set":
            raise Undecided("names for some members only")
        form, named = "()", sorted(named, key=lambda pair: str(pair[0]))
    elif len(names) > 1:
        raise Undecided("names that say neither one thing nor several")
    return Collection(form, tuple(_read(part, reading, depth + 1) for _, part in named))


def _unit(part: str) -> str:
    found = _BEHIND.search(part)
    return found[1].strip() if found and number(part) is not None else formula.without_unit(part)[1]


def _matrix(content: str, reading: Reading, depth: int) -> Collection:
    rows = [row.split("&") for row in _ROW.split(content) if row.strip()]
    if len({len(row) for row in rows}) != 1 or sum(map(len, rows)) > MAX_MEMBERS or "\\begin" in content:
        raise Undecided("no matrix, or too large a one")
    return Collection("matrix", tuple(_collected("row", row, reading, depth + 1) for row in rows))


def _inside(text: str) -> tuple[str, str] | None:
    """The brackets around all of `text` and what they hold."""
    for opening, closings in (("\\{", ("\\}",)), ("{", ("}",)), ("(", (")", "]")), ("[", ("]", ")"))):
        for closing in closings:
            if text.startswith(opening) and text.endswith(closing) and (closing != "}" or text[-2:] != "\\}"):
                content = text[len(opening) : -len(closing)]
                return (opening + closing, content) if _is_closed(content) else None
    return None


def _is_closed(content: str) -> bool:
    depth = 0
    for char in content:
        depth += (char in "([{") - (char in ")]}")
        if depth < 0:
            return False
    return depth == 0


def _split(text: str, separator: str) -> list[str]:
    """`text` at every separator outside brackets."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0 and text.startswith(separator, at):
            parts.append(text[start:at])
            start = at = at + len(separator)
        else:
            at += 1
    return [*parts, text[start:]]


def _formula(text: str) -> Fraction | Value:
    found = number(text)
    if found is not None:
        return found
    value = formula.read(text)
    whole = value.rational()
    return value if whole is None else whole


def _literal(text: str) -> Fraction:
    found = number(text)
    if found is None:
        raise Undecided("not a number literal")
    return found


def _is_literal(answer: Answer) -> bool:
    """Whether it is made of nothing but numbers."""
    if isinstance(answer, Collection):
        return all(map(_is_literal, answer.members))
    return not isinstance(answer, Value)


def _same(wanted: Answer, said: Answer) -> bool:
    wanted, said = _only(wanted), _only(said)
    if isinstance(wanted, Collection) and isinstance(said, Collection):
        return _same_members(wanted, said)
    if isinstance(wanted, (str, Collection)) or isinstance(said, (str, Collection)):
        return wanted == said
    if isinstance(wanted, Fraction) and isinstance(said, Fraction):
        return wanted == said
    one, other = (constant(side) if isinstance(side, Fraction) else side for side in (wanted, said))
    if one.equals(other):
        return True
    if "i" in one.letters() | other.letters():
        raise Undecided("i may be the imaginary unit")
    return False


def _only(answer: Answer) -> Answer:
    """The one member of a set of one."""
    is_single = isinstance(answer, Collection) and answer.form == "set" and len(answer.members) == 1
    return answer.members[0] if is_single else answer  # type: ignore[union-attr]


def _same_members(wanted: Collection, said: Collection) -> bool:
    if "union" in (wanted.form, said.form):
        return _same_unions(wanted, said)
    if wanted.form != said.form:
        return False
    if wanted.form == "set":
        return _each_in_other(wanted, said)
    pairs = list(zip(wanted.members, said.members, strict=False))
    return len(wanted.members) == len(said.members) and all(_same(one, other) for one, other in pairs)


def _same_unions(wanted: Collection, said: Collection) -> bool:
    try:
        return line.joined(_spans(wanted)) == line.joined(_spans(said))
    except Undecided:
        if wanted.form == said.form and _each_in_other(wanted, said):
            return True
        raise


def _each_in_other(wanted: Collection, said: Collection) -> bool:
    sides = wanted.members, said.members
    same = all(any(_same(one, other) for other in sides[1]) for one in sides[0])
    return same and all(any(_same(one, other) for other in sides[0]) for one in sides[1])


def _spans(answer: Answer) -> list[line.Span]:
    """What it holds of the real line. Raises Undecided where an end is no rational number."""
    if isinstance(answer, Fraction):
        return [line.point(answer)]
    if isinstance(answer, Collection):
        if answer.form == "union":
            return [span for part in answer.members for span in _spans(part)]
        if answer.form == "set" and all(isinstance(member, Fraction) for member in answer.members):
            return [span for member in answer.members for span in _spans(member)]
        if answer.form in _PAIRS and len(answer.members) == 2:
            return [line.between(answer.form, *answer.members)]
    raise Undecided("no part of the real line")
