"""Limits that hold, each followed by a call that works."""

from __future__ import annotations

import math
import time

from sandboxes.checks.expect import ended, expect, needs_children, printed, same
from sandboxes.types import Limits, Result, Sandbox, Status

GRACE_S = 1.0  # what every call may last beyond its deadline


def over(sandbox: Sandbox, program: str, *statuses: Status, timeout_s: float = 10.0, **limits: float) -> Result:
    """Run a program that goes too far, see it end so and in time, and that the sandbox works on."""
    began = time.monotonic()
    result = sandbox.run(program, timeout_s=timeout_s, limits=Limits(**limits))  # type: ignore[arg-type]
    spent_s = time.monotonic() - began
    ended(result, *statuses)
    expect(spent_s < timeout_s + GRACE_S, f"it took {spent_s:.2f} s, of {timeout_s} s")
    same(printed(sandbox, "print(1)"), "1")
    return result


def endless_loop(sandbox: Sandbox) -> None:
    """A loop without end is stopped at the deadline; what it printed is kept."""
    result = over(sandbox, "print('on', flush=True)\nwhile True: pass", Status.TIMEOUT, timeout_s=0.5)
    same((result.stdout, result.exit_code), ("on\n", None))


def endless_sleep(sandbox: Sandbox) -> None:
    """A program that sleeps is stopped at the deadline."""
    over(sandbox, "import time; time.sleep(1000)", Status.TIMEOUT, timeout_s=0.4)


def inside_c(sandbox: Sandbox) -> None:
    """One endless operation of C code is stopped too."""
    over(sandbox, "import sys; sys.set_int_max_str_digits(0); 7 ** 10 ** 9", Status.TIMEOUT, timeout_s=0.5)


def deaf(sandbox: Sandbox) -> None:
    """A program that ignores every signal is stopped at the deadline."""
    program = (
        "import signal\nfor number in range(1, 65):\n    try: signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\nwhile True: pass"
    )
    over(sandbox, program, Status.TIMEOUT, timeout_s=0.5)


def cpu(sandbox: Sandbox) -> None:
    """CPU time is limited whatever the wall time."""
    over(sandbox, "while True: pass", Status.CPU_LIMIT, cpu_s=0.3)


def cpu_together(sandbox: Sandbox) -> None:
    """CPU time is that of all processes together, also of those that ended."""
    needs_children(sandbox)
    program = (
        "import os, time\nwhile True:\n    if os.fork() == 0:\n        while time.process_time() < 0.1: pass\n"
        "        os._exit(0)\n    os.wait()"
    )
    over(sandbox, program, Status.CPU_LIMIT, cpu_s=0.25)


def memory(sandbox: Sandbox) -> None:
    """Memory is limited: the program is stopped, or told so by a MemoryError."""
    program = "held = []\nwhile True: held.append(bytearray(b'x' * (1 << 20)))"
    over(sandbox, program, Status.MEMORY_LIMIT, Status.FAILED, memory_mb=150)


def memory_together(sandbox: Sandbox) -> None:
    """Memory is that of all processes together."""
    needs_children(sandbox)
    program = (
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        held = bytearray(b'x' * (60 << 20))\n"
        "        time.sleep(1)\n        os._exit(0)\nprint([os.wait()[1] for _ in range(8)].count(9))"
    )
    result = sandbox.run(program, limits=Limits(memory_mb=200, disk_mb=16))
    ended(result, Status.MEMORY_LIMIT, Status.OK)  # the kernel may end the children alone
    expect(not result.ok or int(result.stdout) >= 3, f"{result.stdout.strip()} of 8 were ended")


def stdout(sandbox: Sandbox) -> None:
    """Output beyond the limit stops the program; what fits is kept."""
    result = over(sandbox, "while True: print('x' * 1000)", Status.OUTPUT_LIMIT, output_kb=64)
    same(len(result.stdout), 64 << 10)


def stderr(sandbox: Sandbox) -> None:
    """The same of stderr."""
    over(sandbox, "import os\nwhile True: os.write(2, b'x' * 65536)", Status.OUTPUT_LIMIT, output_kb=64)


def output_of_limit(sandbox: Sandbox) -> None:
    """Output of exactly the limit is all right."""
    result = sandbox.run("import sys; sys.stdout.write('x' * 65536)", limits=Limits(output_kb=64))
    same((result.status, len(result.stdout)), (Status.OK, 65536))


def processes(sandbox: Sandbox) -> None:
    """The number of processes is limited, and none is left to stand in the next call's way."""
    needs_children(sandbox)
    program = (
        "import os, time\nn = 0\ntry:\n    while n < 500:\n        if os.fork() == 0: time.sleep(60)\n        n += 1\n"
        "except OSError as error:\n    print(n, error.errno)"
    )
    for _ in range(2):
        started, error = printed(sandbox, program, limits=Limits(processes=20, memory_mb=1500)).split()
        expect(10 <= int(started) <= 20 and error == "11", f"{started} were started, then errno {error}")


def threads(sandbox: Sandbox) -> None:
    """Threads count as processes."""
    needs_children(sandbox)
    program = (
        "import os, threading, time\nn = 0\ntry:\n    while n < 500:\n"
        "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n        n += 1\n"
        "except RuntimeError:\n    print(n, flush=True)\nos._exit(0)"
    )
    started = int(printed(sandbox, program, limits=Limits(processes=20)))
    expect(10 <= started <= 20, f"{started} were started")


def disk(sandbox: Sandbox) -> None:
    """The disk is limited, all folders together, and full disks are emptied."""
    needs_children(sandbox)  # weaker tiers bound each file only
    program = (
        "n = 0\nfor d in ('.', '/tmp', '/dev/shm'):\n    try:\n        with open(d + '/x', 'wb', 0) as file:\n"
        "            while True: n += file.write(b'x' * 65536)\n    except OSError: pass\nprint(n >> 20)"
    )
    for _ in range(2):
        written = int(printed(sandbox, program, limits=Limits(disk_mb=8)))
        expect(6 <= written <= 8, f"{written} MB were written")


def file_count(sandbox: Sandbox) -> None:
    """The number of files is limited."""
    needs_children(sandbox)
    program = "n = 0\ntry:\n    while n < 9999: open(f'x{n}', 'w').close(); n += 1\nexcept OSError: pass\nprint(n)"
    made = int(printed(sandbox, program, limits=Limits(files=200)))
    expect(150 <= made <= 200, f"{made} were made")


def wrong_limits(sandbox: Sandbox) -> None:
    """Limits and deadlines that are not above 0 are refused."""
    for name in ("cpu_s", "memory_mb", "processes", "disk_mb", "files", "output_kb"):
        try:
            Limits(**{name: 0})
        except ValueError as error:
            expect(name in str(error), f"{error} does not name {name}")
            continue
        raise AssertionError(f"{name} = 0 was taken")
    for timeout_s in (0.0, math.nan, math.inf):
        try:
            sandbox.run("1", timeout_s=timeout_s)
        except ValueError:
            continue
        raise AssertionError(f"timeout_s = {timeout_s} was taken")
