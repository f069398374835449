"""What host and agent say to each other: a JSON head, and bytes behind it. Neither end is a candidate's."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from sandboxes import json_values
from sandboxes.types import Result, Status

HEADER = struct.Struct("<II")  # bytes of the head, and of all blobs together


class Message(NamedTuple):
    """One of either direction."""

    head: dict[str, Any]
    blobs: list[bytes]


def packed(head: dict[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """The bytes of a message."""
    text = json.dumps(head | {"sizes": [len(blob) for blob in blobs]}).encode()
    return b"".join([HEADER.pack(len(text), sum(map(len, blobs))), text, *blobs])


def unpacked(text: bytes, body: bytes) -> Message:
    """The message of such a head and body. ValueError where they do not fit together."""
    head = json.loads(text)
    blobs, at = [], 0
    for size in head.pop("sizes"):
        blobs.append(body[at : at + size])
        at += size
    if at != len(body):
        raise ValueError(f"{len(body)} bytes, where {at} are announced")
    return Message(head, blobs)


def told(result: Result) -> tuple[dict[str, Any], list[bytes]]:
    """A result as a head, and its files as blobs."""
    fields = {name: getattr(result, name) for name in result.__slots__}
    return fields | {"files": list(result.files), "value": json_values.dump(result.value)}, list(result.files.values())


def heard(head: dict[str, Any], blobs: Sequence[bytes]) -> Result:
    """The result that was told."""
    files = dict(zip(head["files"], blobs, strict=True))
    return Result(**head | {"status": Status(head["status"]), "files": files, "value": json_values.load(head["value"])})
