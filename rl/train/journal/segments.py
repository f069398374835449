"""Files of checksummed records that are only ever appended to; an incomplete record at the end is cut off."""

from __future__ import annotations

import base64
import json
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rl.records import Ticket
from rl.rollout.record_codec import decode, encode

FIELDS: dict[Any, dict[str, type]] = {  # of each kind of record
    "START": {"incarnation": int},
    "RESUME": {"incarnation": int},
    "ADMIT": {"ticket": Ticket},
    "READY": {"ticket": Ticket, "groups": list},
    "DROP": {"ticket": Ticket, "reason": str},
    "CLAIM": {"update": int, "tickets": list},
    "COMMIT": {"update": int},
}
_HEADER = struct.Struct("<II")  # bytes of the record, and their CRC-32


class Segment:
    """Appends records to one file. Each is handed to the operating system at once, so that a kill loses none."""

    def __init__(self, path: Path) -> None:
        """Open the file at `path`, which is created if there is none. Raises `OSError` if it cannot be written."""
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def append(self, record: Mapping[str, Any], *, is_durable: bool = False) -> None:
        """Append what `rl.rollout.record_codec.encode` takes, and NumPy arrays; wait for the disk if `is_durable`.

        Raises `OSError` if the disk is full; what was written of the record is then cut off, as far as that works.
        """
        content = json.dumps(encode(record, _array_to_json)).encode()
        content = _HEADER.pack(len(content), zlib.crc32(content)) + content
        end = os.fstat(self._handle).st_size
        try:
            position = 0
            while position < len(content):
                position += os.write(self._handle, content[position:])
            if is_durable:
                os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, end)
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


def read_segment(path: Path) -> tuple[list[tuple[int, dict[str, Any]]], bool]:
    """Return the records of a file, each with the position at which it ends, and whether all of the file is records.

    Reading stops at the first record that is incomplete, does not have its checksum, or is none of a journal. Raises
    `OSError`.
    """
    content, records, start = path.read_bytes(), list[tuple[int, dict[str, Any]]](), 0
    while start + _HEADER.size <= len(content):
        size, checksum = _HEADER.unpack_from(content, start)
        end = start + _HEADER.size + size
        payload = content[start + _HEADER.size : end]
        if len(payload) < size or zlib.crc32(payload) != checksum or not size:
            break
        try:
            record = decode(json.loads(payload), _array_from_json)
        except (ValueError, TypeError, LookupError):
            break
        if not is_record(record):
            break
        records.append((end, record))
        start = end
    return records, start == len(content)


def is_record(value: Any) -> bool:
    """Whether `value` is a record with all that its kind has."""
    fields = FIELDS.get(value.get("kind")) if isinstance(value, dict) else None
    return fields is not None and all(isinstance(value.get(name), kind) for name, kind in fields.items())


def _array_to_json(value: Any) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return None
    return [value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()]


def _array_from_json(data: Any) -> np.ndarray:
    dtype, shape, text = data
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape).copy()
