"""Other hosts for sandboxes than this test process: another user, and processes that are killed."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import sandboxes

ROOT = Path(__file__).resolve().parents[1]
OTHER_USER = 65533


@cache
def why_not(name: str) -> str:
    """Why this machine cannot give the sandbox of that name; "" where it can."""
    try:
        sandboxes.open(name, packages=()).close()
    except sandboxes.SandboxUnavailable as fault:
        return str(fault)
    return ""


@cache
def ordinary_python() -> tuple[str, str]:
    """(interpreter, "") that an ordinary user can run, or ("", why there is none)."""
    if os.geteuid():
        return "", "not root: the tests run as an ordinary user already"
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}", "/usr/bin/python3"):
        try:
            found = as_user(python, "-c", "import sys; print(sys.version_info[:2])", timeout=20)
        except OSError:
            continue
        if found.stdout.strip() == str(sys.version_info[:2]):
            return python, ""
    return "", f"no Python {sys.version_info[0]}.{sys.version_info[1]} that uid {OTHER_USER} may run"


@cache
def readable() -> Path:
    """A copy of what an ordinary user needs of this checkout, which may lie where only its owner may look."""
    home = Path(tempfile.mkdtemp(prefix="turnwise-tests-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    shutil.copytree(ROOT / "sandboxes", home / "sandboxes", ignore=shutil.ignore_patterns("__pycache__"))
    (home / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "sandbox_attacks.py", home / "tests")
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return home


def as_user(python: str, *arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run that Python as an ordinary user, in `readable()` and with the packages of ours."""
    numpy = find_spec("numpy")
    packages = str(Path(str(numpy.origin)).parents[1]) if numpy else ""
    return subprocess.run(
        [python, *arguments],
        cwd=readable(),
        user=OTHER_USER,
        group=OTHER_USER,
        extra_groups=[],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{readable()}:{packages}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def processes() -> set[int]:
    """Every process that belongs to some sandbox of this machine."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"sandboxes.local.zygote" in path.read_bytes():
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found
