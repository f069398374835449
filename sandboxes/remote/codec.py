"""Messages between `remote` and its server: JSON objects, bytes as base64, values of calls as text of `json_values`.

The server trusts nothing that it reads: each field is read by name and type, and unknown fields are refused.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from sandboxes import json_values
from sandboxes.types import (
    MAX_LIMIT,
    Content,
    Isolation,
    Limits,
    Program,
    ReplayDiverged,
    Result,
    SandboxBusy,
    SandboxClosed,
    SandboxDied,
    SandboxError,
    SandboxUnavailable,
    Status,
    as_bytes,
)

VERSION = "v1"
REQUEST_HEADER = "Turnwise-Request"  # a request id: sent again with it, a request is answered but not executed again
SERVER_HEADER = "Turnwise-Server"  # in responses: the server's id; in requests: execute it only if that is yours
MAX_TIMEOUT_S = 3600.0  # of a request
QUEUE_S = 10.0  # how long a request waits for a place on the server before it is refused as busy
ERRORS: dict[str, tuple[int, type[Exception]]] = {  # by kind: the HTTP status, and what the client raises
    "value": (400, ValueError),
    "lost": (410, SandboxDied),
    "large": (413, ValueError),
    "os": (422, OSError),
    "busy": (429, SandboxBusy),
    "diverged": (409, ReplayDiverged),
    "gone": (404, SandboxDied),
    "closed": (503, SandboxClosed),
    "unavailable": (503, SandboxUnavailable),
    "died": (502, SandboxDied),
    "fault": (502, SandboxError),
    "token": (401, SandboxUnavailable),
}
_KINDS: tuple[tuple[type[Exception], str], ...] = (  # the first match counts
    (SandboxBusy, "busy"),
    (SandboxDied, "died"),
    (SandboxClosed, "closed"),
    (SandboxUnavailable, "unavailable"),
    (ReplayDiverged, "diverged"),
    (SandboxError, "fault"),
    (OSError, "os"),
    (ValueError, "value"),
)


def error_kind(error: Exception) -> str | None:
    """Return the key of `ERRORS` for an exception, such as "busy" for SandboxBusy.

    None stands for an exception that no sandbox raises: it is a bug of the server.
    """
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), None)


def pack_error(error: Exception) -> dict[str, Any]:
    """Return an exception as fields of a message: "text", what it says, and "errno".

    "errno" is the error number of an OSError, else None.
    """
    errno = error.errno if isinstance(error, OSError) else None
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return {"text": text, "errno": errno}


def unpack_error(kind: str, text: str, errno: object, path: str) -> Exception:
    """Return the exception for an error that the server reports.

    `kind` is a key of `ERRORS`, or one of a later version, which gives a SandboxError. `text` is what the exception
    says. `errno` is the error number of an OSError or None; `path` is the file that it is about, or "".
    """
    cls = ERRORS.get(kind, (0, SandboxError))[1]
    if cls is OSError:
        return OSError(errno, text, *([path] if path else [])) if isinstance(errno, int) else OSError(text)
    return cls(text)


def pack(content: Content) -> str:
    """Encode bytes, or text as UTF-8, in base64."""
    return base64.b64encode(as_bytes(content)).decode()


def pack_files(files: Mapping[str, Content]) -> dict[str, str]:
    """Encode contents by path in base64, by the same paths."""
    return {path: pack(content) for path, content in files.items()}


def unpack(text: object) -> bytes:
    """Decode the bytes of a base64 text. Raises ValueError for anything else."""
    try:
        return base64.b64decode(text, validate=True)  # type: ignore[arg-type]
    except (binascii.Error, TypeError, ValueError):
        raise ValueError(f"{text!r:.40} is no base64") from None


def pack_result(result: Result) -> dict[str, Any]:
    """Return a result as a JSON object: its fields by name, files in base64, and the value as text of `json_values`."""
    values = {field.name: getattr(result, field.name) for field in fields(Result)}
    files, unread, value = pack_files(result.files), dict(result.unread), json_values.dump(result.value)
    return values | {"status": str(result.status), "files": files, "unread": unread, "value": value}


def unpack_result(message: Mapping[str, Any]) -> Result:
    """Return the result of an object that `pack_result` wrote; fields of later versions are ignored."""
    values = {field.name: message[field.name] for field in fields(Result) if field.name in message}
    values["status"] = Status(values["status"])
    values["files"] = {path: unpack(content) for path, content in values.get("files", {}).items()}
    values["value"] = json_values.load(values.get("value", "null"))
    return Result(**values)


def pack_limits(limits: Limits | None) -> dict[str, Any]:
    """Return limits as a JSON object, field by field; {} for None, which stands for the server's defaults."""
    return asdict(limits) if limits else {}


def unpack_isolation(message: Mapping[str, Any]) -> Isolation:
    """Return the isolation of a JSON object with its fields by name; fields of later versions are ignored.

    Raises KeyError or TypeError where one is missing.
    """
    values = {field.name: message[field.name] for field in fields(Isolation) if field.name in message}
    return Isolation(**values | {name: tuple(values[name]) for name in ("covered", "uncovered")})


class RequestBody:
    """Reads the fields of a request, a JSON object, each once, by name and type.

    Every error is a ValueError that names the field; the constructor raises one for anything but an object. The
    parameter `name` is the field's name.
    """

    def __init__(self, message: object) -> None:
        if not isinstance(message, dict):
            raise ValueError("the body must be a JSON object")
        self._fields: dict[str, Any] = dict(message)

    def text(self, name: str, default: str | None = None) -> str:
        """Read a text. Where the field is missing it is `default`; without one, ValueError is raised."""
        return self._read(name, str, default, "a text")

    def text_or_null(self, name: str) -> str:
        """Read the text of the field `name`; "" where it is null or missing. Raises ValueError for any other type."""
        if self._fields.get(name, "") is None:
            del self._fields[name]
        return self.text(name, "")

    def count(self, name: str, default: int | None = None) -> int:
        """Read a whole number from -1 to `MAX_LIMIT`. A missing field is `default`, or a ValueError without one."""
        value = self._fields.pop(name, default)
        if type(value) is not int or not -1 <= value <= MAX_LIMIT:
            raise ValueError(f"{name} = {value!r:.40}: must be a whole number up to {MAX_LIMIT}")
        return value

    def seconds(self, name: str, default: float) -> float:
        """Read a number of seconds above 0 and at most an hour; `default` where the field is missing."""
        value = self._fields.pop(name, default)
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ValueError(f"{name} = {value!r:.40}: must be a number")
        if not 0 < value <= MAX_TIMEOUT_S:
            raise ValueError(f"{name} = {value!r:.40}: must be more than 0 and at most {MAX_TIMEOUT_S:g}")
        return float(value)

    def content(self, name: str) -> bytes:
        """Read bytes, sent as base64; b"" where the field is missing."""
        return unpack(self.text(name, ""))

    def texts(self, name: str) -> list[str]:
        """Read a list of texts; [] where the field is missing."""
        value = self._read(name, list, [], "a list of texts")
        if not all(isinstance(item, str) for item in value):
            raise ValueError(f"{name}: must be a list of texts")
        return value

    def texts_by_name(self, name: str) -> dict[str, str]:
        """Read an object whose values are texts; {} where the field is missing."""
        value = self._read(name, dict, {}, "an object of texts")
        if not all(isinstance(item, str) for item in value.values()):
            raise ValueError(f"{name}: must be an object of texts")
        return value

    def files(self, name: str) -> dict[str, bytes]:
        """Read contents by path, sent as base64; {} where the field is missing."""
        return {path: unpack(content) for path, content in self.texts_by_name(name).items()}

    def program(self) -> Program:
        """Read the required field "program": the source of a Python program, or the words of a command."""
        value = self._fields.pop("program", None)
        if isinstance(value, str):
            return value
        if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
            raise ValueError("program: must be the text of a Python program, or the words of a command")
        return value

    def limits(self) -> Limits | None:
        """Read the field "limits", an object with fields of `Limits`; those that are missing get their defaults.

        None where the field is missing or {}.
        """
        values = self._read("limits", dict, {}, "an object of numbers")
        if unknown := set(values) - {field.name for field in fields(Limits)}:
            raise ValueError(f"limits: there is no {min(unknown)!r:.40}")
        return Limits(**values) if values else None

    def value(self, name: str, kind: type) -> Any:
        """Read the value of the field `name`, sent as a text that `json_values.dump` wrote; `kind()` if it is missing.

        Raises ValueError unless its type is exactly `kind`.
        """
        value = json_values.load(self.text(name, json_values.dump(kind())))
        if type(value) is not kind:
            raise ValueError(f"{name}: must be the text of a {kind.__name__}")
        return value

    def end(self) -> None:
        """Raise ValueError if the request has a field that was not read."""
        if self._fields:
            raise ValueError(f"there is no field {min(self._fields)!r:.40} here")

    def _read(self, name: str, kind: type, default: Any, description: str) -> Any:
        value = self._fields.pop(name, default)
        if not isinstance(value, kind):
            raise ValueError(f"{name} = {value!r:.40}: must be {description}")
        return value
