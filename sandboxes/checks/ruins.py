"""Programs that ruin their own place: each is a `Result`, and the next call works and finds nothing of it.

They touch only their working directory, and only their own processes.
"""

from __future__ import annotations

from sandboxes.checks.assertions import NotApplicable, expect, expect_equal, expect_status, output_of
from sandboxes.provider import Sandbox, Session
from sandboxes.types import Status

_START = (
    "import os, shutil, signal, sys, time\nwork = os.getcwd()\ndef remove():\n"
    "    shutil.rmtree(work, ignore_errors=True)\n    try: os.rmdir(work)\n    except OSError: pass\n"
    "def attempt(function, *arguments):\n    try: function(*arguments)\n    except OSError: pass\n"
)
FOLDERS = {  # what a program can do to its working directory
    "removed": "remove()",
    "renamed": "attempt(os.rename, work, work + '-renamed')",
    "a file": "remove(); attempt(lambda: open(work, 'x').close())",
    "a link to the system": "remove(); attempt(os.symlink, '/etc', work)",
    "a link to a descriptor": "remove(); attempt(os.symlink, '/proc/self/fd/4', work)",
    "without permissions": "attempt(os.chmod, work, 0)",
}
PROCESSES = {  # what it can do to its processes
    "closed": "os.closerange(0, 256)",
    "garbled": "for n in range(3, 64): attempt(os.write, n, b'junk')",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "named": "import ctypes; ctypes.CDLL(None).prctl(15, b') \\xff (', 0, 0, 0); end = time.time() + 0.2\n"
    "while time.time() < end: pass",
    "without limits": "import resource\nfor n in range(10): resource.setrlimit(n, (0, 0))",
}
_FETCHED = ("passwd", "environ", "self/environ")  # what a link in place of the directory would show


def working_directory(sandbox: Sandbox) -> None:
    """A working directory that its program removes, renames, replaces or locks is a result; nothing else is fetched."""
    for name, program in FOLDERS.items():
        result = sandbox.run(_START + program, fetch=_FETCHED)
        expect_equal((name, dict(result.files)), (name, {}))
        expect_equal((name, output_of(sandbox, "import os; print(os.listdir())")), (name, "[]"))


def own_processes(sandbox: Sandbox) -> None:
    """A program that ends, renames or cuts off its own process is a result, and the next call works."""
    for program in PROCESSES.values():
        sandbox.run(_START + program, timeout_s=5)
        expect_equal(output_of(sandbox, "print(1)"), "1")


def sessions(sandbox: Sandbox) -> None:
    """In a session that a program has ruined each call is a result, and a removed directory is there again, empty."""
    if not sandbox.isolation.sessions:
        raise NotApplicable(f"tier '{sandbox.isolation.tier}' has no sessions")
    for name, program in (FOLDERS | PROCESSES).items():
        for call in ("run", "cell"):
            session = sandbox.session()
            try:
                session.run("open('f', 'w').close()")
                getattr(session, call)(_START + program, timeout_s=5)
                _use(session, name, is_empty=name in FOLDERS and name != "without permissions")
            finally:
                session.close()


def _use(session: Session, name: str, *, is_empty: bool) -> None:
    for path in _FETCHED:
        try:
            content = session.read(path)
        except OSError:
            continue
        raise AssertionError(f"{name}: {path} was read: {content!r:.80}")
    result = session.run("import os; print(os.listdir())")
    if session.alive:
        expect_status(result, Status.OK)
        expect(not is_empty or result.stdout in ("[]\n", "['f']\n"), f"{name}: {result.stdout}")
        session.write("g", "1")
        expect_equal((name, session.read("g")), (name, b"1"))
    session.cell("1")
