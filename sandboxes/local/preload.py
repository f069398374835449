"""Imports what candidates (untrusted programs) are likely to use, once, in the process that they are forked from."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Sequence
from types import ModuleType

from sandboxes.local import candidate
from sandboxes.local.heap import collapse_heap
from sandboxes.local.identity import hide_paths

_PRELOAD = (  # nothing that imports `threading`, whose work after each fork costs a tenth of a call
    "bisect collections copy dataclasses datetime decimal enum fractions functools heapq inspect itertools "
    "json math operator random re statistics string struct textwrap time typing"
)


def load(names: Sequence[str]) -> None:
    """Import the usual modules of the standard library and `names`, and lay out the memory so that forks are cheap.

    Also opens `sys.stdin`, `stdout` and `stderr` anew, and turns garbage collection off. Raises ImportError for a
    package that is not there, and OSError where one has started a thread, which a fork would lose.
    """
    candidate.open_streams()
    for name in [*_PRELOAD.split(), *names]:
        importlib.import_module(name)
    if "sympy" in names:
        _warm_up(importlib.import_module("sympy"))
    if "numpy" in names:
        importlib.import_module("numpy.random").seed(0)  # the same program must give the same answer
    compile("0", "warm", "exec")
    hide_paths()
    gc.collect()
    gc.disable()
    gc.freeze()  # otherwise a candidate's first collection would copy every page
    if len(os.listdir("/proc/self/task")) > 1:
        raise OSError(f"a package of {list(names)} started a thread; it cannot be loaded before forking")
    collapse_heap()


def _warm_up(sympy: ModuleType) -> None:
    """Have sympy load the submodules and fill the caches that most programs need."""
    x = sympy.Symbol("x")
    for value in (sympy.expand((x + 1) ** 2), sympy.factor(x**2 - 1), sympy.solve(x**2 - 2, x), sympy.diff(x**2, x)):
        str(value)
    str(sympy.simplify(x / x))
