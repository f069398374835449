"""Limits hold, and the next call works. Programs that exceed a limit stop by themselves before they harm a machine."""

from __future__ import annotations

import math
import time

from sandboxes.checks.assertions import (
    expect,
    expect_equal,
    expect_status,
    output_of,
    require_children,
    require_protection,
)
from sandboxes.provider import Sandbox
from sandboxes.types import MAX_LIMIT, Limits, Result, Status

GRACE_S = 1.0  # how late a call may return after its deadline


def expect_stop(sandbox: Sandbox, program: str, *statuses: Status, timeout_s: float = 10.0, **limits: float) -> Result:
    """Run a program that exceeds a limit; it must end in time with one of the statuses, and the next call must work.

    `limits` are fields of `Limits`. Returns the program's result; raises AssertionError, or NotApplicable where limits
    are given and the sandbox has none.
    """
    if limits:
        require_protection(sandbox)
    start = time.monotonic()
    result = sandbox.run(program, timeout_s=timeout_s, limits=Limits(**limits))  # type: ignore[arg-type]
    elapsed_s = time.monotonic() - start
    expect_status(result, *statuses)
    expect(elapsed_s < timeout_s + GRACE_S, f"it took {elapsed_s:.2f} s, of {timeout_s} s")
    expect_equal(output_of(sandbox, "print(1)"), "1")
    return result


def endless_loop(sandbox: Sandbox) -> None:
    """An endless loop is stopped at the deadline; its output until then is returned."""
    result = expect_stop(sandbox, "print('on', flush=True)\nwhile True: pass", Status.TIMEOUT, timeout_s=0.5)
    expect_equal((result.stdout, result.exit_code), ("on\n", None))


def endless_sleep(sandbox: Sandbox) -> None:
    """A program that sleeps is stopped at the deadline."""
    expect_stop(sandbox, "import time; time.sleep(1000)", Status.TIMEOUT, timeout_s=0.4)


def endless_c_code(sandbox: Sandbox) -> None:
    """An endless operation in C code is stopped at the deadline."""
    expect_stop(sandbox, "import sys; sys.set_int_max_str_digits(0); 7 ** 10 ** 9", Status.TIMEOUT, timeout_s=0.5)


def ignored_signals(sandbox: Sandbox) -> None:
    """A program that ignores every signal is stopped at the deadline."""
    program = (
        "import signal\nfor number in range(1, 65):\n    try: signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\nwhile True: pass"
    )
    expect_stop(sandbox, program, Status.TIMEOUT, timeout_s=0.5)


def cpu(sandbox: Sandbox) -> None:
    """CPU time is limited, whatever the wall time."""
    expect_stop(sandbox, "while True: pass", Status.CPU_LIMIT, cpu_s=0.3)


def cpu_of_all_processes(sandbox: Sandbox) -> None:
    """CPU time is counted for all processes together, also for those that have ended."""
    require_children(sandbox)
    program = (
        "import os, time\nwhile True:\n    if os.fork() == 0:\n        while time.process_time() < 0.1: pass\n"
        "        os._exit(0)\n    os.wait()"
    )
    expect_stop(sandbox, program, Status.CPU_LIMIT, cpu_s=0.25)


def memory(sandbox: Sandbox) -> None:
    """Memory is limited: the program is stopped, or gets a MemoryError."""
    program = "held = []\nfor _ in range(2048): held.append(bytearray(b'x' * (1 << 20)))"
    expect_stop(sandbox, program, Status.MEMORY_LIMIT, Status.FAILED, memory_mb=150)


def memory_of_all_processes(sandbox: Sandbox) -> None:
    """Memory is counted for all processes together."""
    require_protection(sandbox)
    require_children(sandbox)
    program = (
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        held = bytearray(b'x' * (60 << 20))\n"
        "        time.sleep(1)\n        os._exit(0)\nprint([os.wait()[1] for _ in range(8)].count(9))"
    )
    result = sandbox.run(program, limits=Limits(memory_mb=200, disk_mb=16))
    expect_status(result, Status.MEMORY_LIMIT, Status.OK)  # the kernel may end the children alone
    expect(not result.ok or int(result.stdout) >= 3, f"{result.stdout.strip()} of 8 were ended")


def stdout_size(sandbox: Sandbox) -> None:
    """Output over the limit stops the program; what fits is returned."""
    result = expect_stop(sandbox, "for _ in range(60000): print('x' * 1000)", Status.OUTPUT_LIMIT, output_kb=64)
    expect_equal(len(result.stdout), 64 << 10)


def stderr_size(sandbox: Sandbox) -> None:
    """Stderr over the limit stops the program."""
    expect_stop(
        sandbox, "import os\nfor _ in range(1000): os.write(2, b'x' * 65536)", Status.OUTPUT_LIMIT, output_kb=64
    )


def output_at_limit(sandbox: Sandbox) -> None:
    """Output of exactly the limit is accepted."""
    result = sandbox.run("import sys; sys.stdout.write('x' * 65536)", limits=Limits(output_kb=64))
    expect_equal((result.status, len(result.stdout)), (Status.OK, 65536))


def processes(sandbox: Sandbox) -> None:
    """The number of processes is limited, and none is left for the next call."""
    require_protection(sandbox)
    require_children(sandbox)
    program = (
        "import os, time\nn = 0\ntry:\n    while n < 500:\n        if os.fork() == 0: time.sleep(60)\n        n += 1\n"
        "except OSError as error:\n    print(n, error.errno)"
    )
    for _ in range(2):
        count, error = output_of(sandbox, program, limits=Limits(processes=20, memory_mb=1500)).split()
        expect(10 <= int(count) <= 20 and error == "11", f"{count} were started, then errno {error}")


def threads(sandbox: Sandbox) -> None:
    """Threads count as processes."""
    require_protection(sandbox)
    require_children(sandbox)
    program = (
        "import os, threading, time\nn = 0\ntry:\n    while n < 500:\n"
        "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n        n += 1\n"
        "except RuntimeError:\n    print(n, flush=True)\nos._exit(0)"
    )
    count = int(output_of(sandbox, program, limits=Limits(processes=20)))
    expect(10 <= count <= 20, f"{count} were started")


def disk(sandbox: Sandbox) -> None:
    """Disk space is limited for all folders together, and emptied for the next call."""
    require_protection(sandbox)
    require_children(sandbox)  # weaker tiers limit each file only
    program = (
        "n = 0\nfor d in ('.', '/tmp', '/dev/shm'):\n    try:\n        with open(d + '/x', 'wb', 0) as file:\n"
        "            while file.tell() < 64 << 20: n += file.write(b'x' * 65536)\n    except OSError: pass\n"
        "print(n >> 20)"
    )
    for _ in range(2):
        size_mb = int(output_of(sandbox, program, limits=Limits(disk_mb=8)))
        expect(6 <= size_mb <= 8, f"{size_mb} MB were written")


def file_count(sandbox: Sandbox) -> None:
    """The number of files is limited."""
    require_protection(sandbox)
    require_children(sandbox)
    program = "n = 0\ntry:\n    while n < 9999: open(f'x{n}', 'w').close(); n += 1\nexcept OSError: pass\nprint(n)"
    count = int(output_of(sandbox, program, limits=Limits(files=200)))
    expect(150 <= count <= 200, f"{count} were made")


def impossible_sizes(sandbox: Sandbox) -> None:
    """More memory than any machine has is refused as a wrong value, which the message names."""
    require_protection(sandbox)
    for name in ("memory_mb", "disk_mb", "output_kb"):
        try:
            sandbox.run("1", limits=Limits(**{name: MAX_LIMIT}))
        except ValueError as error:
            expect(name in str(error) and str(MAX_LIMIT) in str(error), f"{error} names neither {name} nor {MAX_LIMIT}")
            continue
        raise AssertionError(f"{name} = {MAX_LIMIT} was accepted")


def invalid_values(sandbox: Sandbox) -> None:
    """Limits and deadlines that are not above 0 are refused."""
    for name in ("cpu_s", "memory_mb", "processes", "disk_mb", "files", "output_kb"):
        try:
            Limits(**{name: 0})
        except ValueError as error:
            expect(name in str(error), f"{error} does not name {name}")
            continue
        raise AssertionError(f"{name} = 0 was accepted")
    for timeout_s in (0.0, math.nan, math.inf):
        try:
            sandbox.run("1", timeout_s=timeout_s)
        except ValueError:
            continue
        raise AssertionError(f"timeout_s = {timeout_s} was accepted")
