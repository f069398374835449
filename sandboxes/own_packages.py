"""Makes the names of this project's packages mean this project's packages in its commands.

The working directory may have a folder `envs/`, and another distribution a package `agents`. This file imports nothing
of the project, so that a command can execute it by its path before any of the names is trusted.
"""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from pathlib import Path

PACKAGES = ("sandboxes", "envs", "agents", "rl")
ROOT = Path(__file__).resolve().parents[1]  # the folder that holds the packages: a clone or site-packages
USER_ERROR = 2


def put_first(root: Path = ROOT) -> None:
    """Reorder `sys.path` so that `PACKAGES` are imported from `root`; leave it as it is where they already are.

    Entries with something of the same name go behind `root`: what else they hold can still be imported, here and in
    processes that are given this path. Exits with status 2 and one line where the packages of `root` cannot be had.
    """
    if reason := _conflict(root):
        sys.stderr.write(f"{_program()}: error: {reason}\n")
        raise SystemExit(USER_ERROR)
    folders = [os.path.realpath(entry or os.curdir) for entry in sys.path]
    own = folders.index(str(root)) if str(root) in folders else None
    clashes = [index for index, folder in enumerate(folders[:own]) if _holds_same_name(folder)]
    if clashes and own is None:  # an editable installation is found through a hook, after all of the path
        sys.path.insert(clashes[0], str(root))
    elif clashes and own is not None:
        others = [entry for index, entry in enumerate(sys.path[:own]) if index not in clashes]
        sys.path[:] = [*others, sys.path[own], *(sys.path[index] for index in clashes), *sys.path[own + 1 :]]


def add_working_directory() -> None:
    """Put the working directory first on `sys.path`, as `python -m` does and a console script does not."""
    sys.path.insert(0, os.getcwd())


def _program() -> str:
    """The command's name as in `rl.cli.program`, which cannot be imported yet."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name.removesuffix(".__main__") if spec else Path(sys.argv[0]).name


def _holds_same_name(folder: str) -> bool:
    paths = [os.path.join(folder, name) for name in PACKAGES]
    return any(os.path.isdir(path) or os.path.isfile(f"{path}.py") for path in paths)


def _conflict(root: Path) -> str:
    """One line about a package that cannot be imported from `root`; "" if all can."""
    for name in PACKAGES:
        path = getattr(sys.modules.get(name), "__file__", None)
        if path and Path(path).resolve().parents[1] != root:
            return f"{path} is imported already and hides {root / name} of turnwise-rl; start Python without it"
    installed_hashes = _installed_hashes(root)
    for name in PACKAGES:
        file = root / name / "__init__.py"
        digest = hashlib.sha256(file.read_bytes()).digest() if file.is_file() else b""
        if installed_hashes.get(name, digest) != digest:
            owners = ", ".join(_other_owners(root, f"{name}/__init__.py")) or "something else"
            change = f"was replaced by that of {owners}" if digest else "is gone"
            return f"{file} of turnwise-rl {change}; install turnwise-rl again, into an environment of its own"
    return ""


def _installed_hashes(root: Path) -> dict[str, bytes]:
    """SHA-256 of each package's `__init__.py` when pip installed it; {} for a clone."""
    hashes = {}
    for record in root.glob("turnwise_rl-*.dist-info/RECORD"):
        for line in record.read_text(encoding="utf-8").splitlines():
            path, _, rest = line.partition(",sha256=")
            name = path.removesuffix("/__init__.py")
            if name in PACKAGES and rest:
                hashes[name] = base64.urlsafe_b64decode(rest.partition(",")[0] + "=")
    return hashes


def _other_owners(root: Path, path: str) -> list[str]:
    """The distributions other than turnwise-rl that have installed the file `path` into `root`."""
    owners = []
    for record in root.glob("*.dist-info/RECORD"):
        lines = record.read_text(encoding="utf-8", errors="replace").splitlines()
        name = record.parent.name.partition("-")[0].replace("_", "-")
        if name != "turnwise-rl" and any(line.startswith(f"{path},") for line in lines):
            owners.append(name)
    return sorted(owners)
