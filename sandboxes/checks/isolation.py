"""What programs must not see, reach or leave behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandboxes.checks.assertions import (
    NotApplicable,
    expect,
    expect_equal,
    expect_status,
    output_of,
    require_children,
    require_file_isolation,
    require_protection,
)
from sandboxes.provider import Sandbox
from sandboxes.types import Status

_SECRET = "planted-secret-51c0ffee"


@contextmanager
def host_secret() -> Iterator[Path]:
    """Make a file of the host that everybody may read, with a secret in it; yield its path, and remove it after."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder, "secret")
        path.write_text(_SECRET)
        path.chmod(0o644)
        yield path


def expect_silent(target: Sandbox, program: str) -> None:
    """Raise AssertionError unless the program runs to its end and prints nothing."""
    expect_equal(output_of(target, program + "\nprint('end')"), "end")


def variables(sandbox: Sandbox) -> None:
    """No environment variable of the host is visible, neither its own nor in another visible process."""
    os.environ["SANDBOX_CHECK"] = _SECRET
    try:
        program = (
            "import glob, os\nseen = [repr(os.environ)]\nfor path in glob.glob('/proc/*/environ'):\n"
            "    try: seen.append(open(path).read())\n    except OSError: pass\n"
            f"print('{_SECRET[:7]}' + '{_SECRET[7:]}' in ''.join(seen), 'SANDBOX_CHECK' in os.environ)"
        )
        expect_equal(output_of(sandbox, program), "False False")
    finally:
        del os.environ["SANDBOX_CHECK"]


def host_files(sandbox: Sandbox) -> None:
    """Files of the host cannot be read, not even those that everybody may read."""
    require_file_isolation(sandbox)
    with host_secret() as path:
        program = f"try:\n    print(open({str(path)!r}).read())\nexcept OSError as error:\n    print('no')"
        expect_equal(output_of(sandbox, program), "no")
    expect_equal(sandbox.run("open('/etc/shadow').read()").status, Status.FAILED)


def system_files(sandbox: Sandbox) -> None:
    """Files of the system cannot be changed or added."""
    require_file_isolation(sandbox)
    program = (
        "import os\nfor path in ('/x', '/usr/x', '/etc/passwd', '/usr/bin/env', os.__file__, '/dev/x', '/proc/x'):\n"
        "    try: os.close(os.open(path, os.O_RDWR | os.O_CREAT)); print(path)\n    except OSError: pass"
    )
    expect_silent(sandbox, program)


def network(sandbox: Sandbox) -> None:
    """No connection can be made, neither to the network nor to this machine itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = (
            "import socket\nfor kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
            f"    for where in (('127.0.0.1', {port}), ('192.0.2.1', 80)):\n        try:\n"
            "            s = socket.socket(socket.AF_INET, kind); s.settimeout(1); s.connect(where); s.send(b'x')\n"
            "            print('connected', kind, where)\n        except OSError: pass"
        )
        expect_silent(sandbox, program)
        server.settimeout(0.05)
        try:
            server.accept()
        except TimeoutError:
            return
        raise AssertionError("the host was reached")


def abstract_sockets(sandbox: Sandbox) -> None:
    """Abstract sockets of the host cannot be reached."""
    name = f"\0sandbox-check-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        program = (
            f"import socket\ntry:\n    socket.socket(socket.AF_UNIX).connect({name!r})\n    print('connected')\n"
            "except OSError: pass"
        )
        expect_silent(sandbox, program)


def host_processes(sandbox: Sandbox) -> None:
    """Processes of the host cannot be signalled."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        try:
            for pids in (f"{other.pid},", f"{os.getpid()}, os.getppid(), 1, -1"):  # -1 only if the first one failed
                program = (
                    f"import os, signal\nfor pid in ({pids}):\n"
                    "    try: os.kill(pid, signal.SIGTERM)\n    except OSError: pass\nprint('on')"
                )
                result = sandbox.run(program)
                expect_status(result, Status.OK, Status.SIGNAL)  # -1 may have hit itself
                time.sleep(0.05)
                expect(other.poll() is None, "a process of the host was ended")
        finally:
            other.kill()


def visible_processes(sandbox: Sandbox) -> None:
    """A program sees only its own processes and at most two of the sandbox."""
    program = (
        "import os\ntry: pids = [int(name) for name in os.listdir('/proc') if name.isdigit()]\n"
        "except OSError: pids = []\nprint(len(pids))"
    )
    if sandbox.isolation.tier == "process":
        raise NotApplicable("tier 'process' protects no files, `/proc` neither")
    expect(int(output_of(sandbox, program)) <= 3, "it sees other processes")


def no_privileges(sandbox: Sandbox) -> None:
    """A program has no capability and cannot gain one."""
    program = (
        "import ctypes\nheader = (ctypes.c_uint32 * 2)(0x20080522, 0)\ndata = (ctypes.c_uint32 * 6)()\n"
        "libc = ctypes.CDLL(None, use_errno=True)\nlibc.capget(header, data)\n"
        "print(list(data), libc.prctl(39, 0, 0, 0, 0))"
    )
    expect_equal(output_of(sandbox, program), "[0, 0, 0, 0, 0, 0] 1")


def background_processes(sandbox: Sandbox) -> None:
    """Processes that a call leaves in the background end with it, however they hide."""
    require_children(sandbox)
    mark = f"sandbox-check-{os.getpid()}"
    program = (
        "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.closerange(0, 100)\n"
        f"        os.execv('/bin/sh', ['{mark}', '-c', 'sleep 60; true'])\n    os._exit(0)\nos.wait()\nprint('left')"
    )
    expect_equal(output_of(sandbox, program), "left")
    remaining = [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark.encode() in _content(path)]
    expect_equal(remaining, [])


def open_stdout(sandbox: Sandbox) -> None:
    """A call does not wait for a background process that keeps stdout open."""
    require_children(sandbox)
    start = time.monotonic()
    program = "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(60)\nprint('done')"
    expect_equal(output_of(sandbox, program, timeout_s=20), "done")
    expect(time.monotonic() - start < 10, "the call waited for it")


def shared_memory(sandbox: Sandbox) -> None:
    """No segment of shared memory outlives a call."""
    program = "import ctypes; print(ctypes.CDLL(None, use_errno=True).shmget(0x5042, 4096, 0o1666) >= 0)"
    segments = Path("/proc/sysvipc/shm")
    before = _content(segments)
    expect_status(sandbox.run(program), Status.OK)
    expect_equal(_content(segments), before)


def project_modules(sandbox: Sandbox) -> None:
    """This project, and so its graders and hidden answers, is neither loaded nor can it be imported."""
    require_file_isolation(sandbox)
    program = (
        "import importlib, sys\nfor name in list(sys.modules):\n"
        "    if name.split('.')[0] in ('sandboxes', 'envs', 'agents', 'rl'): print(name)\n"
        "for name in ('sandboxes', 'envs', 'agents', 'rl', 'sandboxes.types', 'pytest', 'pip'):\n"
        "    try: importlib.import_module(name); print(name)\n    except (ImportError, OSError): pass"
    )
    expect_silent(sandbox, program)


def earlier_calls(sandbox: Sandbox) -> None:
    """The memory of a call contains nothing of an earlier call's program, input or output."""
    mark = "".join(["earlier", "-call-", "7f3a9b"])
    program = f"x = '{mark}' * 1000; print(x); print(input()); print(open('f').read())"
    expect_status(sandbox.run(program, stdin=mark * 1000, files={"f": mark * 1000}), Status.OK)
    search = (
        "mark = b'earlier' + b'-call' + b'-7f3a9b'\nfound = 0\nwith open('/proc/self/mem', 'rb', 0) as memory:\n"
        "    for line in open('/proc/self/maps'):\n        ends, rights = line.split()[:2]\n"
        "        if 'r' not in rights or '[v' in line: continue\n"
        "        first, last = (int(end, 16) for end in ends.split('-'))\n"
        "        try:\n            memory.seek(first); found += memory.read(last - first).count(mark * 2)\n"
        "        except (OSError, ValueError, OverflowError): pass\nprint(found)"
    )
    for _ in range(3):
        result = sandbox.run(search)
        if result.status is Status.FAILED and "PermissionError" in result.stderr:
            return  # it cannot even read its own memory
        expect_status(result, Status.OK)
        expect_equal(result.stdout, "0\n")


def identity(sandbox: Sandbox) -> None:
    """The command line, the environment and the calling frames show no path of this project and are always the same."""
    program = (
        "import os, sys\nframe, files = sys._getframe(), []\nwhile frame:\n"
        "    files.append(frame.f_code.co_filename); frame = frame.f_back\n"
        "try: line = open('/proc/self/cmdline').read()\nexcept OSError: line = ''\n"
        "print([sys.argv, sys.orig_argv, line, files, sorted(os.environ.items())])"
    )
    require_protection(sandbox)
    outputs = [output_of(sandbox, program) for _ in range(3)]
    expect(outputs[0] and str(Path(__file__).parents[2]) not in outputs[0], f"it shows {outputs[0]!r}")
    if sandbox.isolation.tier not in ("landlock", "process"):  # their folders have names of the host
        expect_equal(len(set(outputs)), 1)


def same_pids(sandbox: Sandbox) -> None:
    """The pids of a call are those of every other call, so that none of them counts calls."""
    if any("pids" in sentence for sentence in sandbox.isolation.uncovered):
        raise NotApplicable("pids are listed in `uncovered`")
    expect_equal(len({int(output_of(sandbox, "import os; print(os.getpid())")) for _ in range(3)}), 1)


def kernel_interfaces(sandbox: Sandbox) -> None:
    """Namespaces, tracing, keyrings, BPF and io_uring are refused."""
    calls = {"x86_64": (272, 101, 250, 321, 425), "aarch64": (97, 117, 219, 280, 425)}.get(os.uname().machine)
    if calls is None:
        raise NotApplicable(f"the numbers of system calls on {os.uname().machine} are not known here")
    program = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"for number, *rest in zip({calls}, (0x10000000, 0x4206, 0, 0, 4), (0, 1, 0, 0, 0)):\n"
        "    if libc.syscall(number, *rest, 0, 0, 0) >= 0: print(number)"
    )
    expect_silent(sandbox, program)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
