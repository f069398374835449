"""Extract functions from code, each as a program that runs alone: with the imports and functions it needs."""

from __future__ import annotations

import ast
import builtins
import keyword
import symtable
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAX_SOURCE = 2000  # characters of a function with all it needs
_MAX_NAME, _MAX_LINE, _MAX_CODE = 30, 80, 10_000
_PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)
_RESERVED = frozenset((*dir(builtins), *keyword.kwlist, *keyword.softkwlist))


class LibraryFunction(NamedTuple):
    """A function that runs alone. The field names are keys of the library's JSON file.

    `call` is its signature, `area(width, height)`; `line` the first line of its docstring, or ""; `source` its code
    after the imports and functions it needs.
    """

    name: str
    call: str
    line: str
    source: str


def extract_functions(cells: Iterable[str]) -> list[LibraryFunction]:
    """Return the top-level functions of some code, in the order of each name's first definition; its last one counts.

    `cells` are pieces of code that ran one after another; one that cannot be parsed is skipped. Left out: functions
    without a parameter (a constant is no tool), those whose names are private, long or a builtin's, and those that need
    more than builtins, imports and functions of this code.
    """
    nodes: dict[str, ast.FunctionDef] = {}
    imports: dict[str, str] = {}
    for statement in _statements(cells):
        if isinstance(statement, ast.FunctionDef):
            nodes[statement.name] = statement
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            imports |= _single_imports(statement)
    functions = [_standalone(name, nodes, imports) for name in nodes if _is_allowed(name)]
    return [function for function in functions if function]


def called_names(cells: Iterable[str], names: Iterable[str]) -> set[str]:
    """Return those of the function names `names` that the pieces of code `cells` call and do not define themselves."""
    statements = _statements(cells)
    nodes = [node for statement in statements for node in ast.walk(statement)]
    calls = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return calls & set(names) - {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def canonical_form(source: str) -> str:
    """Return a text that is equal for functions that differ only in their names, docstrings and layout.

    `source` ends in the function's definition; imports and functions that it needs may precede it. Raises ValueError
    where its last statement is no function definition.
    """
    try:
        tree = ast.parse(source)
    except _PARSE_ERRORS:
        tree = ast.Module([], [])
    if not tree.body or not isinstance(last := tree.body[-1], ast.FunctionDef):
        raise ValueError(f"not the code of a function: {source[:60]!r}")
    name, last.name = last.name, "_"
    if ast.get_docstring(last) is not None:
        last.body = last.body[1:] or [ast.Pass()]
    for node in ast.walk(tree):  # recursive calls
        if isinstance(node, ast.Name) and node.id == name:
            node.id = "_"
    return ast.dump(tree)


def _statements(cells: Iterable[str]) -> list[ast.stmt]:
    statements: list[ast.stmt] = []
    for cell in cells:
        try:
            statements += ast.parse(cell).body if len(cell) <= _MAX_CODE else []
        except _PARSE_ERRORS:
            continue
    return statements


def _single_imports(statement: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """Each name that an import statement binds, with a statement that imports it alone."""
    imports = {}
    for alias in statement.names:
        single = (
            ast.Import([alias])
            if isinstance(statement, ast.Import)
            else ast.ImportFrom(statement.module, [alias], statement.level)
        )
        imports[alias.asname or alias.name.partition(".")[0]] = ast.unparse(single)
    return imports


def _is_allowed(name: str) -> bool:
    return name.isascii() and len(name) <= _MAX_NAME and name not in _RESERVED and not name.startswith("_")


def _standalone(name: str, nodes: dict[str, ast.FunctionDef], imports: dict[str, str]) -> LibraryFunction | None:
    """The function with what it needs before it; None where something it needs is not there, or it is too long."""
    node = nodes[name]
    try:
        needs, pending = {name}, [name]
        while pending:
            for need in _free_names(ast.unparse(nodes[pending.pop()])) - needs:
                needs.add(need)
                if need in nodes:
                    pending.append(need)
                elif need not in imports and not hasattr(builtins, need):
                    return None
        parts = [imports[need] for need in sorted(needs - nodes.keys()) if need in imports]
        parts += [ast.unparse(nodes[other]) for other in nodes if other in needs and other != name]
        parts.append(ast.unparse(node))
        call = f"{name}({ast.unparse(node.args)})"
        line = (ast.get_docstring(node) or "").partition("\n")[0].strip()
    except _PARSE_ERRORS:
        return None
    source = "\n".join(parts)
    if not call.removeprefix(name).strip("()") or len(source) > MAX_SOURCE or len(call) > _MAX_LINE:
        return None
    return LibraryFunction(name, call, "".join(filter(str.isprintable, line))[:_MAX_LINE], source)


def _free_names(source: str) -> set[str]:
    """The names that some code takes from outside its functions."""
    names: set[str] = set()
    tables: Sequence[symtable.SymbolTable] = [symtable.symtable(source, "function", "exec")]
    while tables:
        outer = [table.get_type() == "module" for table in tables]
        for table, is_module in zip(tables, outer, strict=True):
            names |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (is_module or s.is_global())}
        tables = [child for table in tables for child in table.get_children()]
    return names
