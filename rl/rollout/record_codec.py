"""Records as JSON-able data and back, exactly: what a checkpoint stores of episodes, without executing anything.

Numbers, text, lists and dicts with text keys stay what they are. Anything else becomes an object with its type under
the key "!": tuples, sets, bytes, dicts with other keys, and the records of `rl.records`. A record that occurs several
times (forks share turns) is one object again after decoding. A long text, such as an image that all members of a group
were shown, is stored once.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from agents.images import PlacedImage
from envs.types import Stop
from rl.records import Completion, Fork, Group, Ticket, Trajectory, Turn

_RECORDS: dict[str, Any] = {
    cls.__name__: cls for cls in (Completion, Fork, Group, PlacedImage, Ticket, Trajectory, Turn)
}
_TYPE, _NUMBER = "!", "#"
LONG_TEXT = 1000  # characters


def encode(value: Any, store_array: Callable[[Any], Any] | None = None) -> Any:
    """Return `value` as data that `json` writes and `decode` restores.

    `store_array` stores a NumPy array or a tensor elsewhere and returns JSON-able data to find it by, or None for a
    value of another type; without it there must be no arrays. A NumPy scalar becomes the number that it holds.

    Raises `TypeError` for a value of a type that cannot be stored; the text says where it is.
    """
    numbers: dict[int | str, int] = {}  # of the records so far, by id, and of the long texts

    def convert(value: Any, place: str) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if type(value) is str and len(value) >= LONG_TEXT:
            if value in numbers:
                return {_TYPE: "same", _NUMBER: numbers[value]}
            numbers[value] = len(numbers)
            return {_TYPE: "text", "value": value}
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, Stop):
            return {_TYPE: "Stop", "value": str(value)}
        if _RECORDS.get(type(value).__name__) is type(value):
            return convert_record(value, place)
        if isinstance(value, Mapping):
            if all(type(key) is str for key in value) and _TYPE not in value:
                return {key: convert(one, f"{place}/{key}") for key, one in value.items()}
            pairs = [[convert(key, place), convert(one, f"{place}/{key}")] for key, one in value.items()]
            return {_TYPE: "dict", "items": pairs}
        if isinstance(value, list):
            return [convert(one, f"{place}/{number}") for number, one in enumerate(value)]
        if type(value) in (tuple, set, frozenset):
            items = [convert(one, f"{place}/{number}") for number, one in enumerate(value)]
            return {_TYPE: type(value).__name__, "items": items}
        if isinstance(value, bytes):
            return {_TYPE: "bytes", "value": base64.b64encode(value).decode()}
        stored = store_array(value) if store_array else None
        if stored is None:
            raise TypeError(f"{place or 'it'}: {type(value).__name__} {str(value)[:60]!r} cannot be stored")
        return {_TYPE: "array", "value": stored}

    def convert_record(record: Any, place: str) -> Any:
        if id(record) in numbers:
            return {_TYPE: "same", _NUMBER: numbers[id(record)]}
        names = [field.name for field in fields(record)] if is_dataclass(record) else record._fields
        values = {name: convert(getattr(record, name), f"{place}/{name}") for name in names}
        numbers[id(record)] = len(numbers)
        return {_TYPE: type(record).__name__, **values}

    return convert(value, "")


def decode(data: Any, load_array: Callable[[Any], Any] | None = None) -> Any:
    """Return what `encode` was given. `load_array` returns the array that `store_array` returned its argument for.

    Raises `ValueError`, `TypeError` or `LookupError` for data that `encode` does not return.
    """
    records: list[Any] = []

    def restore(data: Any) -> Any:
        if isinstance(data, list):
            return [restore(one) for one in data]
        if not isinstance(data, dict):
            return data
        if _TYPE not in data:
            return {key: restore(one) for key, one in data.items()}
        kind = data[_TYPE]
        if kind == "same":
            return records[data[_NUMBER]]
        if kind == "text":
            records.append(data["value"])
            return records[-1]
        if kind in _RECORDS:
            records.append(_RECORDS[kind](**{key: restore(one) for key, one in data.items() if key != _TYPE}))
            return records[-1]
        if kind == "array" and load_array:
            return load_array(data["value"])
        return _RESTORERS[kind]([restore(one) for one in data["items"]] if "items" in data else data["value"])

    return restore(data)


_RESTORERS: dict[str, Callable[[Any], Any]] = {
    "Stop": Stop,
    "bytes": base64.b64decode,
    "dict": dict,
    "frozenset": frozenset,
    "set": set,
    "tuple": tuple,
}
