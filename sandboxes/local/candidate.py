"""What a forked process does on its way to becoming the candidate, and how it runs a program.

Nothing here is trusted once the program has started.
"""

from __future__ import annotations

import _signal  # without the enumerations of `signal`, which touch, and so copy, many pages
import atexit
import builtins
import gc
import io
import linecache
import os
import resource
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from sandboxes.local import codec
from sandboxes.local.confinement import syscalls
from sandboxes.local.confinement.landlock import Rules
from sandboxes.local.confinement.seccomp import Filter

CHANNEL = 3
STACKS_MB = 512  # address space on top of the memory limit, for the stacks of threads
MAX_DESCRIPTORS = 256
_MAIN = "main.py"
_OURS = [  # by name: to look through all modules would touch, and so copy, a thousand pages
    "sandboxes",
    "sandboxes.types",
    "sandboxes.json_values",
    "sandboxes.local",
    "sandboxes.local.confinement",
    *(
        f"sandboxes.local.{name}"
        for name in ["candidate", "codec", "heap", "interpreter", "preload", "usage", "warden"]
    ),
    *(f"sandboxes.local.confinement.{name}" for name in ["cgroups", "jail", "landlock", "seccomp", "syscalls"]),
    "sandboxes.local.zygote",
]


@dataclass(frozen=True, slots=True)
class Cell:
    """What every candidate of one warden is locked into. `owner` is its uid, where that is not the warden's own."""

    home: str  # the folder that holds work, tmp and shm
    proc: int  # a `/proc` that can be written; the candidate's own cannot
    base: int  # bytes of address space that were taken before
    filter: Filter
    rules: Rules | None = None
    owner: int | None = None
    bounded: bool = True  # whether RLIMIT_NPROC counts this place only


def lock_in(cell: Cell, descriptors: Sequence[int], limits: dict[str, Any], cpu_s: int | None) -> None:
    """Give up everything that a candidate must not have. `descriptors`: channel, stdout, stderr and perhaps stdin."""
    os.setsid()
    syscalls.set_dumpable(True)
    score = os.open("self/oom_score_adj", os.O_WRONLY, dir_fd=cell.proc)
    os.write(score, b"1000")  # the kernel, short of memory, takes candidates before their warden
    channel, out, err, *given = descriptors
    os.dup2(given[0] if given else os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.dup2(channel, CHANNEL, inheritable=False)
    kept = cell.rules.ruleset if cell.rules else CHANNEL
    os.closerange(CHANNEL + 1, kept)
    os.closerange(kept + 1, 1 << 20)
    _bound(cell, limits, cpu_s)
    if cell.owner is not None:
        os.setresgid(cell.owner, cell.owner, cell.owner)
        os.setresuid(cell.owner, cell.owner, cell.owner)
    syscalls.drop_capabilities()
    syscalls.set_dumpable(True)  # again: a change of uid takes it away
    if cell.rules:
        syscalls.die_with_parent()  # without a pid namespace nothing else ends it with its warden
        cell.rules.apply()
    syscalls.install(cell.filter)
    os.umask(0o022)
    os.chdir(f"{cell.home}/work")


def _bound(cell: Cell, limits: dict[str, Any], cpu_s: int | None) -> None:
    bounds = [
        (resource.RLIMIT_AS, cell.base + ((limits["memory_mb"] + STACKS_MB) << 20)),
        (resource.RLIMIT_FSIZE, limits["disk_mb"] << 20),
        (resource.RLIMIT_NOFILE, MAX_DESCRIPTORS),
        (resource.RLIMIT_CORE, 0),
    ]
    if cell.bounded:  # where the warden has the same uid, it is counted too
        bounds.append((resource.RLIMIT_NPROC, limits["processes"] + (cell.owner is None)))
    if cpu_s is not None:
        bounds.append((resource.RLIMIT_CPU, cpu_s))
    for kind, value in bounds:
        resource.setrlimit(kind, (value, value))


def run(cell: Cell) -> NoReturn:
    """Read the work from the channel and do it; the process ends here."""
    work = codec.read_work(CHANNEL)
    for path, content in work["files"].items():
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
    for name, value in work["env"].items():
        os.environ[name] = value
    os.write(CHANNEL, codec.STARTED)
    program = work["program"]
    os.close(CHANNEL)
    if program is None:
        os._exit(0)
    if isinstance(program, str):
        os._exit(run_python(program))
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)
    except OSError as fault:
        os.write(2, f"{program[0]}: {fault.strerror}\n".encode(errors="backslashreplace"))
        os._exit(126 if isinstance(fault, PermissionError) else 127)


def run_python(source: str) -> int:
    """Run a program as `python main.py` would; its exit code."""
    main = fresh_main()
    remember(_MAIN, source)
    code = 0
    try:
        try:
            exec(compile(source, _MAIN, "exec"), main.__dict__)
        except SystemExit as exit:
            code = _exit_code(exit)
        except BaseException as fault:
            code = 1
            _report(fault, depth=1)
        if threading := sys.modules.get("threading"):
            threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException:
        code = code or 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        code = code or 120  # as Python itself does
    return code & 0xFF


def fresh_main() -> ModuleType:
    """A new `__main__`, with what our own start has left behind put out of the way."""
    for name in _OURS:
        sys.modules.pop(name, None)
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __file__=_MAIN)
    sys.modules["__main__"] = main
    sys.argv[:] = [_MAIN]
    sys.path.insert(0, os.getcwd())
    _signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()
    sys.modules["random"].seed(0)  # type: ignore[attr-defined]  # a fork has seeded it anew; calls are to be alike
    return main


def remember(name: str, source: str) -> None:
    """Let tracebacks and `inspect` find the lines of code that is in no file."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)


def _exit_code(exit: SystemExit) -> int:
    if exit.code is None or isinstance(exit.code, int):
        return exit.code or 0
    print(exit.code, file=sys.stderr)
    return 1


def _report(fault: BaseException, depth: int) -> None:
    """Print the traceback without the frames of ours that lie above the program."""
    trace: TracebackType | None = fault.__traceback__
    for _ in range(depth):
        trace = trace.tb_next if trace else None
    hook = sys.excepthook
    if hook is sys.__excepthook__:
        traceback.print_exception(type(fault), fault, trace)
    else:
        hook(type(fault), fault, trace)


def open_streams() -> None:
    """Make `sys.stdin`, `stdout` and `stderr` stand on the descriptors 0, 1 and 2, whatever these will be."""
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8", "replace")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8", "backslashreplace")
    errors = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(errors, "utf-8", "backslashreplace", line_buffering=True)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
