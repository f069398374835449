"""What a node of a cluster must have so that the processes of a run can work there."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rl.checksums import digest

PACKAGES = ("agents", "envs", "rl", "sandboxes")
DATA_VARIABLE = "TURNWISE_DATA"


class Needs(NamedTuple):
    """What a run needs on every node.

    Attributes:
        python: Version of Python, as (3, 12): what is sent are pickles.
        code: Digest of this library's modules (`code_digest`).
        folder: Folder of real benchmark files, "" for none.
    """

    python: tuple[int, int]
    code: str
    folder: str


def own_needs() -> Needs:
    """Return what this process has and every node must have too."""
    folder = os.environ.get(DATA_VARIABLE, "")
    return Needs(sys.version_info[:2], code_digest(), os.path.abspath(folder) if folder else "")


@cache
def code_digest() -> str:
    """Return a digest of all modules of this library as they are imported here."""
    root = Path(__file__).parents[3]
    files = sorted(path for name in PACKAGES for path in (root / name).rglob("*.py"))
    return digest(b"".join(path.relative_to(root).as_posix().encode() + path.read_bytes() for path in files))


def missing(needs: Needs) -> str:
    """Return what this machine lacks and how to get it, in one line; "" if it has all that a run needs."""
    own = sys.version_info[:2]
    if own != needs.python:
        version = ".".join(map(str, needs.python))
        return f"has Python {platform.python_version()}; install the run's, {version}"
    if code_digest() != needs.code:
        return f"has other code of this library in {Path(__file__).parents[3]}; install what the run has"
    if needs.folder and not os.path.isdir(needs.folder):
        return f"has no folder {needs.folder} (--data-root); put the files where every node finds them under one path"
    return ""
