"""Whether a sandbox is the same after many calls, some of them hostile: as fast, as small, and nothing left behind."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from sandboxes import Limits, Sandbox

HOSTILE_EVERY = 50
SLOWER, GROWTH_MB = 0.9, 8.0  # the last tenth's rate over the first's at the least; growth of all processes at the most
LIMITS = Limits(memory_mb=200, disk_mb=8, processes=16, output_kb=64)
HOSTILE = (
    "while True: pass",
    "import os\nif os.fork() == 0:\n    os.setsid(); os.execv('/bin/sleep', ['sleep', '60'])",
    "import os\nfor _ in range(20): os.fork()",
    "while True: print('x' * 10000)",
    "held = []\nwhile True: held.append(bytearray(b'x' * (1 << 20)))",
    "import os; os.kill(-1, 9)",
    "open('x', 'wb').write(b'x' * (9 << 20))",
    "import signal, time\nfor n in (1, 2, 3, 13, 14, 15, 17): signal.signal(n, signal.SIG_IGN)\ntime.sleep(60)",
)


class State(NamedTuple):
    """What the sandbox and this process hold."""

    processes: int
    zombies: int
    descriptors: int
    host_mb: float
    below_mb: float  # of all processes below this one, what they share counted once


def long_use(sandbox: Sandbox, calls: int, at_once: int = 2) -> dict[str, Any]:
    """Make that many calls, every `HOSTILE_EVERY`th one hostile. Raises ValueError where a harmless one goes wrong."""

    def call(number: int) -> None:
        if number % HOSTILE_EVERY == HOSTILE_EVERY - 1:
            hostile = HOSTILE[number // HOSTILE_EVERY % len(HOSTILE)]
            sandbox.run(hostile, limits=LIMITS, timeout_s=0.3)
            return
        result = sandbox.run(f"print({number})", limits=LIMITS, timeout_s=60)
        if result.stdout != f"{number}\n":
            raise ValueError(f"call {number}: {result}")

    with ThreadPoolExecutor(at_once) as threads:
        _all(
            threads.map(call, range(len(HOSTILE) * HOSTILE_EVERY))
        )  # every place is opened, every page is where it stays
        before, tenths = settled(), []
        for tenth in range(10):
            numbers = range(tenth * calls // 10, (tenth + 1) * calls // 10)
            began = time.perf_counter()
            _all(threads.map(call, numbers))
            tenths.append(len(numbers) / (time.perf_counter() - began))
        after = settled()
    growth_mb = after.host_mb - before.host_mb + after.below_mb - before.below_mb
    is_left = after.zombies or after.descriptors > before.descriptors or after.processes > before.processes
    return {
        "calls": calls,
        "hostile_every": HOSTILE_EVERY,
        "at_once": at_once,
        "first_tenth_per_s": tenths[0],
        "last_tenth_per_s": tenths[-1],
        "tenths_per_s": tenths,
        "before": before._asdict(),
        "after": after._asdict(),
        "growth_mb": growth_mb,
        "met": not is_left and tenths[-1] >= SLOWER * tenths[0] and growth_mb <= GROWTH_MB,
    }


def settled() -> State:
    """The state once processes and descriptors are the same for half a second: places are emptied after the answer."""
    last, since = state(), time.monotonic()
    while time.monotonic() < since + 0.5:
        time.sleep(0.05)
        now = state()
        if now[:3] != last[:3]:
            since = time.monotonic()
        last = now
    return last


def state() -> State:
    """What is held now."""
    below = descendants(os.getpid())
    statuses = [_read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] for pid in below]
    descriptors = 0
    for pid in ("self", *below):
        with suppress(OSError):
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))
    host_kb = _kilobytes("Rss", _read("/proc/self/smaps_rollup"))
    below_kb = sum(_kilobytes("Pss", _read(f"/proc/{pid}/smaps_rollup")) for pid in below)
    return State(len(below), statuses.count(["Z"]), descriptors, host_kb / 1024, below_kb / 1024)


def descendants(pid: int) -> list[int]:
    """All processes below one, ended ones that nobody has collected included."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(str(path)).split():
            found += [int(child), *descendants(int(child))]
    return found


def _kilobytes(name: str, text: str) -> int:
    found = re.search(rf"^{name}: +(\d+) kB", text, re.MULTILINE)
    return int(found[1]) if found else 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _all(results: Iterable[None]) -> None:
    for _ in results:
        pass
