"""What is imported once, so that all that are forked from this process find it there."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Sequence
from types import ModuleType

from sandboxes.local import candidate
from sandboxes.local.heap import gather_pages

_PRELOADED = (  # nothing that brings `threading` along: what it does after each fork costs a call a tenth
    "bisect collections copy dataclasses datetime decimal enum fractions functools heapq inspect itertools "
    "json math operator random re statistics string struct textwrap time typing"
)


def load(names: Sequence[str]) -> None:
    """Import what candidates will want, and lay the memory out so that forking it is cheap.

    Raises OSError where one of the packages has started a thread, which a fork would lose.
    """
    candidate.open_streams()
    for name in [*_PRELOADED.split(), *names]:
        importlib.import_module(name)
    if "sympy" in names:
        _warm(importlib.import_module("sympy"))
    if "numpy" in names:
        importlib.import_module("numpy.random").seed(0)  # the same program gives the same answer
    compile("0", "warm", "exec")
    gc.collect()
    gc.disable()
    gc.freeze()  # else a candidate's first collection would copy every page
    if len(os.listdir("/proc/self/task")) > 1:
        raise OSError(f"a package of {list(names)} started a thread; it cannot be loaded before forking")
    gather_pages()


def _warm(sympy: ModuleType) -> None:
    """Have it load the parts, and fill the caches, that most programs want."""
    x = sympy.Symbol("x")
    for value in (sympy.expand((x + 1) ** 2), sympy.factor(x**2 - 1), sympy.solve(x**2 - 2, x), sympy.diff(x**2, x)):
        str(value)
    str(sympy.simplify(x / x))
