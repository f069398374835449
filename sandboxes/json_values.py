"""Plain data as JSON and back, for values that cross from a sandbox: nothing in them can execute.

What JSON lacks is tagged: `(1, 2)` is `{"tuple": [1, 2]}`, `10**5000` is `{"int": "0x..."}`, `b"a"` is
`{"bytes": "61"}`. The reader trusts nothing: it may be given any bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

MAX_DEPTH = 100
MAX_EQUAL_HASHES = 100  # keys of one hash are compared pair by pair: a few thousand would take seconds
_SMALL = 1 << 53


class NotPlain(ValueError):
    """The value, or the text, is no plain data."""


def dump(value: object) -> str:
    """The JSON text of a value. Raises NotPlain for any type but the exact plain ones."""
    return json.dumps(_tagged(value, 0))


def load(text: str | bytes) -> Any:
    """The value of such a text. Raises NotPlain for everything else."""
    try:
        return _untagged(json.loads(text), 0)
    except NotPlain:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as fault:
        raise NotPlain(f"not plain data: {type(fault).__name__}") from None


def _tagged(value: Any, depth: int) -> Any:
    kind = type(value)
    if depth > MAX_DEPTH:
        raise NotPlain(f"a value nested more than {MAX_DEPTH} deep")
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -_SMALL < value < _SMALL else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is complex:
        return {"complex": [_tagged(value.real, depth), _tagged(value.imag, depth)]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is list:
        return [_tagged(one, depth + 1) for one in value]
    if kind is dict:
        return {"dict": [[_tagged(key, depth + 1), _tagged(one, depth + 1)] for key, one in value.items()]}
    if kind in (tuple, set, frozenset):
        return {kind.__name__: [_tagged(one, depth + 1) for one in value]}
    raise NotPlain(f"a value of type {kind.__name__} is no plain data")


def _untagged(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise NotPlain(f"a value nested more than {MAX_DEPTH} deep")
    if isinstance(value, list):
        return [_untagged(one, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    [(tag, held)] = value.items()
    if tag in _SCALARS:
        return _SCALARS[tag](held)
    if tag == "dict":
        pairs = [(_untagged(key, depth + 1), _untagged(one, depth + 1)) for key, one in held]
        _check_hashes(key for key, _ in pairs)
        return dict(pairs)
    if not isinstance(held, list):
        raise NotPlain("a collection without its list")
    members = [_untagged(one, depth + 1) for one in held]
    if tag in ("set", "frozenset"):
        _check_hashes(members)
    return _COLLECTIONS[tag](members)


def _check_hashes(keys: Iterable[Any]) -> None:
    hashes = [hash(key) for key in keys]
    if len(hashes) - len(set(hashes)) > MAX_EQUAL_HASHES:
        raise NotPlain(f"more than {MAX_EQUAL_HASHES} keys of equal hash")


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "int": lambda held: int(held, 16),
    "float": lambda held: {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[held],
    "complex": lambda held: complex(*[_untagged(part, 0) for part in held]),
    "bytes": bytes.fromhex,
}
_COLLECTIONS: dict[str, Callable[[list], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
