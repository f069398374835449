"""How many calls a second a sandbox serves, against the ways in which others run code that nobody trusts.

    python -m benchmarks.sandboxes [--quick]

All rivals run the same program and must print the same. They take turns, so that they meet the same machine; a ratio is
calls per second over calls per second, by the wall, round by round. The sandbox is `local` with everything on. Rivals:
a process per call without any protection (as it is written, and with Python's start made as short as it can be), a
`bwrap` per call, and a cell of `ipykernel`; those that are not installed are left out, and named.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from rich.console import Console

import sandboxes
from benchmarks import record
from rl.cli import Parser, output_file, run, whole_number
from sandboxes import Sandbox, SandboxUnavailable

OUT = record.RESULTS / "sandboxes.json"
CPU = torch.device("cpu")
TRIVIAL, TRIVIAL_SAYS = "print(6 * 7)", "42\n"
SYMPY = "import sympy\nx = sympy.symbols('x')\nprint(sympy.expand((x + 1)**3))"
SYMPY_SAYS = "x**3 + 3*x**2 + 3*x + 1\n"
BWRAP = (
    "bwrap --unshare-all --die-with-parent --new-session --clearenv --setenv PATH /usr/bin:/bin "
    "--ro-bind / / --proc /proc --dev /dev --tmpfs /tmp --cap-drop ALL"
)
P99_MS, AT_ONCE = 50.0, 8
MARKS = {True: "yes", False: "NO", None: "-"}
Call = Callable[[], str]


def main(argv: Sequence[str] | None = None) -> int:
    """Race, print and write; 2 where this machine cannot give the sandbox."""
    args, console = _parser().parse_args(argv), Console(highlight=False, width=118)
    calls, rounds = (10, 1) if args.quick else (args.calls, args.rounds)
    try:
        sandbox = sandboxes.open("local")
    except SandboxUnavailable as fault:
        console.print(f"error: {fault}")
        return 2
    with sandbox:
        shelter = sandbox.shelter
        absent: list[str] = []
        races = [line for race in planned(sandbox, absent) for line in held(race, calls, rounds)]
        wait = waits(sandbox, calls * 4)
    if args.quick:
        races, wait = [race | {"met": None} for race in races], wait | {"met": None}
    result = {
        **record.provenance(CPU, []),
        "tier": shelter.tier,
        "memory": shelter.memory,
        "calls": calls,
        "rounds": rounds,
        "judged_by": "wall",
        "absent": absent,
        "races": races,
        "waits": wait,
    }
    _show(races, wait, absent, console)
    if out := args.out or (None if args.quick else OUT):
        record.save(out, result)
    return 0


@dataclass(frozen=True)
class Race:
    """Our call and others', which must print the same; `target` is the wanted ratio for some of the rivals."""

    name: str
    says: str
    ours: Call
    rivals: dict[str, Call]
    target: dict[str, float]
    at_once: int = 1
    share: float = 1.0  # of the number of calls: for slow rivals


def planned(sandbox: Sandbox, absent: list[str]) -> Iterator[Race]:
    """The races that can be held here; `absent` is told the others."""
    python = sys.executable
    rivals: dict[str, Call] = {
        "a process": lambda: process([python, "-c", TRIVIAL]),
        "a process, python -I -S": lambda: process([python, "-I", "-S", "-c", TRIVIAL]),
    }
    if shutil.which("bwrap"):
        rivals["bwrap"] = lambda: process([*BWRAP.split(), python, "-c", TRIVIAL])
    else:
        absent.append("bwrap is not installed")
    for at_once in (1, 2):
        target = {"a process": 3.0, "bwrap": 6.0}
        yield Race("a call", TRIVIAL_SAYS, lambda: sandbox.run(TRIVIAL).stdout, rivals, target, at_once)
    if find_spec("sympy"):
        rivals = {"a process": lambda: process([python, "-c", SYMPY])}
        target = {"a process": 100.0}
        yield Race("a sympy call", SYMPY_SAYS, lambda: sandbox.run(SYMPY).stdout, rivals, target, 2, share=0.1)
    else:
        absent.append("sympy is not installed")
    session = sandbox.session()
    with jupyter(absent) as cell:
        rivals = {"ipykernel": cell} if cell else {}
        yield Race("a cell", TRIVIAL_SAYS, lambda: session.cell(TRIVIAL).stdout, rivals, {"ipykernel": 5.0})
    session.close()


def process(command: Sequence[str]) -> str:
    """What a new process printed."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def held(race: Race, calls: int, rounds: int) -> list[dict[str, Any]]:
    """One line of the table for each rival. Raises ValueError where a rival prints something else."""
    players = {"ours": race.ours, **race.rivals}
    for player, call in players.items():
        if (said := call()) != race.says:
            raise ValueError(f"{race.name}: {player} printed {said!r}")
    few = max(4, round(race.share * calls))
    counts = {player: 10 * few if player == "ours" else few for player in players}
    with ThreadPoolExecutor(race.at_once) as threads:
        turns = {player: partial(many, threads, call, counts[player]) for player, call in players.items()}
        found = record.alternate(turns, rounds, CPU)
    each = {
        player: [record.Timing(one.cpu / counts[player], one.wall / counts[player]) for one in times]
        for player, times in found.items()
    }
    rates = {player: record.Spread.of([1 / one.wall for one in times]) for player, times in each.items()}
    about = {"name": race.name, "at_once": race.at_once, "calls_per_s": rates["ours"], "rival": None, "met": None}
    lines = []
    for rival in race.rivals:
        ratio, target = record.ratios(each[rival], each["ours"])["wall"], race.target.get(rival)
        met = None if target is None else ratio.median >= target
        line = {"rival": rival, "theirs_per_s": rates[rival], "ratio": ratio, "target": target, "met": met}
        lines.append(about | line)
    return lines or [about]


def many(threads: ThreadPoolExecutor, call: Call, number: int) -> None:
    """Make a number of calls, as many at once as there are threads."""
    for _ in threads.map(lambda _: call(), range(number)):
        pass


def waits(sandbox: Sandbox, calls: int) -> dict[str, Any]:
    """How long single calls take where several are made at once."""

    def timed(_: int) -> float:
        began = time.perf_counter()
        sandbox.run(TRIVIAL)
        return 1e3 * (time.perf_counter() - began)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(timed, range(AT_ONCE)))
        found = sorted(threads.map(timed, range(calls)))
    p99 = found[min(len(found) - 1, int(0.99 * len(found)))]
    return {"at_once": AT_ONCE, "calls": calls, "p50_ms": found[len(found) // 2], "p99_ms": p99, "met": p99 < P99_MS}


@contextmanager
def jupyter(absent: list[str]) -> Iterator[Call | None]:
    """A call that runs one cell in an ipykernel, or None where there is none."""
    if not (find_spec("ipykernel") and find_spec("jupyter_client")):
        absent.append("ipykernel is not installed")
        yield None
        return
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel()

    def cell() -> str:
        printed: list[str] = []
        client.execute_interactive(TRIVIAL, output_hook=lambda said: printed.append(said["content"].get("text", "")))
        return "".join(printed)

    try:
        yield cell
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _show(races: Sequence[dict[str, Any]], wait: dict[str, Any], absent: Sequence[str], console: Console) -> None:
    rows = []
    for found in races:
        if found["rival"] is None:
            rows.append([found["name"], str(found["at_once"]), f"{found['calls_per_s'].median:,.0f}", *[""] * 4, "-"])
            continue
        spread = found["ratio"]
        rows.append(
            [
                found["name"],
                str(found["at_once"]),
                f"{found['calls_per_s'].median:,.0f}",
                found["rival"],
                f"{found['theirs_per_s'].median:,.1f}",
                f"{spread.median:.1f} ({spread.least:.1f}-{spread.most:.1f})",
                f">= {found['target']:g}" if found["target"] else "",
                MARKS[found["met"]],
            ]
        )
    columns = ("ours", "at once", "per s", "rival", "its per s", "times as many (range)", "target", "met")
    record.show("Calls per second", columns, rows, console)
    row = [
        f"{wait['at_once']} at once",
        f"{wait['p50_ms']:.1f}",
        f"{wait['p99_ms']:.1f}",
        f"< {P99_MS:g}",
        MARKS[wait["met"]],
    ]
    record.show("How long a call takes", ("calls", "median, ms", "p99, ms", "target", "met"), [row], console)
    for line in absent:
        console.print(f"left out: {line}")


def _parser() -> Parser:
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=whole_number(1), default=100, help="of a rival, per round (default: 100)")
    parser.add_argument("--rounds", type=whole_number(1), default=5, help="timed rounds (default: 5)")
    parser.add_argument("--quick", action="store_true", help="one round of very little: does it work?")
    parser.add_argument("--out", type=output_file, help=f"file of the result (default: {OUT.name})")
    return parser


if __name__ == "__main__":
    run(main)
