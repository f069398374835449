"""Input files, output files, and traps for whoever reads the output files."""

from __future__ import annotations

from sandboxes.checks.assertions import (
    expect,
    expect_equal,
    expect_status,
    output_of,
    require_children,
    require_protection,
)
from sandboxes.provider import Sandbox
from sandboxes.types import Limits, Status


def input_files(sandbox: Sandbox) -> None:
    """Input files are in the working directory; parent folders are created."""
    program = "import os; print(open('a.txt').read(), open('d/e/b.bin', 'rb').read(), sorted(os.listdir()))"
    files = {"a.txt": "ä", "d/e/b.bin": b"\x00\xff"}
    expect_equal(output_of(sandbox, program, files=files), "ä b'\\x00\\xff' ['a.txt', 'd']")


def input_modules(sandbox: Sandbox) -> None:
    """An input file can be imported as a module."""
    expect_equal(output_of(sandbox, "import helper; print(helper.x)", files={"helper.py": "x = 5"}), "5")


def output_files(sandbox: Sandbox) -> None:
    """Files come back byte by byte, also from folders."""
    program = "import os; os.mkdir('d'); open('d/x', 'wb').write(bytes(range(256)))"
    result = sandbox.run(program, fetch=["d/x"])
    expect_equal((dict(result.files), dict(result.unread)), ({"d/x": bytes(range(256))}, {}))


def output_files_after_failure(sandbox: Sandbox) -> None:
    """Files come back however the program ended."""
    failure = sandbox.run("open('x', 'w').write('1'); 1 / 0", fetch=["x"])
    timeout = sandbox.run("open('x', 'w').write('2')\nwhile True: pass", fetch=["x"], timeout_s=0.5)
    expect_equal((failure.files["x"], timeout.files["x"], timeout.status), (b"1", b"2", Status.TIMEOUT))


def missing_files(sandbox: Sandbox) -> None:
    """A missing file is not an error: it is in `unread`, with the reason."""
    result = sandbox.run("open('y', 'w').close()", fetch=["x", "y", "y/z"])
    expect_equal((result.status, set(result.files), set(result.unread)), (Status.OK, {"y"}, {"x", "y/z"}))


def links(sandbox: Sandbox) -> None:
    """Links are not followed, whether the file itself or a folder above it is one."""
    program = "import os; os.symlink('/etc/passwd', 'x'); os.symlink('/etc', 'd'); os.symlink('/', 'r')"
    result = sandbox.run(program, fetch=["x", "d/passwd", "r/etc/passwd"])
    expect_equal((dict(result.files), len(result.unread)), ({}, 3))


def special_files(sandbox: Sandbox) -> None:
    """A pipe, a socket or a folder under the name of a file is neither waited for nor read."""
    program = (
        "import os, socket; os.mkfifo('p'); os.mkdir('d')\n"
        "try:\n    socket.socket(socket.AF_UNIX).bind('s')\nexcept OSError:\n    pass"
    )
    result = sandbox.run(program, fetch=["p", "s", "d"])
    expect_equal((dict(result.files), set(result.unread)), ({}, {"p", "s", "d"}))


def sparse_files(sandbox: Sandbox) -> None:
    """A file whose size claims to be larger than the disk is not read."""
    program = (
        "import os, resource\nfile = os.open('x', os.O_CREAT | os.O_WRONLY)\n"
        "try:\n    os.ftruncate(file, 1 << 40)\nexcept OSError:\n    pass"
    )
    result = sandbox.run(program, fetch=["x"])
    expect(not result.files.get("x"), "it was read")


def paths_outside(sandbox: Sandbox) -> None:
    """Paths that lead out of the working directory are refused before anything runs."""
    for path in ("/etc/passwd", "../x", "a/../../x", "", "a\0b"):
        for kwargs in ({"files": {path: "x"}}, {"fetch": [path]}):
            try:
                sandbox.run("1", **kwargs)  # type: ignore[arg-type]
            except ValueError:
                continue
            raise AssertionError(f"{kwargs} was accepted")


def no_leftovers(sandbox: Sandbox) -> None:
    """The next call does not see what one call has written."""
    folders = "[os.getcwd(), os.environ.get('TMPDIR', '/tmp')]"
    program = f"import os, tempfile\nfor d in {folders}:\n    open(d + '/left', 'w').close(); os.mkdir(d + '/more')"
    expect_status(sandbox.run(program), Status.OK)
    for _ in range(3):
        expect_equal(output_of(sandbox, f"import os\nprint([os.listdir(d) for d in {folders}])"), "[[], []]")


def protected_files(sandbox: Sandbox) -> None:
    """Files and folders without permissions, or nested very deeply, are removed too."""
    program = (
        "import os\nfor i in range(60):\n    os.mkdir('d' * 50); os.chdir('d' * 50)\n"
        "open('x', 'w').close(); os.chmod('x', 0); os.chmod('..', 0); os.chmod('.', 0)"
    )
    expect_status(sandbox.run(program), Status.OK)
    expect_equal(output_of(sandbox, "import os; print(os.listdir())"), "[]")


def input_files_too_large(sandbox: Sandbox) -> None:
    """Input files that do not fit into the limits are an OSError; the next call works."""
    require_protection(sandbox)
    try:
        sandbox.run("1", files={"x": b"0" * (3 << 20)}, limits=Limits(disk_mb=2))
    except OSError:
        expect_equal(output_of(sandbox, "print(1)"), "1")
    else:
        raise AssertionError("3 MB went into 2 MB")


def new_executables(sandbox: Sandbox) -> None:
    """A program that the call itself has written can be run."""
    require_children(sandbox)
    expect_equal(output_of(sandbox, ["sh", "-c", "printf '#!/bin/sh\\necho ran' > x; chmod +x x; ./x"]), "ran")
