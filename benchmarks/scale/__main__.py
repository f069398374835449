"""What a schedule comes to: a simulation by the product's own scheduler, on a clock that does not wait.

    python -m benchmarks.scale                             # a reference table of schedules over long tails
    python -m benchmarks.scale --from RUN                  # the run itself, and other schedules and engines
    python -m benchmarks.scale --from RUN --compare RUN2   # another schedule of the same load, as it was measured

`RUN` is the folder of a run with `--mode sync` and `--rollouts all`. From it come the lengths of replies and of
environment steps, by group as they were played, the time of an update, and the speed of an engine as a function of
the requests that it has. More engines get as many more groups per update (`--fixed` leaves their number), and the
trainer is taken to grow with them, so that an update takes the time that it took. Each turn takes `--turn-ms` of the
run's own process, one turn after the other, which is what bounds the number of engines in the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.scale.measured import Measured, read_run
from benchmarks.scale.simulation import Outcome, Simulation
from benchmarks.scale.table import TABLE, simulate
from benchmarks.support.record import RESULTS, provenance, save, show
from rl.cli import Parser, real_number, run, user_input, whole_number
from rl.schedule import MODES
from rl.spec_paths import output_file

TURN_MS = 0.22  # of CPU time with workers: benchmarks/results/workers.json
COUNTS = (1, 2, 4, 16, 64, 256, 1024, 4096)
# Of a prediction. Where the run's own process is the limit, the groups of `--lag` + 1 updates end together, so that the
# updates after the warm-up should be a multiple of that: with 9 updates, 6 are.
WARM_UP = 1 / 3
MODES_AT_SCALE = ("sync", "one-step-off", "partial", "async")


def reference_table(seeds: int) -> list[dict[str, Any]]:
    """Return each cell of the reference table beside the simulated one."""
    found: list[dict[str, Any]] = []
    for (name, deviation), cell in TABLE.items():
        outcome = simulate(name, deviation, seeds=seeds)
        difference = outcome.throughput / cell.throughput - 1
        found.append(
            {
                **{"schedule": name, "deviation": deviation, "difference": difference},
                **{"table": cell._asdict(), "simulated": outcome._asdict()},
            }
        )
    return found


def compare(base: Measured, folders: Sequence[Path], turn_s: float, seeds: int) -> list[dict[str, Any]]:
    """Return measured and simulated groups per second and lag of runs, simulated by what `base` tells of the load."""
    found: list[dict[str, Any]] = []
    for folder in folders:
        real = read_run(folder, speed_of=base)
        count, updates = int(real.settings["engines"]), sum(1 for _ in (folder / "metrics.jsonl").open())
        load = base.load(count, turn_s=turn_s)
        simulations = [Simulation(load, real.schedule, updates, seed) for seed in range(seeds)]
        runs = [one.run() for one in simulations]
        later = [(updates - 1) * load.groups / (one.times[-1] - one.times[0]) for one in simulations]
        throughput = sum(later) / seeds  # of all updates but the first, as it is measured
        found.append(
            {
                **{"run": real.settings.get("mode") or folder.name, "engines": count, "updates": updates},
                **{"measured": real.throughput, "simulated": throughput, "ratio": throughput / real.throughput},
                **{"lag_measured": real.lag_mean, "lag_simulated": sum(one.lag_mean for one in runs) / seeds},
            }
        )
    return found


def predict(
    base: Measured, counts: Sequence[int], modes: Sequence[str], *, fixed: bool, turn_s: float, updates: int
) -> list[dict[str, Any]]:
    """Return what each schedule comes to with each number of engines."""
    found: list[dict[str, Any]] = []
    for count in counts:
        for mode in modes:
            times = 1.0 if fixed else count / base.settings["engines"]
            load = base.load(count, times=times, turn_s=turn_s)
            outcome: Outcome = Simulation(load, {"mode": mode}, updates, warm_up=WARM_UP).run()
            found.append({"engines": count, "mode": mode, "groups": load.groups, **outcome._asdict()})
            print(
                f"{count:>5} engines, {mode}: {outcome.steady:.3g} groups/s, mean lag {outcome.lag_mean:.2f}, "
                f"engines idle {outcome.engines_idle:.0%}, trainer idle {outcome.trainer_idle:.0%}",
                flush=True,
            )
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, print and write JSON."""
    parser = Parser(description=__doc__.partition("\n")[0])
    parser.add_argument("--from", dest="source", type=Path, metavar="RUN", help="folder of a synchronous run")
    parser.add_argument("--compare", type=Path, nargs="*", default=[], metavar="RUN", help="runs with other schedules")
    parser.add_argument("--engines", type=whole_number(1, 4096), nargs="+", default=list(COUNTS), metavar="N")
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES_AT_SCALE))
    parser.add_argument("--fixed", action="store_true", help="do not play more groups with more engines")
    parser.add_argument("--updates", type=whole_number(4), default=9, help="of each prediction (default: 9)")
    parser.add_argument("--seeds", type=whole_number(1), default=4, help="of the table and of comparisons (default: 4)")
    parser.add_argument(
        "--turn-ms", type=real_number(0), default=TURN_MS, help=f"of the run's process (default: {TURN_MS})"
    )
    parser.add_argument("--out", type=output_file, help="default: benchmarks/results/scale[_table].json")
    args = parser.parse_args(argv)
    if args.source is not None:
        _from_run(args)
    elif args.compare:
        parser.error("--compare: needs --from RUN, the synchronous run that tells how fast engines are")
    else:
        _table(args)
    return 0


def _table(args: argparse.Namespace) -> None:
    cells = reference_table(args.seeds)
    origin = provenance(torch.device("cpu"), range(args.seeds))
    save(args.out or RESULTS / "scale_table.json", {**origin, "cells": cells})
    rows = [
        (
            *(one["schedule"], f"{one['deviation']}", f"{one['table']['throughput']}"),
            *(f"{one['simulated']['throughput']:.2f}", f"{one['difference']:+.1%}"),
            *(f"{one['simulated']['slot_use']:.2f}", f"{one['simulated']['lag_mean']:.2f}"),
            f"{one['simulated']['lag_max']:.0f}",
        )
        for one in cells
    ]
    names = ("schedule", "deviation", "table", "simulated", "difference", "slots", "mean lag", "most")
    show(f"groups per 1000 units of time, {args.seeds} seeds", names, rows)


def _from_run(args: argparse.Namespace) -> None:
    turn_s = args.turn_ms / 1000
    with user_input():
        base = read_run(args.source)
        real = compare(base, [args.source, *args.compare], turn_s, args.seeds)
    rows = [
        (
            *(one["run"], f"{one['engines']}", f"{one['measured']:.3g}", f"{one['simulated']:.3g}"),
            *(f"{one['ratio'] - 1:+.0%}", f"{one['lag_measured']:.2f}", f"{one['lag_simulated']:.2f}"),
        )
        for one in real
    ]
    names = ("run", "engines", "measured", "simulated", "difference", "lag", "simulated")
    show("groups per second", names, rows)
    found = predict(base, args.engines, args.modes, fixed=args.fixed, turn_s=turn_s, updates=args.updates)
    fit = {"speed": base.speed._asdict(), "overhead_s": base.overhead_s, "train_s": base.train_s, "turn_s": turn_s}
    origin = provenance(torch.device("cpu"), range(args.seeds))
    save(args.out or RESULTS / "scale.json", {**origin, "fit": fit, "real": real, "predicted": found})


if __name__ == "__main__":
    run(main)
