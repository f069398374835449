"""Programs that ruin the place that they run in, and what must be true of the calls after each. No test.

Whatever they do is a `Result`: nothing raises a `SandboxError`, and no file of the host comes back. Each is tried as a
stateless call, and as a program and as a cell of a session. Run as a program for another user:
`python tests/support/sandbox_ruins.py local:process`. They touch nothing but the sandbox's own folders.
"""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

import sandboxes
from sandboxes import Limits, Sandbox, SandboxError, Session

LIMITS = Limits(cpu_s=20, memory_mb=160, processes=32, disk_mb=16, files=500, output_kb=128)
TIMEOUT_S = 0.5
FETCH = ("f", "passwd", "hostname", "environ", "1/environ", "self/environ", "root/etc/hostname")
TRY = """
import ctypes, fcntl, glob, os, resource, shutil, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
work = os.getcwd()
def tries(*acts):
    for act in acts:
        try: act()
        except Exception: pass
def clear():
    shutil.rmtree(work, ignore_errors=True)
    tries(lambda: os.rmdir(work), lambda: os.rename(work, work + '-gone'))
open('f', 'w').write('f')
"""


class Ruin(NamedTuple):
    program: str
    children: bool = False  # whether it needs processes of its own


RUINS = {
    "its folder removed": Ruin("clear()"),
    "its folder renamed": Ruin("tries(lambda: os.rename(work, work + '-gone'))"),
    "a file instead": Ruin("clear(); tries(lambda: open(work, 'w').close())"),
    "a pipe instead": Ruin("clear(); tries(lambda: os.mkfifo(work))"),
    "a link to /etc": Ruin("clear(); tries(lambda: os.symlink('/etc', work))"),
    "a link to a descriptor": Ruin("clear(); tries(lambda: os.symlink('/proc/self/fd/4', work))"),
    "a link to another descriptor": Ruin("clear(); tries(lambda: os.symlink('/proc/self/fd/9', work))"),
    "a link to itself": Ruin("clear(); tries(lambda: os.symlink(work, work))"),
    "no right to enter": Ruin("os.chmod(work, 0)"),
    "no right to anything": Ruin(
        "for p in (work, work + '/../tmp', work + '/../shm', work + '/..'): tries(lambda: os.chmod(p, 0))"
    ),
    "the folder above removed": Ruin(
        "shutil.rmtree(os.path.dirname(work), ignore_errors=True); tries(lambda: os.rmdir(os.path.dirname(work)))"
    ),
    "the folder above replaced": Ruin(
        "above = os.path.dirname(work); shutil.rmtree(above, ignore_errors=True)\n"
        "tries(lambda: os.rmdir(above)); tries(lambda: os.symlink('/etc', above))"
    ),
    "its files replaced by folders": Ruin("os.remove('f'); os.makedirs('f/f'); os.makedirs('g/new')"),
    "its files replaced by pipes": Ruin("os.remove('f'); os.mkfifo('f'); os.mkfifo('g')"),
    "very deep folders": Ruin("for _ in range(400): tries(lambda: os.mkdir('d'), lambda: os.chdir('d'))"),
    "more files than allowed": Ruin("for n in range(9000): tries(lambda: os.close(os.open(f'x{n}', os.O_CREAT)))"),
    "more bytes than allowed": Ruin(
        "for n in range(6): tries(lambda: open(f'x{n}', 'wb', 0).write(b'x' * (8 << 20)))\ntime.sleep(0.2)"
    ),
    "more memory than allowed": Ruin("held = []\nfor _ in range(400): held.append(b'x' * (1 << 20))"),
    "all killed": Ruin("tries(lambda: os.kill(-1, 9))\nos.kill(os.getpid(), 9)"),
    "the parent killed": Ruin(
        "for n in (9, 15, 2, 19, 6): tries(lambda: os.kill(os.getppid(), n), lambda: os.kill(1, n))"
    ),
    "every pid killed": Ruin(
        "for n in (19, 9):\n    for p in range(1, 400): tries(lambda: p == os.getpid() or os.kill(p, n))", True
    ),
    "all stopped": Ruin("if not os.fork():\n    while True: tries(lambda: os.kill(-1, 19))", True),
    "itself stopped": Ruin("tries(lambda: os.kill(os.getpid(), 19))\ntime.sleep(2)"),
    "descriptors closed": Ruin("os.closerange(0, 1024)"),
    "descriptors garbled": Ruin(
        "for n in range(3, 64): tries(lambda: os.write(n, b'{\"ended\": 1}' * 9), lambda: fcntl.fcntl(n, 4, 2048))"
    ),
    "files locked": Ruin(
        "for p in (work, sys.executable, os.__file__, '/etc/passwd', '/'): "
        "tries(lambda: fcntl.flock(os.open(p, os.O_RDONLY), 6))"
    ),
    "pids used up": Ruin("for _ in range(99): tries(lambda: os.fork() or time.sleep(99))", True),
    "threads used up": Ruin(
        "import threading\nfor _ in range(99): tries(lambda: threading.Thread(target=time.sleep, args=(9,)).start())"
    ),
    "limits of its own": Ruin(
        "for n in range(16): tries(lambda: resource.setrlimit(n, (0, 0)), lambda: resource.prlimit(1, n, (0, 0)))"
    ),
    "unmounted": Ruin(
        "for p in (work, '/box', '/proc', '/tmp', '/'): tries(lambda: libc.umount2(p.encode(), 2))\n"
        "tries(lambda: libc.unshare(0x10020000), lambda: libc.chroot(b'.'))"
    ),
    "control groups": Ruin(
        "for p in glob.glob('/sys/fs/cgroup/**/cgroup.procs', recursive=True)[:99]: "
        "tries(lambda: open(p, 'w').write(str(os.getppid())))"
    ),
    "traced": Ruin("for p in (1, os.getppid()): libc.ptrace(16, p, 0, 0); libc.ptrace(0x4206, p, 0, 0)"),
    "a name that is no text": Ruin(
        "libc.prctl(15, b') \\xff\\xfe (', 0, 0, 0)\nt = time.time() + 0.3\nwhile time.time() < t: pass"
    ),
    "signals blocked": Ruin("signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\ntime.sleep(9)"),
    "a daemon that kills": Ruin("if not os.fork():\n    while True: tries(lambda: os.kill(-1, 9))", True),
    "a daemon that links": Ruin(
        "if not os.fork():\n    while True:\n"
        "        tries(lambda: os.rename(work, work + '1'), lambda: os.symlink('/etc', work), lambda: os.unlink(work))\n"
        "        tries(lambda: os.rename(work + '1', work), lambda: os.chmod(work, 0))",
        True,
    ),
    "a daemon that fills": Ruin("if not os.fork():\n    held = []\n    while True: held.append(b'x' * 65536)", True),
}


def attempt(act: object, *arguments: object, **options: object) -> list[str]:
    """What is wrong with one call: it raised a fault of the sandbox, or returned what is of the host."""
    try:
        result = act(*arguments, **options)  # type: ignore[operator]
    except SandboxError as fault:
        return [f"{getattr(act, '__name__', act)}: {type(fault).__name__}: {fault}"]
    except OSError:
        return []
    contents = [result] if isinstance(result, bytes) else list(getattr(result, "files", {}).values())
    return [f"{act}: came back: {content!r:.80}" for content in contents if content not in (b"f", b"", b"new")]


def ruin_calls(sandbox: Sandbox, ruin: Ruin) -> list[str]:
    """Run the program on its own, and a plain one after it."""
    faults = attempt(sandbox.run, TRY + ruin.program, fetch=FETCH, timeout_s=TIMEOUT_S, limits=LIMITS)
    look = "import os; print(os.listdir(), os.listdir(os.environ['TMPDIR'])); open('f', 'w').write('f')"
    after = sandbox.run(look, fetch=["f"], timeout_s=20, limits=LIMITS)
    if (after.stdout, dict(after.files)) != ("[] []\n", {"f": b"f"}):
        faults.append(f"the next call: {after.stdout!r} {after.stderr[-300:]!r} {after.unread}")
    return faults


def use(session: Session) -> list[str]:
    faults = attempt(session.run, "print(1)", timeout_s=TIMEOUT_S)
    for path in FETCH:
        faults += attempt(session.read, path)
    for path in ("g", "g/new"):
        faults += attempt(session.write, path, "new")
    faults += attempt(session.cell, "open('f', 'w').write('f')", timeout_s=TIMEOUT_S)
    return faults + attempt(session.run, "print(2)", timeout_s=TIMEOUT_S)


def ruin_sessions(sandbox: Sandbox, ruin: Ruin) -> list[str]:
    """Run the program in two sessions, beside an interpreter and in it, and use the sessions after it."""
    faults = []
    for call in ("run", "cell"):
        session = sandbox.session(limits=LIMITS)
        try:
            if call == "cell":
                session.cell("x = 1")
            faults += attempt(getattr(session, call), TRY + ruin.program, timeout_s=TIMEOUT_S) + use(session)
        except SandboxError as fault:
            faults.append(f"in a session: {type(fault).__name__}: {fault}")
        finally:
            session.close()
    return faults


def plain_session(sandbox: Sandbox) -> list[str]:
    """A session that is ruined in the mildest way can still be used: it has an empty folder again."""
    session = sandbox.session(limits=LIMITS)
    session.run(TRY + "clear(); tries(lambda: os.symlink('/etc', work))", timeout_s=20)
    outputs = [session.run("import os; print(os.listdir())", timeout_s=20).stdout]
    session.write("f", "new")
    outputs += [session.read("f").decode(), session.cell("1 + 1", timeout_s=20).stdout]
    session.close()
    return [] if outputs == ["[]\n", "new", "2\n"] else [f"a session with an empty folder: {outputs}"]


def ruin_all(sandbox: Sandbox) -> dict[str, list[str]]:
    """What is wrong with each way to ruin a place; [] where nothing is."""
    faults = {}
    for name, ruin in RUINS.items():
        if not ruin.children or sandbox.isolation.children:
            faults[name] = ruin_calls(sandbox, ruin) + ruin_sessions(sandbox, ruin)
    return faults | {"a session goes on": plain_session(sandbox)}


if __name__ == "__main__":
    with sandboxes.open(sys.argv[1], packages=()) as sandbox:
        print(json.dumps(ruin_all(sandbox)))
