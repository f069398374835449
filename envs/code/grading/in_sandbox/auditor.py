"""Reads a program for suspicious constructs. It runs in a sandbox; here it is only read as a text."""

import ast

NAMES = {
    "exits": {"_exit", "exit", "quit", "abort", "SystemExit", "atexit", "kill"},
    "frames": {
        *("_getframe", "currentframe", "f_back", "f_locals", "f_globals", "gc", "get_objects", "get_referrers"),
        *("settrace", "setprofile", "monitoring", "inspect", "__subclasses__", "tb_frame", "excepthook"),
    },
    "files": {"open", "fdopen", "listdir", "walk", "glob", "scandir", "pathlib", "dup", "dup2", "linecache"},
    "processes": {"subprocess", "popen", "system", "fork", "Popen", "socket", "ctypes", "multiprocessing", "threading"},
    "patches": {"builtins", "__builtins__", "setattr", "sys", "importlib", "__import__", "globals", "exec", "eval"},
}
MAX_CONSTANTS = 60  # in one display, such as a list
MAX_BRANCHES = 8  # that compare with a constant


def flags(sources):
    """The kinds that the first of `sources` which compiles shows."""
    for source in sources:
        try:
            tree = ast.parse(source)
            break
        except Exception:
            continue
    else:
        return []
    words: set = set()
    found: set = set()
    for node in ast.walk(tree):
        words.update(part for part in _words(node) if part)
        display = isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict))
        if display and sum(isinstance(one, ast.Constant) for one in ast.walk(node)) > MAX_CONSTANTS:
            found.add("tables")
    modules = {one.asname or one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _root(node) in modules:
            found.add("patches")
    tests = [node.test for node in ast.walk(tree) if isinstance(node, (ast.If, ast.IfExp))]
    if sum(isinstance(test, ast.Compare) and _fixed(test) for test in tests) > MAX_BRANCHES:
        found.add("tables")
    return sorted(found | {kind for kind, names in NAMES.items() if words & names})


def _words(node):
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Import):
        return [part for one in node.names for part in one.name.split(".")]
    if isinstance(node, ast.ImportFrom):
        return [*(node.module or "").split("."), *(one.name for one in node.names)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        return [node.value] if node.value.startswith("_") else []
    return []


def _root(node):
    while isinstance(node, ast.Attribute):
        node = node.value
    return getattr(node, "id", None)


def _fixed(test):
    """A comparison of something with a constant for equality."""
    return isinstance(test.ops[0], ast.Eq) and any(isinstance(one, ast.Constant) for one in test.comparators)
