"""Sessions: state that stays, and ends when it must."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from sandboxes.checks.expect import ended, expect, needs_children, printed, same
from sandboxes.types import Limits, Result, Sandbox, SandboxClosed, Session, Status


def told(session: Session, source: str) -> str:
    """What a cell printed; it must end well."""
    result = session.cell(source)
    ended(result, Status.OK)
    return result.stdout.rstrip("\n")


def state(sandbox: Sandbox) -> None:
    """Names, imports and functions stay from cell to cell."""
    with_session(
        sandbox,
        lambda s: (told(s, "import math\nx = 2\ndef f(y): return math.sqrt(y)"), told(s, "print(f(x * 8))")),
        "4.0",
    )


def with_session(sandbox: Sandbox, act, wanted: object) -> None:
    """Open a session, act in it, compare the last thing found."""
    session = sandbox.session()
    try:
        same(act(session)[-1], wanted)
    finally:
        session.close()


def last_value(sandbox: Sandbox) -> None:
    """A cell's last expression is printed, unless it is None; `_` holds it."""
    with_session(sandbox, lambda s: (told(s, "1 + 1"), told(s, "None"), told(s, "x = 5\n_ + x")), "7")


def exception(sandbox: Sandbox) -> None:
    """An exception is FAILED with its line and name; state and session stay."""
    session = sandbox.session()
    told(session, "x = 1")
    result = session.cell("x = 2\nx / 0")
    same((result.status, result.exit_code, result.error), (Status.FAILED, 1, "ZeroDivisionError: division by zero"))
    expect("x / 0" in result.stderr, f"stderr {result.stderr!r}")
    same((told(session, "x"), session.alive), ("2", True))
    session.close()


def exits(sandbox: Sandbox) -> None:
    """`sys.exit` in a cell does not end a session; `os._exit` does, with its code, and nothing runs there any more."""
    session = sandbox.session()
    ended(session.cell("import sys; sys.exit(0)"), Status.FAILED)
    expect(session.alive, "sys.exit ended it")
    result = session.cell("import os; os._exit(0)")
    expect(result.exit_code == 0 and not session.alive, f"{result}, alive: {session.alive}")
    same((session.cell("1").status, session.run("1").status), (Status.ENDED, Status.ENDED))
    session.close()


def deadline(sandbox: Sandbox) -> None:
    """At its deadline a cell is interrupted; what it did stays, and so does the session."""
    session = sandbox.session()
    began = time.monotonic()
    result = session.cell("x = 3\nwhile True: pass", timeout_s=0.4)
    expect(time.monotonic() - began < 1.4, "it ended late")
    same((result.status, session.alive, told(session, "x")), (Status.TIMEOUT, True, "3"))
    session.close()


def stubborn(sandbox: Sandbox) -> None:
    """A cell that will not be interrupted ends the session, in time."""
    session = sandbox.session()
    began = time.monotonic()
    program = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    result = session.cell(program, timeout_s=0.4)
    expect(time.monotonic() - began < 1.4, "it ended late")
    same((result.status, session.alive, session.cell("1").status), (Status.TIMEOUT, False, Status.ENDED))
    session.close()


def memory(sandbox: Sandbox) -> None:
    """The memory limit holds in a session."""
    session = sandbox.session(limits=Limits(memory_mb=150, disk_mb=16))
    result = session.cell("held = []\nwhile True: held.append(bytearray(b'x' * (1 << 20)))")
    ended(result, Status.MEMORY_LIMIT, Status.FAILED)
    session.close()


def cpu(sandbox: Sandbox) -> None:
    """CPU time is limited per cell: a new cell starts from zero."""
    session = sandbox.session(limits=Limits(cpu_s=0.3))
    for _ in range(2):
        ended(
            session.cell("import time\nt = time.process_time()\nwhile time.process_time() < t + 0.2: pass"), Status.OK
        )
    ended(session.cell("while True: pass"), Status.CPU_LIMIT)
    same(session.alive, False)
    session.close()


def output(sandbox: Sandbox) -> None:
    """The output limit holds per cell."""
    session = sandbox.session(limits=Limits(output_kb=64))
    for _ in range(3):
        same(len(told(session, "print('x' * 60000)")), 60000)
    result = session.cell("while True: print('x' * 1000)")
    same((result.status, len(result.stdout)), (Status.OUTPUT_LIMIT, 64 << 10))
    session.close()


def background(sandbox: Sandbox) -> None:
    """A thread that computes between cells is ended by the CPU limit, with its session."""
    session = sandbox.session(limits=Limits(cpu_s=0.3))
    told(
        session,
        "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()",
    )
    for pause_s in (1.5, 3, 6, 12):  # a machine may be busy
        time.sleep(pause_s)
        if session.cell("1", timeout_s=5).status is not Status.OK:
            break
    expect(not session.alive, "it computes on")
    session.close()


def files(sandbox: Sandbox) -> None:
    """Files are shared by cells, runs, `write` and `read`."""
    session = sandbox.session()
    session.write("d/a", "1")
    same(told(session, "open('d/a').read()"), "'1'")
    same(session.run("print(open('d/a').read()); open('b', 'w').write('2')").stdout, "1\n")
    same((session.read("b"), told(session, "open('b').read()")), (b"2", "'2'"))
    session.write("b", b"\xff")
    same(session.read("b"), b"\xff")
    session.close()


def reads(sandbox: Sandbox) -> None:
    """A file that is missing, a link or too large is an OSError, a path outside a ValueError."""
    session = sandbox.session()
    told(session, "import os; os.symlink('/etc/passwd', 'x'); open('y', 'w').write('12345')")
    for path, fault in (("z", FileNotFoundError), ("x", OSError), ("y", OSError), ("../y", ValueError)):
        try:
            session.read(path, max_bytes=4)
        except fault:
            continue
        raise AssertionError(f"{path} was read")
    same(session.read("y"), b"12345")
    session.close()


def runs(sandbox: Sandbox) -> None:
    """A program beside the interpreter has a deadline of its own, and does not harm the interpreter."""
    session = sandbox.session()
    told(session, "x = 1")
    ended(session.run("while True: pass", timeout_s=0.4), Status.TIMEOUT)
    same((session.run(["cat"], stdin="in").stdout, told(session, "x")), ("in", "1"))
    session.close()


def calls(sandbox: Sandbox) -> None:
    """A function's value comes back as plain data, of any shape."""
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
    told(session, "def same(x, *, y): return [x, y]")
    for value in values:
        result = session.call("same", value, y=value)
        ended(result, Status.OK)
        same((result.value, type(result.value[0])), ([value, value], type(value)))  # type: ignore[index]
    expect(str(session.call("same", float("nan"), y=0).value[0]) == "nan", "nan is lost")  # type: ignore[index]
    session.close()


def foreign_values(sandbox: Sandbox) -> None:
    """An object that is no plain data, or claims to equal everything, is FAILED: it never reaches the host."""
    session = sandbox.session()
    told(
        session,
        "class Any:\n    def __eq__(self, _): return True\nclass Sly(int):\n    def __eq__(self, _): return True",
    )
    told(session, "def f(kind): return {'any': Any(), 'sly': Sly(), 'list': [Sly()], 'function': f}[kind]")
    for kind in ("any", "sly", "list", "function"):
        same((kind, session.call("f", kind).status), (kind, Status.FAILED))
    session.close()


def call_faults(sandbox: Sandbox) -> None:
    """A call that raises, does not exist or lasts too long is told as for cells."""
    session = sandbox.session()
    told(session, "def f(): raise ValueError('no')\ndef g():\n    while True: pass")
    same(session.call("f").error, "ValueError: no")
    same((session.call("nothing").status, session.call("g", timeout_s=0.3).status), (Status.FAILED, Status.TIMEOUT))
    same(session.alive, True)
    session.close()


def forged(sandbox: Sandbox) -> None:
    """Code that speaks on the sandbox's own channels earns no OK."""
    for payload in ("b'junk'", "b'\\x02\\0\\0\\0{}'", "b'\\xff' * 9", "b'\\x05\\0\\0\\0[[[[['"):
        session = sandbox.session()
        source = (
            f"import os\nfor number in range(3, 20):\n    try: os.write(number, {payload})\n    except OSError: pass"
        )
        result: Result = session.cell(source, timeout_s=1)
        after = session.cell("1", timeout_s=1)
        expect(
            Status.GARBLED in (result.status, after.status) or (result.ok and after.stdout == "1\n"),
            f"{payload}: {result}, {after}",
        )
        session.close()


def apart(sandbox: Sandbox) -> None:
    """Sessions share neither names nor files."""
    one, two = sandbox.session(), sandbox.session()
    told(one, "x = 1; open('f', 'w').close()")
    same((two.cell("x").error[:9], told(two, "import os; os.listdir()")), ("NameError", "[]"))
    one.close()
    two.close()


def forks(sandbox: Sandbox) -> None:
    """A fork has the same state and files, and then its own."""
    session = sandbox.session()
    session.write("a", "1")
    told(session, "import random\nx = [1, random.random()]")
    session.run("open('b', 'w').write('2')")
    twin = session.fork()
    same((told(twin, "x"), twin.read("b")), (told(session, "x"), b"2"))
    told(twin, "x.append(3)")
    same((told(twin, "len(x)"), told(session, "len(x)")), ("3", "2"))
    twin.close()
    session.close()


def children(sandbox: Sandbox) -> None:
    """What a run leaves in the background lives as long as the session, and no longer."""
    needs_children(sandbox)
    session = sandbox.session()
    session.run(["sh", "-c", "(sleep 0.3; echo late > f) > /dev/null 2>&1 &"])
    time.sleep(0.8)
    same(session.read("f"), b"late\n")
    session.close()


def closed(sandbox: Sandbox) -> None:
    """A closed session is not alive, closes twice, and refuses calls as our fault, not as a result."""
    session = sandbox.session()
    told(session, "1")
    session.close()
    session.close()
    same(session.alive, False)
    try:
        session.cell("1")
    except SandboxClosed:
        return
    raise AssertionError("it ran")


def at_once(sandbox: Sandbox) -> None:
    """Many threads can use one sandbox, each gets its own answer."""

    def square(number: int) -> str:
        return printed(sandbox, f"print(input() + ' {number * number}')", stdin=f"{number}", timeout_s=30)

    with ThreadPoolExecutor(8) as threads:
        same(list(threads.map(square, range(24))), [f"{number} {number * number}" for number in range(24)])


def many(sandbox: Sandbox) -> None:
    """A dozen sessions live side by side, and leave no thread of the host behind."""
    before = threading.active_count()
    sessions = [sandbox.session() for _ in range(12)]
    for number, session in enumerate(sessions):
        told(session, f"x = {number}")
    same([told(session, "x") for session in sessions], [str(number) for number in range(12)])
    for session in sessions:
        session.close()
    same(threading.active_count(), before)
