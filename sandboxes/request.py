"""The arguments of `Sandbox.run`, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
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
        a `timeout_s` out of range, a program that is neither text nor words that a command line can hold, and an
        argument of another type.
        """
        _check_kinds(files, fetch, env)
        if limits is not None and not isinstance(limits, Limits):
            raise ValueError(f"limits = {limits!r:.60}: must be a sandboxes.Limits, such as Limits(memory_mb=256)")
        for path in (*(files or ()), *fetch):
            relative_parts(path)
        for name, value in (env or {}).items():
            if not name or "=" in name or "\0" in name + value:
                raise ValueError(f"env {name!r:.40} = {value!r:.40}: no name and no value of a variable can be that")
            (name + value).encode()  # UnicodeEncodeError is a ValueError
        return cls(
            check_program(program),
            as_bytes(stdin, "stdin"),
            {path: as_bytes(content, f"file {path!r:.80}") for path, content in (files or {}).items()},
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
    if not isinstance(timeout_s, Real) or not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise ValueError(f"timeout_s = {timeout_s!r:.40}: must be more than 0 and at most {MAX_TIMEOUT_S:g} seconds")
    return timeout_s


def check_wait(name: str, seconds: float) -> float:
    """Return `seconds`, the option `name`, unchanged. Raises ValueError unless it is from 0 to a day."""
    if not isinstance(seconds, Real) or not 0 <= seconds <= MAX_TIMEOUT_S:
        raise ValueError(f"{name} = {seconds!r:.40}: must be 0 to {MAX_TIMEOUT_S:g} seconds")
    return seconds


def check_size(limits: Limits, machine_mb: int) -> Limits:
    """Return the limits unchanged. Raises ValueError for a size beyond `machine_mb`, the machine's memory in MiB."""
    for name, per_mb in (("memory_mb", 1), ("disk_mb", 1), ("output_kb", 1024)):
        value = getattr(limits, name)
        if value > machine_mb * per_mb:
            raise ValueError(f"limit {name} = {value}: this machine has {machine_mb} MiB of memory")
    return limits


def _check_kinds(files: Any, fetch: Any, env: Any) -> None:
    """Refuse what would be taken for something else: a str for a list of paths, a list of names for a mapping."""
    for name, value in (("files", files), ("env", env)):
        if value is not None and not isinstance(value, Mapping):
            raise ValueError(f"{name} = {value!r:.40}: must be a mapping, such as {{'name': 'text'}}, or None")
    if not isinstance(fetch, Sequence) or isinstance(fetch, (str, bytes)):
        raise ValueError(f"fetch = {fetch!r:.40}: must be a list of paths, such as ['out.txt']")
    for name, values in (("files", files or ()), ("fetch", fetch), ("env", env or ()), ("env", (env or {}).values())):
        for value in values:
            if not isinstance(value, str):
                raise ValueError(f"{name}: {value!r:.40} is not a str")


def check_program(program: Any) -> str | list[str]:
    """Return the text, or the list of words, of a program.

    Raises ValueError for anything else, and for a word that no command line can hold.
    """
    if isinstance(program, str):
        return program
    words = list(program) if isinstance(program, Sequence) else []
    if not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"program {program!r:.80}: must be the text of a Python program, or the words of a command")
    for word in words:
        if "\0" in word:
            raise ValueError(
                f"program: the word {word!r:.80} contains a NUL, which no word of a command can; remove it"
            )
        word.encode(errors="surrogateescape")  # UnicodeEncodeError is a ValueError
    return words
