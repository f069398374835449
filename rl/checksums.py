"""SHA-256 digests: written with what a run saves and checked when it is read, so that no flipped bit goes unnoticed.

A folder has them in a file of its own, `turnwise.sha256`, in the format of `sha256sum` (`sha256sum -c turnwise.sha256`
checks it too). A text file has one in its last line, a comment. `read_file` reads what a user names.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NAME = "turnwise.sha256"
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")
_SHELL = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")  # names of pipes whose writer the shell has started
_SEAL = "# sha256 of the lines above: "


class DamagedFile(ValueError):
    """A file is missing or has other content than when it was written. The message names it, on one line."""


def digest(content: bytes) -> str:
    """Return the SHA-256 of `content` in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def read_file(path: Path) -> bytes:
    """Return the content of a file that a user names, or of a pipe of the shell (`/dev/stdin`, `<(...)`).

    Raises `OSError` if it cannot be read, and for other pipes and devices, which may have no end.
    """
    mode = path.stat().st_mode
    is_of_shell = stat.S_ISFIFO(mode) and str(path).startswith(_SHELL)
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or is_of_shell):  # reading a folder says what it is
        raise OSError(errno.EINVAL, "a pipe or a device is not read; name a regular file", str(path))
    return path.read_bytes()


def read_text(path: Path) -> str:
    """Return the content of a file that a user names as text, whose lines end with a line feed alone.

    Raises `OSError` as `read_file`, and `UnicodeDecodeError` for what is no UTF-8.
    """
    return read_file(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits. Raises `OSError` if it cannot be read."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lines(digests: Iterable[tuple[str, str]]) -> str:
    """Return the text of a file of digests: one line for each pair of a file's name and its digest."""
    return "".join(f"{value}  {name}\n" for name, value in digests)


def read(path: Path) -> dict[str, str]:
    """Return the digests in the file `path` by the name of their file; of two for one name, the later.

    Raises `DamagedFile` for a line that is none, `OSError` if the file cannot be read.
    """
    digests: dict[str, str] = {}
    for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").split("\n"), 1):
        if match := _LINE.fullmatch(line):
            digests[match[2]] = match[1]
        elif line:
            raise DamagedFile(f"line {number} of {path.name} is damaged")
    return digests


def write(folder: Path) -> None:
    """Write the digests of all files below `folder` to `turnwise.sha256` in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != NAME)
    pairs = ((path.relative_to(folder).as_posix(), file_digest(path)) for path in files)
    (folder / NAME).write_text(lines(pairs), encoding="utf-8")


def check(folder: Path, part: str = "") -> bool:
    """Compare the files below `folder`, or below its subfolder `part`, with their digests.

    Returns False if `folder` has no digests, because something else or an older version wrote it. Raises `DamagedFile`
    if a file is missing or has other content.
    """
    if not (folder / NAME).is_file():
        return False
    for name, value in read(folder / NAME).items():
        if not name.startswith(f"{part}/" if part else ""):
            continue
        try:
            is_intact = file_digest(folder / name) == value
        except (OSError, ValueError) as error:
            raise DamagedFile(f"its {name} cannot be read ({getattr(error, 'strerror', None) or error})") from None
        if not is_intact:
            raise DamagedFile(f"its {name} is damaged (wrong SHA-256)")
    return True


def write_beside(path: Path, content: Path) -> None:
    """Write the digest of the file `content`, which is to be renamed to `path`, to `path` + ".sha256"."""
    _beside(path).write_text(lines([(path.name, file_digest(content))]), encoding="utf-8")


def check_beside(path: Path) -> None:
    """Raise `DamagedFile` unless the file `path` has the digest that `write_beside` wrote, which must exist."""
    try:
        is_intact = read(_beside(path)).get(path.name) == file_digest(path)
    except OSError as error:
        raise DamagedFile(f"{error.filename}: {(error.strerror or str(error)).lower()}") from None
    if not is_intact:
        raise DamagedFile("wrong SHA-256")


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def seal_object(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON-able object with its digest under the key "sha256"."""
    return {**values, "sha256": digest(json.dumps(values).encode())}


def check_object(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `seal_object` was given, or `values` if they have no digest. Raises `DamagedFile` if it is wrong."""
    content = {key: value for key, value in values.items() if key != "sha256"}
    if "sha256" in values and values["sha256"] != digest(json.dumps(content).encode()):
        raise DamagedFile("damaged (wrong SHA-256)")
    return content


def seal(text: str) -> str:
    """Return `text`, whose last line is complete, with a comment line behind it that holds its digest."""
    return f"{text}{_SEAL}{digest(text.encode())}\n"


def check_seal(text: str) -> bool:
    """Whether `text` is as `seal` returned it; False if it has no such line. Raises `DamagedFile` if it has changed."""
    body, mark, value = text.rpartition(_SEAL)
    if not mark:
        return False
    if value != f"{digest(body.encode('utf-8', 'surrogateescape'))}\n":
        raise DamagedFile("it was changed after the run had written it (wrong SHA-256)")
    return True
