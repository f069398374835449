"""Sessions: state that lasts from call to call, and the ways in which a session ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from sandboxes.checks.assertions import expect, expect_equal, expect_status, require_children
from sandboxes.provider import Sandbox, Session
from sandboxes.types import Limits, SandboxClosed, Status


def cell_output(session: Session, source: str) -> str:
    """Run a cell and return its stdout without newlines at the end. Raises AssertionError unless it ends with OK."""
    result = session.cell(source)
    expect_status(result, Status.OK)
    return result.stdout.rstrip("\n")


def expect_last_output(sandbox: Sandbox, cells: Sequence[str], expected: str) -> None:
    """Run cells in a new session. Raises AssertionError unless the last one prints `expected`."""
    session = sandbox.session()
    try:
        expect_equal([cell_output(session, source) for source in cells][-1], expected)
    finally:
        session.close()


def state(sandbox: Sandbox) -> None:
    """Names, imports and functions last from cell to cell."""
    cells = ("import math\nx = 2\ndef f(y): return math.sqrt(y)", "print(f(x * 8))")
    expect_last_output(sandbox, cells, "4.0")


def last_value(sandbox: Sandbox) -> None:
    """A cell's last expression is printed, unless it is None; `_` holds it."""
    expect_last_output(sandbox, ("1 + 1", "None", "x = 5\n_ + x"), "7")


def exception(sandbox: Sandbox) -> None:
    """An exception is FAILED with its line and name; the session continues with its state."""
    session = sandbox.session()
    cell_output(session, "x = 1")
    result = session.cell("x = 2\nx / 0")
    expect_equal(
        (result.status, result.exit_code, result.error), (Status.FAILED, 1, "ZeroDivisionError: division by zero")
    )
    expect("x / 0" in result.stderr, f"stderr {result.stderr!r}")
    expect_equal((cell_output(session, "x"), session.alive), ("2", True))
    session.close()


def exits(sandbox: Sandbox) -> None:
    """`sys.exit` in a cell does not end a session; `os._exit` does, with its code, and nothing runs afterwards."""
    session = sandbox.session()
    expect_status(session.cell("import sys; sys.exit(0)"), Status.FAILED)
    expect(session.alive, "sys.exit ended it")
    result = session.cell("import os; os._exit(0)")
    expect(result.exit_code == 0 and not session.alive, f"{result}, alive: {session.alive}")
    expect_equal((session.cell("1").status, session.run("1").status), (Status.ENDED, Status.ENDED))
    session.close()


def deadline(sandbox: Sandbox) -> None:
    """At its deadline a cell is interrupted; the session continues with what the cell did."""
    session = sandbox.session()
    start = time.monotonic()
    result = session.cell("x = 3\nwhile True: pass", timeout_s=0.4)
    expect(time.monotonic() - start < 1.4, "it ended late")
    expect_equal((result.status, session.alive, cell_output(session, "x")), (Status.TIMEOUT, True, "3"))
    session.close()


def uninterruptible(sandbox: Sandbox) -> None:
    """A cell that cannot be interrupted ends the session, in time."""
    session = sandbox.session()
    start = time.monotonic()
    program = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    result = session.cell(program, timeout_s=0.4)
    expect(time.monotonic() - start < 1.4, "it ended late")
    expect_equal((result.status, session.alive, session.cell("1").status), (Status.TIMEOUT, False, Status.ENDED))
    session.close()


def memory(sandbox: Sandbox) -> None:
    """The memory limit holds in a session."""
    session = sandbox.session(limits=Limits(memory_mb=150, disk_mb=16))
    result = session.cell("held = []\nfor _ in range(2048): held.append(bytearray(b'x' * (1 << 20)))")
    expect_status(result, Status.MEMORY_LIMIT, Status.FAILED)
    session.close()


def cpu(sandbox: Sandbox) -> None:
    """CPU time is limited per cell: a new cell starts from zero."""
    session = sandbox.session(limits=Limits(cpu_s=0.3))
    for _ in range(2):
        expect_status(
            session.cell("import time\nt = time.process_time()\nwhile time.process_time() < t + 0.2: pass"), Status.OK
        )
    expect_status(session.cell("while True: pass"), Status.CPU_LIMIT)
    expect_equal(session.alive, False)
    session.close()


def output(sandbox: Sandbox) -> None:
    """The output limit holds per cell."""
    session = sandbox.session(limits=Limits(output_kb=64))
    for _ in range(3):
        expect_equal(len(cell_output(session, "print('x' * 60000)")), 60000)
    result = session.cell("for _ in range(60000): print('x' * 1000)")
    expect_equal((result.status, len(result.stdout)), (Status.OUTPUT_LIMIT, 64 << 10))
    session.close()


def background_threads(sandbox: Sandbox) -> None:
    """A thread that computes between cells is ended by the CPU limit, with its session."""
    session = sandbox.session(limits=Limits(cpu_s=0.3))
    cell_output(
        session,
        "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()",
    )
    for pause_s in (1.5, 3, 6, 12):  # a machine may be busy
        time.sleep(pause_s)
        if session.cell("1", timeout_s=5).status is not Status.OK:
            break
    expect(not session.alive, "it continues to compute")
    session.close()


def files(sandbox: Sandbox) -> None:
    """Cells, runs, `write` and `read` share the same files."""
    session = sandbox.session()
    session.write("d/a", "1")
    expect_equal(cell_output(session, "open('d/a').read()"), "'1'")
    expect_equal(session.run("print(open('d/a').read()); open('b', 'w').write('2')").stdout, "1\n")
    expect_equal((session.read("b"), cell_output(session, "open('b').read()")), (b"2", "'2'"))
    session.write("b", b"\xff")
    expect_equal(session.read("b"), b"\xff")
    session.close()


def reads(sandbox: Sandbox) -> None:
    """To read a file that is missing, a link or too large is an OSError, a path outside a ValueError."""
    session = sandbox.session()
    cell_output(session, "import os; os.symlink('/etc/passwd', 'x'); open('y', 'w').write('12345')")
    for path, error in (("z", FileNotFoundError), ("x", OSError), ("y", OSError), ("../y", ValueError)):
        try:
            session.read(path, max_bytes=4)
        except error:
            continue
        raise AssertionError(f"{path} was read")
    expect_equal(session.read("y"), b"12345")
    session.close()


def runs(sandbox: Sandbox) -> None:
    """A program beside the interpreter has its own deadline, and its end does not harm the interpreter."""
    session = sandbox.session()
    cell_output(session, "x = 1")
    expect_status(session.run("while True: pass", timeout_s=0.4), Status.TIMEOUT)
    expect_equal((session.run(["cat"], stdin="in").stdout, cell_output(session, "x")), ("in", "1"))
    session.close()


def calls(sandbox: Sandbox) -> None:
    """Arguments and values of function calls cross as plain data, of any shape."""
    values = [
        None,
        True,
        -1.5,
        10**5000,
        "é",
        b"\0",
        [1, [2]],
        (1, (2,)),
        {1, 2},
        {"a": {(1, 2): None}},
        1j,
        frozenset([3]),
    ]
    session = sandbox.session()
    cell_output(session, "def same(x, *, y): return [x, y]")
    for value in values:
        result = session.call("same", value, y=value)
        expect_status(result, Status.OK)
        expect_equal((result.value, type(result.value[0])), ([value, value], type(value)))  # type: ignore[index]
    expect(str(session.call("same", float("nan"), y=0).value[0]) == "nan", "nan is lost")  # type: ignore[index]
    session.close()


def foreign_values(sandbox: Sandbox) -> None:
    """A value that is not plain data, or claims to equal everything, is FAILED: it never reaches the host."""
    session = sandbox.session()
    cell_output(
        session,
        "class Any:\n    def __eq__(self, _): return True\nclass Sly(int):\n    def __eq__(self, _): return True",
    )
    cell_output(session, "def f(kind): return {'any': Any(), 'sly': Sly(), 'list': [Sly()], 'function': f}[kind]")
    for kind in ("any", "sly", "list", "function"):
        expect_equal((kind, session.call("f", kind).status), (kind, Status.FAILED))
    session.close()


def call_failures(sandbox: Sandbox) -> None:
    """A function that raises, does not exist or runs too long is reported as for cells."""
    session = sandbox.session()
    cell_output(session, "def f(): raise ValueError('no')\ndef g():\n    while True: pass")
    expect_equal(session.call("f").error, "ValueError: no")
    statuses = (session.call("nothing").status, session.call("g", timeout_s=0.3).status)
    expect_equal(statuses, (Status.FAILED, Status.TIMEOUT))
    expect_equal(session.alive, True)
    session.close()


def forgery(sandbox: Sandbox) -> None:
    """Code that writes to the sandbox's own channels cannot forge an OK."""
    for payload in ("b'junk'", "b'\\x02\\0\\0\\0{}'", "b'\\xff' * 9", "b'\\x05\\0\\0\\0[[[[['"):
        session = sandbox.session()
        source = (
            f"import os\nfor number in range(3, 20):\n    try: os.write(number, {payload})\n    except OSError: pass"
        )
        result = session.cell(source, timeout_s=1)
        after = session.cell("1", timeout_s=1)
        expect(
            Status.GARBLED in (result.status, after.status) or (result.ok and after.stdout == "1\n"),
            f"{payload}: {result}, {after}",
        )
        session.close()


def separation(sandbox: Sandbox) -> None:
    """Sessions share neither names nor files."""
    first, second = sandbox.session(), sandbox.session()
    cell_output(first, "x = 1; open('f', 'w').close()")
    outputs = (second.cell("x").error[:9], cell_output(second, "import os; os.listdir()"))
    expect_equal(outputs, ("NameError", "[]"))
    first.close()
    second.close()


def children(sandbox: Sandbox) -> None:
    """A process that a cell or a call forks ends with it: later calls get their own results."""
    require_children(sandbox)
    session = sandbox.session()
    cell_output(session, "import os\ndef split(n): return os.fork() and n\ndef double(n): return 2 * n")
    for number in range(5):
        session.call("split", number)
        values = [session.call("double", place).value for place in range(6)]
        expect_equal(values, [0, 2, 4, 6, 8, 10])
    session.close()


def forks(sandbox: Sandbox) -> None:
    """A fork starts with the same state and files, and is independent from then on."""
    session = sandbox.session()
    session.write("a", "1")
    cell_output(session, "import random\nx = [1, random.random()]")
    session.run("open('b', 'w').write('2')")
    twin = session.fork()
    expect_equal((cell_output(twin, "x"), twin.read("b")), (cell_output(session, "x"), b"2"))
    cell_output(twin, "x.append(3)")
    expect_equal((cell_output(twin, "len(x)"), cell_output(session, "len(x)")), ("3", "2"))
    twin.close()
    session.close()


def background_processes(sandbox: Sandbox) -> None:
    """Processes that a run leaves in the background live until the session ends."""
    require_children(sandbox)
    session = sandbox.session()
    session.run(["sh", "-c", "(sleep 0.3; echo late > f) > /dev/null 2>&1 &"])
    time.sleep(0.8)
    expect_equal(session.read("f"), b"late\n")
    session.close()


def after_close(sandbox: Sandbox) -> None:
    """A closed session is not alive, can be closed again, and raises SandboxClosed when it is called."""
    session = sandbox.session()
    cell_output(session, "1")
    session.close()
    session.close()
    expect_equal(session.alive, False)
    try:
        session.cell("1")
    except SandboxClosed:
        return
    raise AssertionError("it ran")


def many_sessions(sandbox: Sandbox) -> None:
    """A dozen sessions can be open at once, and leave no thread of the host behind."""
    thread_count = threading.active_count()
    sessions = [sandbox.session() for _ in range(12)]
    for number, session in enumerate(sessions):
        cell_output(session, f"x = {number}")
    expect_equal([cell_output(session, "x") for session in sessions], [str(number) for number in range(12)])
    for session in sessions:
        session.close()
    expect_equal(threading.active_count(), thread_count)
