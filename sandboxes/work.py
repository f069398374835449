"""What a stateless call asks for, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandboxes.types import Content, Limits, Program, as_bytes, relative


@dataclass(frozen=True, slots=True)
class Work:
    """The arguments of `Sandbox.run`, in their plainest types."""

    program: str | list[str]
    stdin: bytes
    files: dict[str, bytes]
    fetch: tuple[str, ...]
    env: dict[str, str]
    timeout_s: float
    limits: Limits

    @classmethod
    def checked(
        cls,
        program: Program,
        stdin: Content,
        files: Mapping[str, Content] | None,
        fetch: Sequence[str],
        env: Mapping[str, str] | None,
        timeout_s: float,
        limits: Limits | None,
    ) -> Work:
        """Raises ValueError for a path that leads out, a deadline that has passed, and what is no program."""
        for path in (*(files or ()), *fetch):
            relative(path)
        if timeout_s <= 0:
            raise ValueError(f"timeout_s = {timeout_s}: must be more than 0")
        return cls(
            program if isinstance(program, str) else _argv(program),
            as_bytes(stdin),
            {path: as_bytes(content) for path, content in (files or {}).items()},
            tuple(fetch),
            dict(env or {}),
            timeout_s,
            limits or Limits(),
        )

    def inside(self) -> dict[str, Any]:
        """What the candidate's process is told."""
        return {"program": self.program, "files": self.files, "env": self.env}


def _argv(program: Sequence[str]) -> list[str]:
    words = list(program)
    if not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"program {program!r}: must be the text of a Python program, or the words of a command")
    return words
