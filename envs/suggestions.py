"""One-line error messages for unknown names, with the name that was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

MAX_SHOWN = 80  # characters of the unknown name in the message
MAX_LENGTH = 100  # letters of a name that are compared
CUTOFF, STRICT_CUTOFF = 0.6, 0.8  # least difflib ratio, from 0 to 1, of a name that is suggested


def unknown_message(
    kind: str,
    name: object,
    choices: Iterable[object],
    *,
    of: str = "",
    prefer: Iterable[object] = (),
    listing: str = "",
) -> str:
    """Return a one-line error message for a `name` that is not among `choices`.

    `unknown argument 'levle' in math/Sets-v0; did you mean 'level'?`, or `...; there are: level, words` if none is
    near.

    Args:
        kind: What the name names, such as "environment".
        name: The unknown name.
        choices: The valid names. The message suggests the nearest one, or lists all if none is near.
        of: Where the name was looked up; empty for nowhere in particular.
        prefer: Names to suggest rather than others of `choices` that are about as near.
        listing: A command that lists `choices`, where they are too many for one line; empty lists them in the message.
    """
    if isinstance(name, str) and len(name) > MAX_SHOWN:
        name = f"{name[:MAX_SHOWN]}..."
    word, preferred_names, names = str(name), [str(key) for key in prefer], [str(key) for key in choices]
    suggestion = (
        nearest(word, preferred_names, STRICT_CUTOFF)
        or nearest(word, names, STRICT_CUTOFF)
        or nearest(word, preferred_names or names)
    )
    where = f" in {of}" if of else ""
    if suggestion:
        return f"unknown {kind} {name!r}{where}; did you mean {suggestion!r}?"
    if listing:
        return f"unknown {kind} {name!r}{where}; `{listing}` lists all"
    return f"unknown {kind} {name!r}{where}; there are: {', '.join(sorted(preferred_names or names)) or 'none'}"


def nearest(name: str, choices: Iterable[str], cutoff: float = CUTOFF) -> str | None:
    """Return the choice most like `name`, None if the difflib ratio (0 to 1) of none reaches `cutoff`.

    Of those that reach it, the one that fewest edits lead to is the nearest. Ids are compared without family and
    version, so that `arithmatic` finds `math/Arithmetic-v0`; among equal ones the whole id decides.
    """
    by_stem: dict[str, list[str]] = {}
    for choice in choices:
        by_stem.setdefault(_stem(choice), []).append(choice)
    stem = _stem(name)[:MAX_LENGTH]
    stems = difflib.get_close_matches(stem, by_stem, n=5, cutoff=cutoff)
    if not stems:
        return None
    nearest_stem = min(stems, key=lambda other: _edits(stem, other))
    return difflib.get_close_matches(name[:MAX_LENGTH], by_stem[nearest_stem], n=1, cutoff=0.0)[0]


def _edits(a: str, b: str) -> int:
    """The least number of letters to insert, delete, replace, or swap with their neighbour, that turns `a` into `b`."""
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != other))
            if before and j > 1 and (letter, a[i - 2]) == (b[j - 2], other):
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]


def _stem(name: str) -> str:
    """An id without family and version, which make different ids look alike."""
    return re.sub(r"-v[0-9]+$", "", name.lower().split("/")[-1])
