"""Messages between host and agent: a JSON head, and bytes after it. Neither end is a candidate's."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from sandboxes import json_values
from sandboxes.types import Result, Status

HEADER = struct.Struct("<II")  # bytes of the head, and of all blobs together


class Message(NamedTuple):
    """A request or a response."""

    head: dict[str, Any]
    blobs: list[bytes]


def pack(head: dict[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """The bytes of a message."""
    text = json.dumps(head | {"sizes": [len(blob) for blob in blobs]}).encode()
    return b"".join([HEADER.pack(len(text), sum(map(len, blobs))), text, *blobs])


def unpack(text: bytes, body: bytes) -> Message:
    """The message with this head and body. Raises ValueError where their sizes differ."""
    head = json.loads(text)
    blobs, position = [], 0
    for size in head.pop("sizes"):
        blobs.append(body[position : position + size])
        position += size
    if position != len(body):
        raise ValueError(f"{len(body)} bytes, where {position} are announced")
    return Message(head, blobs)


def pack_result(result: Result) -> tuple[dict[str, Any], list[bytes]]:
    """A result as a head, with its files as blobs."""
    fields = {name: getattr(result, name) for name in result.__slots__}
    return fields | {"files": list(result.files), "value": json_values.dump(result.value)}, list(result.files.values())


def unpack_result(head: dict[str, Any], blobs: Sequence[bytes]) -> Result:
    """The result of such a head and blobs."""
    files = dict(zip(head["files"], blobs, strict=True))
    return Result(**head | {"status": Status(head["status"]), "files": files, "value": json_values.load(head["value"])})
