"""How fast answers are graded, against calls of math-verify, and where the verdicts differ.

    python -m benchmarks.grading [--quick]

Both grade the same replies in one process and in turn, other replies in every round, as sympy remembers what it has
worked out; the CPU time of our workers counts as ours. "mixed" is a thousand replies, two hundred of each kind. Needs
the extra `math`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import torch
from rich.console import Console

from benchmarks.support import record
from benchmarks.support.answers import KINDS, Pair, pairs
from envs.grading.math import verify
from envs.grading.symbolic import workers
from rl.cli import Parser, run, whole_number
from rl.spec_paths import output_file

OUT = record.RESULTS / "grading.json"
WANTED = {"integers": 20.0, "fractions": 20.0, "decimals": 20.0, "mixed": 5.0}  # times as fast as math-verify
CPU = torch.device("cpu")
Grader = Callable[[Pair], bool]


def main(argv: Sequence[str] | None = None) -> int:
    """Grade, print and write; 1 where we are wrong and math-verify is right."""
    args, console = _parser().parse_args(argv), Console(highlight=False, width=118)
    number, rounds = (4, 1) if args.quick else (args.pairs, args.rounds)
    graders: dict[str, Grader] = {"ours": ours, "theirs": math_verify()}
    with _Pool():
        times = timed(number, graders, rounds, args.seed)
        verdicts = {kind: compared(pairs(kind, number, args.seed), graders) for kind in KINDS}
    races = [raced(name, found, number * (len(KINDS) if name == "mixed" else 1)) for name, found in times.items()]
    if args.quick:
        races = [race | {"met": None} for race in races]
    result = {
        **record.provenance(CPU, [args.seed]),
        "pairs_per_kind": number,
        "rounds": rounds,
        "judged_by": "cpu",
        "races": races,
        "verdicts": verdicts,
    }
    _show(races, verdicts, console)
    if out := args.out or (None if args.quick else OUT):
        record.save(out, result)
    return int(any(found["only_theirs_right"] for found in verdicts.values()))


def ours(pair: Pair) -> bool:
    """The verdict of `envs.grading.math.verify`."""
    return verify(pair.reply, pair.gold).flexible


def math_verify() -> Grader:
    """What its documentation shows: parse both, verify."""
    from math_verify import parse
    from math_verify import verify as equal

    def grade(pair: Pair) -> bool:
        return bool(equal(parse(f"${pair.gold}$"), parse(pair.reply)))

    return grade


def compared(asked: Sequence[Pair], graders: dict[str, Grader]) -> dict[str, Any]:
    """How often each is right, and the replies on which they differ; `methods` counts what decided ours."""
    found = [(pair, {name: grade(pair) for name, grade in graders.items()}) for pair in asked]
    differ = [
        {"gold": pair.gold, "reply": pair.reply, "is_right": pair.is_right, **said}
        for pair, said in found
        if said["ours"] != said["theirs"]
    ]
    return {
        "right": {name: sum(said[name] == pair.is_right for pair, said in found) for name in graders},
        "asked": len(asked),
        "only_theirs_right": sum(one["theirs"] == one["is_right"] for one in differ),
        "methods": Counter(verify(pair.reply, pair.gold).method for pair in asked),
        "disagreements": differ,
    }


def timed(number: int, graders: dict[str, Grader], rounds: int, seed: int) -> dict[str, dict[str, list[record.Timing]]]:
    """Seconds for `number` replies of each kind by each grader, round by round; "mixed" is their sum."""
    times: dict[str, dict[str, list[record.Timing]]] = {}
    for kind in KINDS:
        players = {name: _Player(grade, kind, number, seed) for name, grade in graders.items()}
        found = record.alternate(players, rounds, CPU)
        times[kind] = {
            name: [
                record.Timing(one.cpu + more, one.wall)
                for one, more in zip(found[name], players[name].in_workers[1:], strict=True)
            ]
            for name in graders
        }
    times["mixed"] = {
        name: [
            record.Timing(sum(one.cpu for one in together), sum(one.wall for one in together))
            for together in zip(*(times[kind][name] for kind in KINDS), strict=True)
        ]
        for name in graders
    }
    return times


class _Player:
    """Grades the next round's replies at each call; all players have the same ones."""

    def __init__(self, grade: Grader, kind: str, number: int, seed: int) -> None:
        self.grade, self.in_workers = grade, list[float]()
        self.rounds = (pairs(kind, number, derived) for derived in count(seed + 1))

    def __call__(self) -> None:
        before = worker_seconds()
        for pair in next(self.rounds):
            self.grade(pair)
        self.in_workers.append(worker_seconds() - before)


def raced(name: str, times: dict[str, list[record.Timing]], number: int) -> dict[str, Any]:
    """One line of the table: microseconds of CPU time for an answer, and how many times as fast we are."""
    ratio = record.ratios(times["theirs"], times["ours"])
    wanted = WANTED.get(name)
    each = {side: record.Spread.of([1e6 * one.cpu / number for one in found]) for side, found in times.items()}
    return {
        "name": name,
        "answers": number,
        "us_per_answer": each,
        "ratio": ratio,
        "target": wanted,
        "met": None if wanted is None else ratio["cpu"].median >= wanted,
    }


def worker_seconds() -> float:
    """CPU seconds that our worker processes have used so far."""
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in workers().pids)  # 2: CPUCLOCK_SCHED


class _Pool:
    """Workers that are started before anything is timed, and stopped in the end."""

    def __enter__(self) -> None:
        workers().open()
        verify("\\boxed{\\sin(x)}", "\\cos(x)")

    def __exit__(self, *_: object) -> None:
        workers().close()


def _show(races: Sequence[dict[str, Any]], verdicts: dict[str, dict[str, Any]], console: Console) -> None:
    rows = []
    for found in races:
        each, spread = found["us_per_answer"], found["ratio"]["cpu"]
        rows.append(
            [
                found["name"],
                f"{each['ours'].median:,.0f}",
                f"{each['theirs'].median:,.0f}",
                f"{spread.median:.1f} ({spread.least:.1f}-{spread.most:.1f})",
                f">= {found['target']:g}" if found["target"] else "",
                {True: "yes", False: "NO", None: "-"}[found["met"]],
            ]
        )
    columns = ("answers", "ours, us", "math-verify, us", "times as fast (range)", "target", "met")
    record.show("CPU time for an answer", columns, rows, console)
    lines = [
        [
            kind,
            *(f"{said['right'][side]}/{said['asked']}" for side in ("ours", "theirs")),
            str(said["only_theirs_right"]),
        ]
        for kind, said in verdicts.items()
    ]
    record.show("Right verdicts", ("answers", "ours", "math-verify", "only math-verify's"), lines, console)


def _parser() -> Parser:
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=whole_number(1), default=200, help="replies of each kind (default: 200)")
    parser.add_argument("--rounds", type=whole_number(1), default=3, help="timed rounds (default: 3)")
    parser.add_argument("--seed", type=whole_number(0), default=0, help="of the replies (default: 0)")
    parser.add_argument("--quick", action="store_true", help="one round of very little: does it work?")
    parser.add_argument("--out", type=output_file, help=f"file of the result (default: {OUT.name})")
    return parser


if __name__ == "__main__":
    run(main)
