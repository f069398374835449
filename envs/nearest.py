"""One-line errors for unknown names, with the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(what: str, name: object, known: Iterable[object], *, of: str = "", prefer: Iterable[object] = ()) -> str:
    """One line for a name that is not among `known`: the nearest one or, if none is near, those of `prefer`."""
    first, names = [str(key) for key in prefer], [str(key) for key in known]
    near = nearest(str(name), [*first, *names])
    where = f" in {of}" if of else ""
    if near:
        return f"unknown {what} {name!r}{where}; did you mean {near!r}?"
    return f"unknown {what} {name!r}{where}; there are: {', '.join(sorted(first or names)) or 'none'}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The closest name, by the whole or, as `arithmetic` for `math/Arithmetic-v0`, by its bare part."""
    whole = {key.lower(): key for key in known}
    bare = {key.split("/")[-1].rsplit("-v", 1)[0]: value for key, value in whole.items()}
    for table in (whole, bare):
        if near := difflib.get_close_matches(name.lower(), table, n=1, cutoff=0.6):
            return table[near[0]]
    return None
