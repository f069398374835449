"""Plain data as JSON and back, for values that leave a sandbox: nothing in them can be executed.

Types that JSON lacks are tagged: `(1, 2)` is `{"tuple": [1, 2]}`, `10**5000` is `{"int": "0x..."}`, `b"a"` is
`{"bytes": "61"}`. `load` accepts any bytes, also malicious ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

MAX_DEPTH = 100
MAX_EQUAL_HASHES = 100  # keys with the same hash are compared pairwise: a few thousand would take seconds
_SAFE_INTEGER = 1 << 53  # smaller integers are the same in every JSON parser


class NotPlain(ValueError):
    """The value, or the text, is not plain data."""


def dump(value: object) -> str:
    """Return the JSON text of a value: None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset.

    Raises NotPlain, a ValueError, for subclasses of these types, all other types, and nesting over `MAX_DEPTH`.
    """
    return json.dumps(_encode(value, 0))


def load(text: str | bytes) -> Any:
    """Return the value of a text that `dump` wrote. Raises NotPlain, a ValueError, for every other text."""
    try:
        return _decode(json.loads(text), 0)
    except NotPlain:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as fault:
        raise NotPlain(f"not plain data: {type(fault).__name__}") from None


def _encode(value: Any, depth: int) -> Any:
    kind = type(value)
    if depth > MAX_DEPTH:
        raise NotPlain(f"a value nested more than {MAX_DEPTH} deep")
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -_SAFE_INTEGER < value < _SAFE_INTEGER else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is complex:
        return {"complex": [_encode(value.real, depth), _encode(value.imag, depth)]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is list:
        return [_encode(item, depth + 1) for item in value]
    if kind is dict:
        return {"dict": [[_encode(key, depth + 1), _encode(item, depth + 1)] for key, item in value.items()]}
    if kind in (tuple, set, frozenset):
        return {kind.__name__: [_encode(item, depth + 1) for item in value]}
    raise NotPlain(f"a value of type {kind.__name__} is no plain data")


def _decode(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise NotPlain(f"a value nested more than {MAX_DEPTH} deep")
    if isinstance(value, list):
        return [_decode(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    [(tag, content)] = value.items()
    if tag in _SCALARS:
        return _SCALARS[tag](content)
    if tag == "dict":
        pairs = [(_decode(key, depth + 1), _decode(item, depth + 1)) for key, item in content]
        _check_hashes(key for key, _ in pairs)
        return dict(pairs)
    if not isinstance(content, list):
        raise NotPlain("a collection without its list")
    items = [_decode(item, depth + 1) for item in content]
    if tag in ("set", "frozenset"):
        _check_hashes(items)
    return _COLLECTIONS[tag](items)


def _check_hashes(keys: Iterable[Any]) -> None:
    hashes = [hash(key) for key in keys]
    if len(hashes) - len(set(hashes)) > MAX_EQUAL_HASHES:
        raise NotPlain(f"more than {MAX_EQUAL_HASHES} keys of equal hash")


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "int": lambda content: int(content, 16),
    "float": lambda content: {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[content],
    "complex": lambda content: complex(*[_decode(part, 0) for part in content]),
    "bytes": bytes.fromhex,
}
_COLLECTIONS: dict[str, Callable[[list], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
