"""The races of `benchmarks.sandboxes`: a sandbox's call, and others' ways to the same output. `RACES` has them all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from queue import SimpleQueue

import sandboxes
from sandboxes import Sandbox, SandboxUnavailable

TRIVIAL, TRIVIAL_SAYS = "print(6 * 7)", "42\n"
SYMPY = "import sympy\nx = sympy.symbols('x')\nprint(sympy.expand((x + 1)**3))"
SYMPY_SAYS = "x**3 + 3*x**2 + 3*x + 1\n"
BWRAP = (
    "bwrap --unshare-all --die-with-parent --new-session --clearenv --setenv PATH /usr/bin:/bin "
    "--ro-bind / / --proc /proc --dev /dev --tmpfs /tmp --cap-drop ALL"
)
CELLS_PER_S = 2000.0
Call = Callable[[], str]


@dataclass(frozen=True)
class Race:
    """Our call and others', which must print the same; `target` is the wanted ratio for some of the rivals."""

    name: str
    says: str
    ours: Call
    rivals: dict[str, Call]
    target: dict[str, float]
    at_once: int = 1
    share: float = 1.0  # of the number of calls: for slow rivals
    wanted_per_s: float | None = None  # of our calls


def trivial(sandbox: Sandbox, absent: list[str]) -> Iterator[Race]:
    """A program that does next to nothing: what a call costs."""
    python = sys.executable
    rivals: dict[str, Call] = {
        "a process": lambda: process([python, "-c", TRIVIAL]),
        "a process, python -I -S": lambda: process([python, "-I", "-S", "-c", TRIVIAL]),
    }
    if shutil.which("bwrap"):
        outside_tmp = os.path.realpath(python)
        rivals["bwrap"] = lambda: process([*BWRAP.split(), outside_tmp, "-c", TRIVIAL])
    else:
        absent.append("bwrap is not installed")
    for at_once in (1, 2):
        target = {"a process": 3.0, "bwrap": 6.0}
        yield Race("a call", TRIVIAL_SAYS, lambda: sandbox.run(TRIVIAL).stdout, rivals, target, at_once)


def symbolic(sandbox: Sandbox, absent: list[str]) -> Iterator[Race]:
    """A program that needs a package which takes long to import."""
    if not find_spec("sympy"):
        absent.append("sympy is not installed")
        return
    rivals = {"a process": lambda: process([sys.executable, "-c", SYMPY])}
    target = {"a process": 100.0}
    yield Race("a sympy call", SYMPY_SAYS, lambda: sandbox.run(SYMPY).stdout, rivals, target, 2, share=0.1)
    with closing(sandbox.session()) as one, closing(sandbox.session()) as other:
        ours = in_turn([lambda session=session: session.cell(SYMPY).stdout for session in (one, other)])
        yield Race("a sympy cell", SYMPY_SAYS, ours, rivals, target, 2, share=0.1)


def cells(sandbox: Sandbox, absent: list[str]) -> Iterator[Race]:
    """Cells in sessions: in one, and in one for each core."""
    for at_once in dict.fromkeys((1, os.cpu_count() or 1)):
        with ExitStack() as stack:
            sessions = [stack.enter_context(closing(sandbox.session())) for _ in range(at_once)]
            ours = in_turn([lambda session=session: session.cell(TRIVIAL).stdout for session in sessions])
            kernels = [stack.enter_context(jupyter()) for _ in range(at_once)] if has_jupyter() else []
            rivals = {"ipykernel": in_turn(kernels)} if kernels else {}
            yield Race("a cell", TRIVIAL_SAYS, ours, rivals, {"ipykernel": 5.0}, at_once, wanted_per_s=CELLS_PER_S)
    if not has_jupyter():
        absent.append("ipykernel is not installed")


def contained(_: Sandbox, absent: list[str]) -> Iterator[Race]:
    """A call of the sandbox `docker`, against the engine's own way."""
    with containers(absent) as pair:
        if pair:
            target = {"docker exec": 10.0}
            yield Race("a call in a container", TRIVIAL_SAYS, pair[0], {"docker exec": pair[1]}, target, share=0.2)


RACES: tuple[Callable[[Sandbox, list[str]], Iterator[Race]], ...] = (trivial, symbolic, cells, contained)


def process(command: Sequence[str]) -> str:
    """What a new process printed."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def in_turn(calls: Sequence[Call]) -> Call:
    """One call of several, of which each serves one thread at a time."""
    free: SimpleQueue[Call] = SimpleQueue()
    for call in calls:
        free.put(call)

    def one() -> str:
        call = free.get()
        try:
            return call()
        finally:
            free.put(call)

    return one


def has_jupyter() -> bool:
    """Whether cells can be run as notebooks run them."""
    return bool(find_spec("ipykernel") and find_spec("jupyter_client"))


@contextmanager
def jupyter() -> Iterator[Call]:
    """A call that runs one cell in an ipykernel; its client has a thread of its own."""
    from jupyter_client.manager import start_new_kernel

    def cell() -> str:
        printed: list[str] = []
        client.execute_interactive(TRIVIAL, output_hook=lambda said: printed.append(said["content"].get("text", "")))
        return "".join(printed)

    with ThreadPoolExecutor(1) as thread:
        manager, client = thread.submit(start_new_kernel).result()
        try:
            yield lambda: thread.submit(cell).result()
        finally:
            thread.submit(client.stop_channels).result()
            thread.submit(manager.shutdown_kernel, now=True).result()


@contextmanager
def containers(absent: list[str]) -> Iterator[tuple[Call, Call] | None]:
    """A call of the sandbox `docker`, and one by the engine's own `exec`; None where there is no engine."""
    try:
        sandbox = sandboxes.open("docker", packages=())
    except SandboxUnavailable as fault:
        absent.append(str(fault))
        yield None
        return
    import docker

    client = docker.from_env(timeout=60)
    with sandbox:
        other = client.containers.run(
            sandbox.image, ["sleep", "infinity"], detach=True, network_mode="none", read_only=True, user="65534:65534"
        )
        try:
            command = ["python3", "-c", TRIVIAL]
            yield lambda: sandbox.run(TRIVIAL).stdout, lambda: other.exec_run(command).output.decode()
        finally:
            other.remove(force=True)
            client.close()
