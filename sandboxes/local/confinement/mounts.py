"""What a jail shows: worked out by the host, which knows its packages, for the zygote, which is to know little.

Only what a program needs to run is shown: no home, no `/etc` but a few lines, no `/sys`, and of Python's packages only
those that were named. So the project itself, with its graders, is not there.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from re import match

from sandboxes.local.confinement.jail import PACKAGES

_SYSTEM = (
    "/usr/bin /usr/sbin /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/share /usr/include "
    "/bin /sbin /lib /lib32 /lib64 /etc/alternatives /etc/ld.so.cache /etc/localtime"
)
_HIDDEN = ("/usr/lib/python3*/dist-packages", "/usr/lib/python3*/site-packages", "/usr/lib64/python3*/site-packages")

ENVIRONMENT = {  # all that a candidate sees, too
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "USER": "box",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",  # a thread started before the fork would be missing after it
    "MALLOC_ARENA_MAX": "2",  # each arena of a thread takes 64 MB of address space
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is shown where: `binds` are (source, place), `hidden` are folders shown empty."""

    binds: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...]


def plan(packages: Sequence[str]) -> Plan:
    """What this machine's Python and the named packages need."""
    base = os.path.realpath(sys.base_prefix)
    executable = interpreter()
    binds = [(path, path) for path in _SYSTEM.split() if os.path.lexists(path)]
    if base != "/usr":
        binds += [(path, path) for path in (f"{base}/lib", f"{base}/lib64", executable) if os.path.isdir(path)]
        binds.append((executable, executable))
    binds += [(path, f"{PACKAGES}/{os.path.basename(path)}") for path in package_paths(packages)]
    hidden = [path for pattern in _HIDDEN for path in glob(pattern)]
    purelib = sysconfig.get_path("purelib", vars={"base": base, "platbase": base})
    hidden += [path for path in {purelib, f"{base}/lib/python3/dist-packages"} if os.path.isdir(path)]
    return Plan(tuple(dict.fromkeys(binds)), tuple(dict.fromkeys(hidden)))


def interpreter() -> str:
    """The path of the Python that runs, outside any virtual environment."""
    return os.path.realpath(sys.executable)


def package_paths(names: Sequence[str]) -> list[str]:
    """The files and folders of installed packages, and of all that they require."""
    paths: dict[str, None] = {}
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            spec = find_spec(name) if name.isidentifier() else None
            if spec and spec.submodule_search_locations:
                paths.update(dict.fromkeys(spec.submodule_search_locations))
            continue
        root = Path(str(distribution.locate_file("")))
        tops = {Path(str(file)).parts[0] for file in distribution.files or ()}
        files = (str(root / top) for top in sorted(tops) if top not in ("..", "__pycache__"))
        paths.update(dict.fromkeys(file for file in files if os.path.exists(file)))
        required = [need for need in distribution.requires or () if "extra ==" not in need]
        waiting += [found.group() for need in required if (found := match(r"[A-Za-z0-9._-]+", need))]
    return list(paths)


def import_path() -> list[str]:
    """`sys.path` inside the jail, after the working directory: the standard library and the packages."""
    base = os.path.realpath(sys.base_prefix)
    names = ("stdlib", "platstdlib")
    paths = [sysconfig.get_path(name, vars={"base": base, "platbase": base, "installed_base": base}) for name in names]
    return [*dict.fromkeys(paths), f"{paths[1]}/lib-dynload", PACKAGES]
