"""Other hosts for sandboxes than this test process: another user, and processes that are killed."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import sandboxes
from sandboxes import Sandbox
from sandboxes.extras import install_command
from tests.support.paths import ROOT
from tests.support.process_tree import children
from tests.support.sandbox_servers import served

OTHER_USER = 65533


@cache
def why_not(name: str) -> str:
    """Why this machine cannot give the sandbox of that name; "" where it can."""
    if name == "remote":
        return why_not("local")
    if name == "docker":
        return docker_engine()
    try:
        sandboxes.open(name, packages=()).close()
    except sandboxes.SandboxUnavailable as fault:
        return str(fault)
    return ""


@cache
def docker_engine() -> str:
    """Why there is no container engine for tests; "" where one answers.

    Who asks for docker's tests by name, as root and with dockerd installed, gets an engine of his own: it touches
    neither the network nor the files of the machine's, and ends with this process.
    """
    if not find_spec("docker"):
        return f"the package `docker` is not installed: {install_command('docker')}"
    if not _engine_trouble():
        return ""
    if "docker" not in " ".join(sys.argv):
        return "no container engine answers, and these tests were not asked for by name (pytest -m docker)"
    if os.geteuid() or not shutil.which("dockerd"):
        return "no container engine answers; starting one needs root and dockerd (apt-get install docker.io)"
    home = Path(tempfile.mkdtemp(prefix="turnwise-dockerd-"))
    os.environ["DOCKER_HOST"] = f"unix://{home}/socket"
    words = [f"--host=unix://{home}/socket", f"--data-root={home}/data", f"--exec-root={home}/exec"]
    words += [f"--pidfile={home}/pid", "--bridge=none", "--iptables=false", "--ip6tables=false"]
    with open(home / "log", "wb") as log:
        engine = subprocess.Popen(
            ["dockerd", *words, "--ip-forward=false", "--ip-masq=false"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    atexit.register(_stop_engine, engine, home, os.getpid())
    until = time.monotonic() + 60
    while (trouble := _engine_trouble()) and engine.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    last = (home / "log").read_text(errors="replace").strip().rpartition("\n")[2]
    return f"dockerd does not start: {last}" if trouble else ""


def _engine_trouble() -> str:
    import docker

    try:
        docker.from_env(timeout=10).ping()
    except docker.errors.DockerException as fault:
        return str(fault)
    return ""


def _stop_engine(engine: subprocess.Popen[bytes], home: Path, pid: int) -> None:
    if os.getpid() != pid:
        return
    engine.terminate()
    try:
        engine.wait(30)
    except subprocess.TimeoutExpired:
        engine.kill()
        engine.wait()
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed([mount for mount in mounts if mount.startswith(f"{home}/")]):
        subprocess.run(["umount", "-l", mount])
    shutil.rmtree(home, ignore_errors=True)


@contextmanager
def open_sandbox(name: str) -> Iterator[Sandbox]:
    """The sandbox of that name; "remote" is one of a server that is started for it."""
    if name != "remote":
        with sandboxes.open(name) as made:
            yield made
        return
    with served() as server, sandboxes.open(name, url=server.url) as made:
        yield made


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
    (home / "tests" / "support").mkdir(parents=True)
    for name in ("attacks", "notes", "ruins"):
        shutil.copy(ROOT / "tests" / "support" / f"sandbox_{name}.py", home / "tests" / "support")
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


def processes(host: int | None = None) -> set[int]:
    """Every process of a sandbox that this process, or another, has opened.

    Launchers and zygotes have a command line that names the host; what is below them shows none of it.
    """
    mark, found, todo = f'"host": {host or os.getpid()}, '.encode(), set(), []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if b"sandboxes.local.zygote" in line and mark in line:
            todo.append(int(path.parent.name))
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo += children(pid)
    return found


def running(pids: set[int]) -> set[int]:
    """Those of these processes that have not ended."""
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}
