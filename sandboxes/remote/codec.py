"""What passes between `remote` and its server: JSON objects, bytes as base64, values of calls as the text of `plain`.

The server trusts nothing that it reads: each field is taken by name and type, and unknown ones are refused.
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
    Content,
    Limits,
    Program,
    ReplayDiverged,
    Result,
    SandboxBusy,
    SandboxClosed,
    SandboxDied,
    SandboxError,
    SandboxUnavailable,
    Shelter,
    Status,
    as_bytes,
)

VERSION = "v1"
REQUEST = "Turnwise-Request"  # a name for one request: asked again under it, it is answered again, not done again
SERVER = "Turnwise-Server"  # in answers: who answered; in requests: do it only if that is you
LONGEST_S = 3600.0  # the most that a request may ask for as `timeout_s`
MOST = 1 << 31  # of any limit
QUEUE_S = 10.0  # how long the server lets a request wait for a place before it says that it is busy
ANSWERS: dict[str, tuple[int, type[Exception]]] = {  # HTTP status, and what the client raises
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
_KINDS: tuple[tuple[type[Exception], str], ...] = (  # the first that fits
    (SandboxBusy, "busy"),
    (SandboxDied, "died"),
    (SandboxClosed, "closed"),
    (SandboxUnavailable, "unavailable"),
    (ReplayDiverged, "diverged"),
    (SandboxError, "fault"),
    (OSError, "os"),
    (ValueError, "value"),
)


def kind_of(fault: Exception) -> str | None:
    """The name under which a fault is told; None for one that is no fault of a sandbox, but a bug."""
    return next((kind for cls, kind in _KINDS if isinstance(fault, cls)), None)


def told(fault: Exception) -> dict[str, Any]:
    """A fault as it is told."""
    number = fault.errno if isinstance(fault, OSError) else None
    text = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
    return {"text": text, "errno": number}


def fault(kind: str, text: str, number: object, subject: str) -> Exception:
    """What the client raises for a fault that was told; `subject` is the path that an OSError is about."""
    cls = ANSWERS.get(kind, (0, SandboxError))[1]
    if cls is OSError:
        return OSError(number, text, *([subject] if subject else [])) if isinstance(number, int) else OSError(text)
    return cls(text)


def pack(content: Content) -> str:
    """Bytes, or text as UTF-8, as base64."""
    return base64.b64encode(as_bytes(content)).decode()


def pack_all(files: Mapping[str, Content]) -> dict[str, str]:
    """The same of files by path."""
    return {path: pack(content) for path, content in files.items()}


def unpack(said: object) -> bytes:
    """The bytes of such a text. Raises ValueError for any other."""
    try:
        return base64.b64decode(said, validate=True)  # type: ignore[arg-type]
    except (binascii.Error, TypeError, ValueError):
        raise ValueError(f"{said!r:.40} is no base64") from None


def pack_result(result: Result) -> dict[str, Any]:
    """A result as JSON can hold it."""
    packed = {field.name: getattr(result, field.name) for field in fields(Result)}
    files, unread, value = pack_all(result.files), dict(result.unread), json_values.dump(result.value)
    return packed | {"status": str(result.status), "files": files, "unread": unread, "value": value}


def unpack_result(said: Mapping[str, Any]) -> Result:
    """The result again; fields of later versions are left out."""
    known = {field.name: said[field.name] for field in fields(Result) if field.name in said}
    known["status"] = Status(known["status"])
    known["files"] = {path: unpack(content) for path, content in known.get("files", {}).items()}
    known["value"] = json_values.load(known.get("value", "null"))
    return Result(**known)


def pack_limits(limits: Limits | None) -> dict[str, Any]:
    """Limits as JSON can hold them; {} are those that the server gives by itself."""
    return asdict(limits) if limits else {}


def unpack_shelter(said: Mapping[str, Any]) -> Shelter:
    """A shelter again."""
    known = {field.name: said[field.name] for field in fields(Shelter) if field.name in said}
    return Shelter(**known | {name: tuple(known[name]) for name in ("covered", "uncovered")})


class Fields:
    """The fields of a request, each taken once by name and type. Every fault is a ValueError that names the field."""

    def __init__(self, said: object) -> None:
        if not isinstance(said, dict):
            raise ValueError("the body must be a JSON object")
        self._rest: dict[str, Any] = dict(said)

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        return self._typed(name, str, default, "a text")

    def text_or_null(self, name: str) -> str:
        """A text; null and absent are empty."""
        if self._rest.get(name, "") is None:
            del self._rest[name]
        return self.text(name, "")

    def count(self, name: str, default: int | None = None) -> int:
        """A whole number from -1 on."""
        value = self._rest.pop(name, default)
        if type(value) is not int or not -1 <= value <= MOST:
            raise ValueError(f"{name} = {value!r:.40}: must be a whole number up to {MOST}")
        return value

    def seconds(self, name: str, default: float) -> float:
        """A number above 0 and up to an hour."""
        value = self._rest.pop(name, default)
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ValueError(f"{name} = {value!r:.40}: must be a number")
        if not 0 < value <= LONGEST_S:
            raise ValueError(f"{name} = {value!r:.40}: must be more than 0 and at most {LONGEST_S:g}")
        return float(value)

    def content(self, name: str) -> bytes:
        """Bytes; absent are none."""
        return unpack(self.text(name, ""))

    def texts(self, name: str) -> list[str]:
        """A list of texts; absent is empty."""
        value = self._typed(name, list, [], "a list of texts")
        if not all(isinstance(one, str) for one in value):
            raise ValueError(f"{name}: must be a list of texts")
        return value

    def named(self, name: str) -> dict[str, str]:
        """Texts by name; absent are none."""
        value = self._typed(name, dict, {}, "an object of texts")
        if not all(isinstance(one, str) for one in value.values()):
            raise ValueError(f"{name}: must be an object of texts")
        return value

    def files(self, name: str) -> dict[str, bytes]:
        """Contents by path; absent are none."""
        return {path: unpack(content) for path, content in self.named(name).items()}

    def program(self) -> Program:
        """The text of a Python program, or the words of a command."""
        value = self._rest.pop("program", None)
        if isinstance(value, str):
            return value
        if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
            raise ValueError("program: must be the text of a Python program, or the words of a command")
        return value

    def limits(self) -> Limits | None:
        """Limits; those that are absent are as by default."""
        said = self._typed("limits", dict, {}, "an object of numbers")
        for field in fields(Limits):
            value = said.get(field.name, field.default)
            kinds = (int, float) if field.name == "cpu_s" else (int,)
            if type(value) not in kinds or not value <= MOST:
                whole = "whole " * (len(kinds) == 1)
                raise ValueError(f"limits: {field.name} = {value!r:.40}: must be a {whole}number up to {MOST}")
        if odd := set(said) - {field.name for field in fields(Limits)}:
            raise ValueError(f"limits: there is no {min(odd)!r:.40}")
        return Limits(**said) if said else None

    def value(self, name: str, kind: type) -> Any:
        """A value of plain data of one kind, given as its text; absent is an empty one."""
        value = json_values.load(self.text(name, json_values.dump(kind())))
        if type(value) is not kind:
            raise ValueError(f"{name}: must be the text of a {kind.__name__}")
        return value

    def end(self) -> None:
        """Refuse what nobody has taken."""
        if self._rest:
            raise ValueError(f"there is no field {min(self._rest)!r:.40} here")

    def _typed(self, name: str, kind: type, default: Any, what: str) -> Any:
        value = self._rest.pop(name, default)
        if not isinstance(value, kind):
            raise ValueError(f"{name} = {value!r:.40}: must be {what}")
        return value
