"""Mutants of a function by operators of their own, to measure which wrong programs a set of cases lets through.

None of these operators is one of `envs.code.synthesis.bugs`, by which hidden cases are chosen.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

MAX_LOOPS = 1000  # rounds of loops in one call of a mutant

ARITHMETIC: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Mult, ast.BitOr),
    ast.Sub: (ast.Mult, ast.Mod),
    ast.Mult: (ast.Sub, ast.FloorDiv),
    ast.FloorDiv: (ast.Mult, ast.Div),
    ast.Mod: (ast.Sub,),  # products would grow without bound where a loop was to end
    ast.Div: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
}
COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.Gt, ast.NotEq),
    ast.LtE: (ast.GtE, ast.Eq),
    ast.Gt: (ast.Lt, ast.NotEq),
    ast.GtE: (ast.LtE, ast.Eq),
    ast.Eq: (ast.LtE, ast.GtE),
    ast.NotEq: (ast.Lt, ast.Gt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}


def mutants(source: str) -> list[str]:
    """The sources of all mutants of one change, without repetition."""
    tree = ast.parse(source)
    sources = {}
    for number, node in enumerate(ast.walk(tree)):
        for change in changes(node):
            copy = deepcopy(tree)
            target = next(node for i, node in enumerate(ast.walk(copy)) if i == number)
            replacement = change(target)
            if replacement is not target:
                _replace(copy, target, replacement)
            sources[ast.unparse(ast.fix_missing_locations(copy))] = None
    sources.pop(ast.unparse(tree), None)
    return list(sources)


Change = Callable[[Any], ast.AST]


def changes(node: ast.AST) -> Iterator[Change]:
    """Functions that change a node, or return what takes its place."""
    if isinstance(node, ast.BinOp):
        for kind in ARITHMETIC.get(type(node.op), ()):
            yield lambda node, kind=kind: _set(node, op=kind())
        yield lambda node: node.left
        yield lambda node: node.right
        yield lambda node: _set(node, left=node.right, right=node.left)
    if isinstance(node, ast.Compare):
        for kind in COMPARISONS.get(type(node.ops[0]), ()):
            yield lambda node, kind=kind: _set(node, ops=[kind(), *node.ops[1:]])
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield lambda node: ast.Constant(node.value - 1)
        yield lambda node: ast.Constant(-node.value - (node.value == 0) * 2)
    if isinstance(node, ast.Constant) and type(node.value) is str and node.value:
        yield lambda node: ast.Constant(node.value[:-1])
        yield lambda node: ast.Constant(node.value + node.value[0])
    if isinstance(node, ast.BoolOp):
        yield lambda node: _set(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        yield lambda node: node.values[0]
        yield lambda node: node.values[1]
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield lambda node: _set(node, test=ast.Constant(False))
        if not isinstance(node, ast.While):
            yield lambda node: _set(node, test=ast.Constant(True))
    if isinstance(node, ast.comprehension) and node.ifs:
        yield lambda node: _set(node, ifs=[])
    if isinstance(node, ast.For | ast.comprehension):
        for form in ("list({})[1:]", "list({})[:-1]", "list({})[::-1]"):
            yield lambda node, form=form: _set(node, iter=_parse(form.format(ast.unparse(node.iter))))
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Break):
        yield lambda node: ast.Pass()
    if isinstance(node, ast.Break):
        yield lambda node: ast.Continue()
    if isinstance(node, ast.Slice):
        for edge in ("lower", "upper", "step"):
            if getattr(node, edge):
                yield lambda node, edge=edge: _set(node, **{edge: None})
    if isinstance(node, ast.Call):
        yield from _call_changes(node)
    if isinstance(node, ast.Return) and node.value is not None:
        for form in ("({}) + 1", "({}) or 1", "abs({})", "({})[1:]", "not ({})"):
            yield lambda node, form=form: _set(node, value=_parse(form.format(ast.unparse(node.value))))


def _call_changes(node: ast.Call) -> Iterator[Change]:
    for place in range(len(node.args)):
        if len(node.args) > 1:
            yield lambda node, place=place: _set(node, args=node.args[:place] + node.args[place + 1 :])
    if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred):
        yield lambda node: node.args[0]
    if isinstance(node.func, ast.Name) and node.func.id in ("sum", "max", "min", "len", "sorted", "set"):
        names = ("sum", "max", "min", "len", "sorted", "set")
        for other in names:
            if other != node.func.id:
                yield lambda node, other=other: _set(node, func=ast.Name(other, ast.Load()))
    if node.keywords:
        yield lambda node: _set(node, keywords=[])


def load(source: str, name: str = "f") -> Callable[..., Any]:
    """The function of a mutant. It raises StopIteration rather than loop for ever."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.While | ast.For):
            node.body.insert(0, ast.parse("next(_rounds)").body[0])
        elif isinstance(node, ast.FunctionDef):
            node.body.insert(0, ast.parse(f"_rounds = iter(range({MAX_LOOPS}))").body[0])
    names: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), "<mutant>", "exec"), names)
    return lambda *args: names[name](*deepcopy(args))


def _set(node: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def _parse(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(item is old for item in value):
                value[:] = [new if item is old else item for item in value]
