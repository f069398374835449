"""The arguments of `Sandbox.run`, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandboxes.types import Content, Limits, Program, as_bytes, relative_parts

MAX_TIMEOUT_S = 86_400.0  # a day; the system's own waits do not accept much more


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The arguments of `Sandbox.run` with one type each: bytes for contents, and a list for the words of a command."""

    program: str | list[str]
    stdin: bytes
    files: dict[str, bytes]
    fetch: tuple[str, ...]
    env: dict[str, str]
    timeout_s: float
    limits: Limits

    @classmethod
    def create(
        cls,
        program: Program,
        stdin: Content,
        files: Mapping[str, Content] | None,
        fetch: Sequence[str],
        env: Mapping[str, str] | None,
        timeout_s: float,
        limits: Limits | None,
    ) -> RunRequest:
        """Check the arguments, which are those of `Sandbox.run`, and return the request for them.

        Raises ValueError for a path that leads out of the working directory, a variable that no environment can hold,
        a `timeout_s` out of range, and a program that is neither text nor words.
        """
        for path in (*(files or ()), *fetch):
            relative_parts(path)
        for name, value in (env or {}).items():
            if not name or "=" in name or "\0" in name + value:
                raise ValueError(f"env {name!r:.40} = {value!r:.40}: no name and no value of a variable can be that")
            (name + value).encode()  # UnicodeEncodeError is a ValueError
        return cls(
            program if isinstance(program, str) else _words(program),
            as_bytes(stdin),
            {path: as_bytes(content) for path, content in (files or {}).items()},
            tuple(fetch),
            dict(env or {}),
            check_timeout(timeout_s),
            limits or Limits(),
        )

    def payload(self) -> dict[str, Any]:
        """Return what the process of the candidate, the untrusted program, gets: "program", "files" and "env"."""
        return {"program": self.program, "files": self.files, "env": self.env}


def check_timeout(timeout_s: float) -> float:
    """Return `timeout_s`, in seconds, unchanged. Raises ValueError unless it is above 0 and at most a day."""
    if not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise ValueError(f"timeout_s = {timeout_s}: must be more than 0 and at most {MAX_TIMEOUT_S:g}")
    return timeout_s


def check_size(limits: Limits, machine_mb: int) -> Limits:
    """Return the limits unchanged. Raises ValueError for a size beyond `machine_mb`, the machine's memory in MiB."""
    for name, per_mb in (("memory_mb", 1), ("disk_mb", 1), ("output_kb", 1024)):
        value = getattr(limits, name)
        if value > machine_mb * per_mb:
            raise ValueError(f"limit {name} = {value}: this machine has {machine_mb} MiB of memory")
    return limits


def _words(program: Sequence[str]) -> list[str]:
    words = list(program)
    if not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"program {program!r}: must be the text of a Python program, or the words of a command")
    return words
