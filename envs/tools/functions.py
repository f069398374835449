"""Functions that can be taken out of the code they were written in: each with the imports and functions it needs."""

from __future__ import annotations

import ast
import builtins
import keyword
import symtable
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LONGEST = 2000  # characters of a function with all it needs
_NAME, _LINE, _CODE = 30, 80, 10_000
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
_TAKEN = frozenset((*dir(builtins), *keyword.kwlist, *keyword.softkwlist))


class Function(NamedTuple):
    """`call` is how it is called, `area(width, height)`; `line` its docstring's first; `source` runs alone."""

    name: str
    call: str
    line: str
    source: str


def defined(cells: Iterable[str]) -> list[Function]:
    """The functions on the top level of some code, in the order of their names' first definition; the last one counts.

    Left out: those without a parameter (a constant is no tool), those whose names are private, long or a builtin's, and
    those that need more than builtins, imports and functions of this code.
    """
    nodes: dict[str, ast.FunctionDef] = {}
    imports: dict[str, str] = {}
    for statement in _statements(cells):
        if isinstance(statement, ast.FunctionDef):
            nodes[statement.name] = statement
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            imports |= _bound(statement)
    found = [_whole(name, nodes, imports) for name in nodes if _may_be(name)]
    return [function for function in found if function]


def called(cells: Iterable[str], names: Iterable[str]) -> set[str]:
    """Those of the names that some code calls and does not define."""
    statements = _statements(cells)
    nodes = [node for statement in statements for node in ast.walk(statement)]
    used = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return used & set(names) - {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def meaning(source: str) -> str:
    """Equal for functions that differ in their names, their docstrings and their layout only.

    Raises ValueError where the last statement of `source` is no function.
    """
    try:
        tree = ast.parse(source)
    except _UNREADABLE:
        tree = ast.Module([], [])
    if not tree.body or not isinstance(last := tree.body[-1], ast.FunctionDef):
        raise ValueError(f"not the code of a function: {source[:60]!r}")
    name, last.name = last.name, "_"
    if ast.get_docstring(last) is not None:
        last.body = last.body[1:] or [ast.Pass()]
    for node in ast.walk(tree):  # where it calls itself
        if isinstance(node, ast.Name) and node.id == name:
            node.id = "_"
    return ast.dump(tree)


def _statements(cells: Iterable[str]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for cell in cells:
        try:
            found += ast.parse(cell).body if len(cell) <= _CODE else []
        except _UNREADABLE:
            continue
    return found


def _bound(statement: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """What an import binds, each with an import of it alone."""
    one = {}
    for alias in statement.names:
        alone = (
            ast.Import([alias])
            if isinstance(statement, ast.Import)
            else ast.ImportFrom(statement.module, [alias], statement.level)
        )
        one[alias.asname or alias.name.partition(".")[0]] = ast.unparse(alone)
    return one


def _may_be(name: str) -> bool:
    return name.isascii() and len(name) <= _NAME and name not in _TAKEN and not name.startswith("_")


def _whole(name: str, nodes: dict[str, ast.FunctionDef], imports: dict[str, str]) -> Function | None:
    """The function with what it needs before it; None where that is not there, or too long."""
    node = nodes[name]
    try:
        needed, waiting = {name}, [name]
        while waiting:
            for need in _free(ast.unparse(nodes[waiting.pop()])) - needed:
                needed.add(need)
                if need in nodes:
                    waiting.append(need)
                elif need not in imports and not hasattr(builtins, need):
                    return None
        parts = [imports[need] for need in sorted(needed - nodes.keys()) if need in imports]
        parts += [ast.unparse(nodes[one]) for one in nodes if one in needed and one != name] + [ast.unparse(node)]
        call = f"{name}({ast.unparse(node.args)})"
        line = (ast.get_docstring(node) or "").partition("\n")[0].strip()
    except _UNREADABLE:
        return None
    source = "\n".join(parts)
    if not call.removeprefix(name).strip("()") or len(source) > LONGEST or len(call) > _LINE:
        return None
    return Function(name, call, "".join(filter(str.isprintable, line))[:_LINE], source)


def _free(source: str) -> set[str]:
    """The names that some code takes from outside its functions."""
    found: set[str] = set()
    tables: Sequence[symtable.SymbolTable] = [symtable.symtable(source, "function", "exec")]
    while tables:
        outer = [table.get_type() == "module" for table in tables]
        for table, is_module in zip(tables, outer, strict=True):
            found |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (is_module or s.is_global())}
        tables = [child for table in tables for child in table.get_children()]
    return found
