"""Files that go in, files that come out, and traps laid for those who fetch them."""

from __future__ import annotations

from sandboxes.checks.expect import ended, expect, needs_children, printed, same
from sandboxes.types import Limits, Sandbox, Status


def given(sandbox: Sandbox) -> None:
    """Files that are given lie in the working directory, folders are made for them."""
    program = "import os; print(open('a.txt').read(), open('d/e/b.bin', 'rb').read(), sorted(os.listdir()))"
    files = {"a.txt": "ä", "d/e/b.bin": b"\x00\xff"}
    same(printed(sandbox, program, files=files), "ä b'\\x00\\xff' ['a.txt', 'd']")


def imported(sandbox: Sandbox) -> None:
    """A file that is given can be imported."""
    same(printed(sandbox, "import helper; print(helper.x)", files={"helper.py": "x = 5"}), "5")


def fetched(sandbox: Sandbox) -> None:
    """Files come back byte by byte, those in folders too."""
    program = "import os; os.mkdir('d'); open('d/x', 'wb').write(bytes(range(256)))"
    result = sandbox.run(program, fetch=["d/x"])
    same((dict(result.files), dict(result.unread)), ({"d/x": bytes(range(256))}, {}))


def fetched_after_failure(sandbox: Sandbox) -> None:
    """Files come back however the program ended."""
    failed = sandbox.run("open('x', 'w').write('1'); 1 / 0", fetch=["x"])
    late = sandbox.run("open('x', 'w').write('2')\nwhile True: pass", fetch=["x"], timeout_s=0.5)
    same((failed.files["x"], late.files["x"], late.status), (b"1", b"2", Status.TIMEOUT))


def not_there(sandbox: Sandbox) -> None:
    """A file that is not there is no fault: it stands in `unread`, with the reason."""
    result = sandbox.run("open('y', 'w').close()", fetch=["x", "y", "y/z"])
    same((result.status, set(result.files), set(result.unread)), (Status.OK, {"y"}, {"x", "y/z"}))


def link_out(sandbox: Sandbox) -> None:
    """A link is not followed, neither the file itself nor a folder above it."""
    program = "import os; os.symlink('/etc/passwd', 'x'); os.symlink('/etc', 'd'); os.symlink('/', 'r')"
    result = sandbox.run(program, fetch=["x", "d/passwd", "r/etc/passwd"])
    same((dict(result.files), len(result.unread)), ({}, 3))


def no_plain_file(sandbox: Sandbox) -> None:
    """A pipe, a socket or a folder in a file's place is not waited for and not read."""
    program = (
        "import os, socket; os.mkfifo('p'); os.mkdir('d')\n"
        "try:\n    socket.socket(socket.AF_UNIX).bind('s')\nexcept OSError:\n    pass"
    )
    result = sandbox.run(program, fetch=["p", "s", "d"])
    same((dict(result.files), set(result.unread)), ({}, {"p", "s", "d"}))


def sparse(sandbox: Sandbox) -> None:
    """A file that claims to be larger than the disk is not read."""
    program = (
        "import os, resource\nfile = os.open('x', os.O_CREAT | os.O_WRONLY)\n"
        "try:\n    os.ftruncate(file, 1 << 40)\nexcept OSError:\n    pass"
    )
    result = sandbox.run(program, fetch=["x"])
    expect(not result.files.get("x"), "it was read")


def outside(sandbox: Sandbox) -> None:
    """Paths that lead out are refused before anything runs."""
    for path in ("/etc/passwd", "../x", "a/../../x", "", "a\0b"):
        for words in ({"files": {path: "x"}}, {"fetch": [path]}):
            try:
                sandbox.run("1", **words)  # type: ignore[arg-type]
            except ValueError:
                continue
            raise AssertionError(f"{words} was taken")


def nothing_stays(sandbox: Sandbox) -> None:
    """What one call writes, the next one does not see."""
    folders = "[os.getcwd(), os.environ.get('TMPDIR', '/tmp')]"
    program = f"import os, tempfile\nfor d in {folders}:\n    open(d + '/left', 'w').close(); os.mkdir(d + '/more')"
    ended(sandbox.run(program), Status.OK)
    for _ in range(3):
        same(printed(sandbox, f"import os\nprint([os.listdir(d) for d in {folders}])"), "[[], []]")


def stubborn_files(sandbox: Sandbox) -> None:
    """Files and folders that may not be touched, or lie very deep, are removed all the same."""
    program = (
        "import os\nfor i in range(60):\n    os.mkdir('d' * 50); os.chdir('d' * 50)\n"
        "open('x', 'w').close(); os.chmod('x', 0); os.chmod('..', 0); os.chmod('.', 0)"
    )
    ended(sandbox.run(program), Status.OK)
    same(printed(sandbox, "import os; print(os.listdir())"), "[]")


def too_many_given(sandbox: Sandbox) -> None:
    """Files that do not fit are the caller's mistake, told as OSError; the next call works."""
    needs_children(sandbox)  # weaker tiers do not bound the sum
    try:
        sandbox.run("1", files={"x": b"0" * (3 << 20)}, limits=Limits(disk_mb=2))
    except OSError:
        same(printed(sandbox, "print(1)"), "1")
    else:
        raise AssertionError("3 MB went into 2 MB")


def fresh_programs(sandbox: Sandbox) -> None:
    """A program that was written can be run."""
    needs_children(sandbox)
    same(printed(sandbox, ["sh", "-c", "printf '#!/bin/sh\\necho ran' > x; chmod +x x; ./x"]), "ran")
