"""What a stateless call asks for, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandboxes.types import Content, Limits, Program, as_bytes, relative

LONGEST_S = 86_400.0  # a day: the system's own waits take no more than some


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
        """Raises ValueError for a path that leads out, a senseless deadline, and what is no program."""
        for path in (*(files or ()), *fetch):
            relative(path)
        return cls(
            program if isinstance(program, str) else _argv(program),
            as_bytes(stdin),
            {path: as_bytes(content) for path, content in (files or {}).items()},
            tuple(fetch),
            dict(env or {}),
            deadline(timeout_s),
            limits or Limits(),
        )

    def inside(self) -> dict[str, Any]:
        """What the candidate's process is told."""
        return {"program": self.program, "files": self.files, "env": self.env}


def deadline(timeout_s: float) -> float:
    """The seconds that a call may take, as given. Raises ValueError where they are not above 0 and up to a day."""
    if not 0 < timeout_s <= LONGEST_S:
        raise ValueError(f"timeout_s = {timeout_s}: must be more than 0 and at most {LONGEST_S:g}")
    return timeout_s


def _argv(program: Sequence[str]) -> list[str]:
    words = list(program)
    if not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"program {program!r}: must be the text of a Python program, or the words of a command")
    return words
