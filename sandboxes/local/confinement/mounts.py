"""Which files of the host a jail, the file system that programs see, shows.

The host computes it, so that the zygote, the process that sandboxes are forked from, need not know the host's packages.
A jail shows what programs need to run: no home, few lines of `/etc`, no `/sys`, and only the named Python packages. So
it does not contain this project with its graders.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
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

ENVIRONMENT = {  # of the zygote, and so of candidates
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "USER": "box",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",  # a thread that was started before a fork would be missing after it
    "MALLOC_ARENA_MAX": "2",  # each thread's arena takes 64 MB of address space
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a jail shows: `binds` are (path on the host, path in the jail), `hidden` are folders shown empty."""

    binds: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...]


def plan(packages: Sequence[str]) -> Plan:
    """Plan what a jail, the file system that programs see, shows of this machine.

    It is the system, the running Python, and the installed packages of these names with their requirements.
    """
    base = os.path.realpath(sys.base_prefix)
    executable = python_executable()
    binds = [(path, path) for path in _SYSTEM.split() if os.path.lexists(path)]
    if base != "/usr":
        binds += [(path, path) for path in (f"{base}/lib", f"{base}/lib64", executable) if os.path.isdir(path)]
        binds.append((executable, executable))
    binds += [(path, f"{PACKAGES}/{os.path.basename(path)}") for path in package_paths(tuple(packages))]
    hidden = [path for pattern in _HIDDEN for path in glob(pattern)]
    purelib = sysconfig.get_path("purelib", vars={"base": base, "platbase": base})
    hidden += [path for path in {purelib, f"{base}/lib/python3/dist-packages"} if os.path.isdir(path)]
    return Plan(tuple(dict.fromkeys(binds)), tuple(dict.fromkeys(hidden)))


def python_executable() -> str:
    """Return the path of the running Python, outside any virtual environment."""
    return os.path.realpath(sys.executable)


@lru_cache  # tens of milliseconds, for each pool of sandboxes
def package_paths(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths of the files and folders of these packages and of all that they require.

    Packages that are not installed are skipped.
    """
    paths: dict[str, None] = {}
    todo, done = list(names), set[str]()
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done.add(name)
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
        requirements = [line for line in distribution.requires or () if "extra ==" not in line]
        todo += [name_match.group() for line in requirements if (name_match := match(r"[A-Za-z0-9._-]+", line))]
    return tuple(paths)


def import_path() -> list[str]:
    """Return `sys.path` for programs in the jail, after their working directory: standard library, then packages."""
    base = os.path.realpath(sys.base_prefix)
    names = ("stdlib", "platstdlib")
    paths = [sysconfig.get_path(name, vars={"base": base, "platbase": base, "installed_base": base}) for name in names]
    return [*dict.fromkeys(paths), f"{paths[1]}/lib-dynload", PACKAGES]
