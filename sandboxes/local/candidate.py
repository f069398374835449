"""The process of a candidate, an untrusted program: how it gives up its rights after the fork, and runs the program.

It is forked by the warden, the process that starts and ends all candidates of a place (a process tree that runs one
program at a time). Nothing in it is trusted once the program has started.
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
from sandboxes.local.confinement.box import Box
from sandboxes.local.confinement.landlock import Ruleset
from sandboxes.local.confinement.seccomp import Filter

CHANNEL = 3
STACKS_MB = 512  # address space beyond the memory limit, for the stacks of threads
MAX_DESCRIPTORS = 256
_MAIN_FILE = "main.py"
_OURS = [  # the modules that a zygote has loaded; by name, as a look at all modules would touch a thousand pages
    "sandboxes",
    "sandboxes.types",
    "sandboxes.provider",
    "sandboxes.json_values",
    "sandboxes.local",
    "sandboxes.local.confinement",
    *(
        f"sandboxes.local.{name}"
        for name in ["candidate", "codec", "heap", "identity", "interpreter", "preload", "usage", "warden", "zygote"]
    ),
    *(f"sandboxes.local.confinement.{name}" for name in ["box", "cgroups", "jail", "landlock", "seccomp", "syscalls"]),
]


@dataclass(frozen=True, slots=True)
class Confinement:
    """What confines every candidate (untrusted program) of one warden (the process that forks and ends them)."""

    box: Box  # the folders that the candidate can write to
    proc: int  # descriptor of a `/proc` that can be written; the candidate's own cannot
    base: int  # bytes of address space that were in use before the program
    filter: Filter
    ruleset: Ruleset | None = None
    owner: int | None = None  # the candidate's uid, where that is not the warden's own
    limit_processes: bool = True  # whether RLIMIT_NPROC counts the processes of this place only


def confine(confinement: Confinement, descriptors: Sequence[int], limits: dict[str, Any], cpu_s: int | None) -> None:
    """Give up, in this process, everything that a candidate (an untrusted program) must not have. Cannot be undone.

    Args:
        confinement: Folder, filter, rules and uid.
        descriptors: File descriptors of the channel (the socket that brings the request), stdout, stderr and, where
            the program gets input, stdin. They become 3, 1, 2 and 0; all others are closed.
        limits: `dataclasses.asdict` of a `Limits`.
        cpu_s: CPU seconds after which the kernel ends the process; None in sessions, where the warden, the process
            that forked this one, counts.

    Raises:
        OSError: The kernel refuses a step; the program must not be run then.
    """
    os.setsid()
    os.fchdir(confinement.box.work)
    syscalls.set_dumpable(True)
    oom_score = os.open("self/oom_score_adj", os.O_WRONLY, dir_fd=confinement.proc)
    os.write(oom_score, b"1000")  # a kernel short of memory ends candidates before their warden
    channel, stdout, stderr, *stdin = descriptors
    os.dup2(stdin[0] if stdin else os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.dup2(channel, CHANNEL, inheritable=False)
    keep = confinement.ruleset.descriptor if confinement.ruleset else CHANNEL
    os.closerange(CHANNEL + 1, keep)
    os.closerange(keep + 1, 1 << 20)
    _set_limits(confinement, limits, cpu_s)
    if confinement.owner is not None:
        os.setresgid(confinement.owner, confinement.owner, confinement.owner)
        os.setresuid(confinement.owner, confinement.owner, confinement.owner)
    syscalls.drop_capabilities()
    syscalls.set_dumpable(True)  # again: a change of uid takes it away
    if confinement.ruleset:
        syscalls.die_with_parent()  # without a pid namespace nothing else ends it with its warden
        confinement.ruleset.apply()
    syscalls.install(confinement.filter)
    os.umask(0o022)


def _set_limits(confinement: Confinement, limits: dict[str, Any], cpu_s: int | None) -> None:
    values = [
        (resource.RLIMIT_AS, confinement.base + ((limits["memory_mb"] + STACKS_MB) << 20)),
        (resource.RLIMIT_FSIZE, limits["disk_mb"] << 20),
        (resource.RLIMIT_NOFILE, MAX_DESCRIPTORS),
        (resource.RLIMIT_CORE, 0),
    ]
    if confinement.limit_processes:  # where the warden has the same uid, it is counted too
        values.append((resource.RLIMIT_NPROC, limits["processes"] + (confinement.owner is None)))
    if cpu_s is not None:
        values.append((resource.RLIMIT_CPU, cpu_s))
    for kind, value in values:
        try:
            resource.setrlimit(kind, (value, value))
        except (OSError, ValueError):  # the host's own hard limit is lower
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (hard, hard))


def run() -> NoReturn:
    """Read a request from the channel (descriptor 3), write its files, run its program, and end the process.

    The exit code is the program's; for a command 127 if it does not exist, 126 if it may not be executed.
    """
    request = codec.read_request(CHANNEL)
    try:
        for path, content in request["files"].items():
            folder = os.path.dirname(path)
            if folder:
                os.makedirs(folder, exist_ok=True)
            with open(path, "wb", opener=_open_without_waiting) as file:
                file.write(content)
    except OSError as fault:
        os.write(CHANNEL, codec.FILES_REFUSED + f"{fault.errno} {path}: {fault.strerror}".encode(errors="replace"))
        os._exit(125)
    for name, value in request["env"].items():
        os.environ[name] = value
    os.write(CHANNEL, codec.STARTED)
    program = request["program"]
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


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file that an earlier program may have replaced by a pipe that nobody reads."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)


def run_python(source: str) -> int:
    """Run the text of a program as `python main.py` would, in this process, and return its exit code (0 to 255)."""
    main = fresh_main()
    register_source(_MAIN_FILE, source)
    code = 0
    try:
        try:
            exec(compile(source, _MAIN_FILE, "exec"), main.__dict__)
        except SystemExit as exit:
            code = _exit_code(exit)
        except BaseException as fault:
            code = 1
            _print_exception(fault, depth=1)
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
    """Install and return a new, empty `__main__` module for a program.

    Also removes this project's modules from `sys.modules`, and resets what start-up has changed: `sys.argv`,
    `sys.path`, the handler of SIGINT, garbage collection and the seed of `random`.
    """
    for name in _OURS:
        sys.modules.pop(name, None)
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __file__=_MAIN_FILE)
    sys.modules["__main__"] = main
    sys.argv[:] = [_MAIN_FILE]
    sys.path.insert(0, os.getcwd())
    _signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()
    sys.modules["random"].seed(0)  # type: ignore[attr-defined]  # a fork seeds it anew; calls must be repeatable
    return main


def register_source(name: str, source: str) -> None:
    """Let tracebacks and `inspect` find the lines of `source`, code that is in no file, under the file name `name`."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)


def _exit_code(exit: SystemExit) -> int:
    if exit.code is None or isinstance(exit.code, int):
        return exit.code or 0
    print(exit.code, file=sys.stderr)
    return 1


def _print_exception(fault: BaseException, depth: int) -> None:
    """Print the traceback without its first `depth` frames, which are not the program's."""
    trace: TracebackType | None = fault.__traceback__
    for _ in range(depth):
        trace = trace.tb_next if trace else None
    hook = sys.excepthook
    if hook is sys.__excepthook__:
        traceback.print_exception(type(fault), fault, trace)
    else:
        hook(type(fault), fault, trace)


def open_streams() -> None:
    """Point `sys.stdin`, `stdout` and `stderr` to the descriptors 0, 1 and 2, whatever these become later."""
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8", "replace")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8", "backslashreplace")
    errors = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(errors, "utf-8", "backslashreplace", line_buffering=True)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
