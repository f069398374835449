"""Bugs of one place: families of edits that are found in a program's syntax tree and applied to its text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

MISSING = "raise NotImplementedError"


class Bug(NamedTuple):
    """An edit that puts a bug into a source: replace its characters `start` to `end`, `end` excluded, by `text`.

    `family` is the kind of bug, a key of `FAMILIES`; `function` the name of the function that it is in.
    """

    family: str
    function: str
    start: int
    end: int
    text: str

    def apply(self, source: str) -> str:
        """Return `source`, in which the bug was found, with the bug in it."""
        return source[: self.start] + self.text + source[self.end :]


Edit = tuple[ast.AST, str]  # a node, and the text that replaces it
Finder = Callable[[ast.FunctionDef, str], Iterator[Edit]]

_OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "%"),
    ast.Mod: ("%", "//"),
}
_COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
_TWINS = {"min": "max", "max": "min", "any": "all", "sum": "len", "sorted": "list"}
_METHODS = {"lower": "upper", "strip": "lstrip", "capitalize": "upper"}


def find_bugs(source: str, family: str) -> list[Bug]:
    """Find all bugs of a family that can be put into a source, which must be ASCII, function by function.

    `family` is a key of `FAMILIES`: "operator" replaces `+` by `-`, "guard" leaves a special case out.
    """
    offsets = _Offsets(source)
    bugs = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            for node, text in FAMILIES[family](function, source):
                bugs.append(Bug(family, function.name, *offsets.span(node), text))
    return bugs


class _Offsets:
    """Character offsets of syntax nodes in a source, which must have one byte per character."""

    def __init__(self, source: str) -> None:
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        first = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return first, self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]


def _operator(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """Another arithmetic operator."""
    for node in _nodes(function, ast.BinOp):
        if type(node.op) in _OPERATORS:
            yield _replace_operator(source, node.left, node.right, *_OPERATORS[type(node.op)])


def _comparison(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """A comparison that is wrong at its boundary, or inverted."""
    for node in _nodes(function, ast.Compare):
        if len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
            yield _replace_operator(source, node.left, node.comparators[0], *_COMPARISONS[type(node.ops[0])])


def _off_by_one(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """A range or a slice that begins or ends one too early or too late."""
    for call in _nodes(function, ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "range":
            last = call.args[min(1, len(call.args) - 1)]
            text = _text(source, last)
            yield last, text.removesuffix(" + 1") if text.endswith(" + 1") else f"{text} - 1"
    for piece in _nodes(function, ast.Slice):
        for edge in filter(None, (piece.lower, piece.upper)):
            yield edge, f"{_text(source, edge)} + 1"


def _constant(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """A number that is one too large."""
    for node in _nodes(function, ast.Constant):
        if type(node.value) is int:
            yield node, str(node.value + 1)


def _variable(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """Another parameter of the function in place of one."""
    names = [one.arg for one in function.args.args]
    for node in _nodes(function, ast.Name):
        if node.id in names and isinstance(node.ctx, ast.Load):
            yield from ((node, other) for other in names if other != node.id)


def _index(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """Another element of a sequence."""
    other = {"0": "1", "1": "0", "-1": "0"}
    for node in _nodes(function, ast.Subscript):
        if (index := _text(source, node.slice)) in other:
            yield node.slice, other[index]


def _guard(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """A special case at the beginning that is left out."""
    for node, after in pairwise(function.body):
        if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[0], ast.Return):
            yield _span((node.lineno, node.col_offset), (after.lineno, after.col_offset)), ""


def _inverse_condition(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """An inverted condition."""
    for node in (*_nodes(function, ast.If), *_nodes(function, ast.IfExp)):
        if not isinstance(node.test, ast.Compare):
            test = _text(source, node.test)
            yield node.test, test.removeprefix("not ") if test.startswith("not ") else f"not ({test})"


def _twin(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """A call of a similar function."""
    for call in _nodes(function, ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id in _TWINS:
            yield call.func, _TWINS[call.func.id]
        if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
            yield call.func, f"{_text(source, call.func.value)}.{_METHODS[call.func.attr]}"


def _arguments(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """The first two arguments of a call in the wrong order."""
    for call in _nodes(function, ast.Call):
        if len(call.args) > 1 and not call.keywords:
            one, other, *more = (_text(source, argument) for argument in call.args)
            yield call, f"{_text(source, call.func)}({', '.join((other, one, *more))})"


def _early_return(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """A return inside the loop that it should follow."""
    *_, loop, last = (None, *function.body)
    if isinstance(loop, ast.For) and isinstance(last, ast.Return):
        yield last, f"    {_text(source, last)}"


def _update(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """A plain assignment in place of an augmented one."""
    for node in _nodes(function, ast.AugAssign):
        yield node, f"{_text(source, node.target)} = {_text(source, node.value)}"


def _missing(function: ast.FunctionDef, source: str) -> Iterator[Edit]:
    """A function with its docstring and without a body."""
    if ast.get_docstring(function) and len(function.body) > 1:
        first = function.body[1]
        yield _span((first.lineno, first.col_offset), _end(function)), MISSING


def _nodes(function: ast.FunctionDef, kind: type[ast.AST]) -> Iterator:
    """The nodes of a kind in a function's body, in the order of the text.

    Nodes inside f-strings are left out: Python 3.11 does not know their positions.
    """
    nodes = [node for part in function.body for node in ast.walk(part)]
    in_f_strings = {id(inner) for node in nodes if isinstance(node, ast.JoinedStr) for inner in ast.walk(node)}
    matches = [node for node in nodes if isinstance(node, kind) and id(node) not in in_f_strings]
    return iter(sorted(matches, key=lambda node: (node.lineno, node.col_offset)))  # type: ignore[attr-defined]


def _replace_operator(source: str, left: ast.expr, right: ast.expr, old: str, new: str) -> Edit:
    """Replace the operator between two operands; brackets around them stay."""
    span = _span(_end(left), (right.lineno, right.col_offset))
    return span, _text(source, span).replace(old, new)


def _span(start: tuple[int, int], end: tuple[int, int]) -> ast.AST:
    """A node that spans one (line, column) to another."""
    return ast.Pass(lineno=start[0], col_offset=start[1], end_lineno=end[0], end_col_offset=end[1])


def _end(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.end_lineno or 0, node.end_col_offset or 0


def _text(source: str, node: ast.AST) -> str:
    return ast.get_source_segment(source, node) or ""


FAMILIES: MappingProxyType[str, Finder] = MappingProxyType(
    {
        "operator": _operator,
        "comparison": _comparison,
        "off_by_one": _off_by_one,
        "constant": _constant,
        "variable": _variable,
        "index": _index,
        "guard": _guard,
        "inverted": _inverse_condition,
        "twin": _twin,
        "arguments": _arguments,
        "early_return": _early_return,
        "update": _update,
        "missing": _missing,
    }
)
