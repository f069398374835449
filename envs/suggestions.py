"""One-line errors for unknown names, with the name that was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

NEAR, NEARER = 0.6, 0.8  # how alike names are, from 0 to 1


def unknown(what: str, name: object, known: Iterable[object], *, of: str = "", prefer: Iterable[object] = ()) -> str:
    """One line for a name that is not among `known`: the nearest one or, if none is near, those there are.

    Where some are to be preferred, another one is named only if it is nearer than these are.
    """
    word, first, names = str(name), [str(key) for key in prefer], [str(key) for key in known]
    near = nearest(word, first, NEARER) or nearest(word, names, NEARER) or nearest(word, first or names)
    where = f" in {of}" if of else ""
    if near:
        return f"unknown {what} {name!r}{where}; did you mean {near!r}?"
    return f"unknown {what} {name!r}{where}; there are: {', '.join(sorted(first or names)) or 'none'}"


def nearest(name: str, known: Iterable[str], least: float = NEAR) -> str | None:
    """The name whose bare part is closest, such as `math/Arithmetic-v0` to `arithmatic`; of several, by the whole."""
    by_bare: dict[str, list[str]] = {}
    for key in known:
        by_bare.setdefault(_bare(key), []).append(key)
    near = difflib.get_close_matches(_bare(name), by_bare, n=1, cutoff=least)
    return difflib.get_close_matches(name, by_bare[near[0]], n=1, cutoff=0.0)[0] if near else None


def _bare(name: str) -> str:
    """An id without its family and version, which make unlike ids look alike."""
    return re.sub(r"-v[0-9]+$", "", name.lower().split("/")[-1])
