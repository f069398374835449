"""Messages between host and agent, the first process of a container: a JSON head, and bytes after it.

Neither end is that of a candidate, an untrusted program.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from sandboxes import json_values
from sandboxes.types import Result, Status

HEADER = struct.Struct("<II")  # bytes of the head, and of all blobs together


class Message(NamedTuple):
    """A request or a response: `head` is a JSON object, `blobs` are contents that belong to it, such as files."""

    head: dict[str, Any]
    blobs: list[bytes]


def pack(head: dict[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """Return the bytes of a message: a header with two sizes, the head as JSON, and the blobs."""
    text = json.dumps(head | {"sizes": [len(blob) for blob in blobs]}).encode()
    return b"".join([HEADER.pack(len(text), sum(map(len, blobs))), text, *blobs])


def unpack(text: bytes, body: bytes) -> Message:
    """Return the message whose head is the JSON `text`, and whose blobs together are `body`.

    Raises ValueError where `body` has another size than the head says.
    """
    head = json.loads(text)
    blobs, position = [], 0
    for size in head.pop("sizes"):
        blobs.append(body[position : position + size])
        position += size
    if position != len(body):
        raise ValueError(f"{len(body)} bytes, where {position} are announced")
    return Message(head, blobs)


def pack_result(result: Result) -> tuple[dict[str, Any], list[bytes]]:
    """Return a result as a part of a message: its fields by name, with the paths of its files, and their contents.

    `Result.value` becomes text of `json_values`.
    """
    fields = {name: getattr(result, name) for name in result.__slots__}
    return fields | {"files": list(result.files), "value": json_values.dump(result.value)}, list(result.files.values())


def unpack_result(head: dict[str, Any], blobs: Sequence[bytes]) -> Result:
    """Return the result of what `pack_result` returned."""
    files = dict(zip(head["files"], blobs, strict=True))
    return Result(**head | {"status": Status(head["status"]), "files": files, "value": json_values.load(head["value"])})
