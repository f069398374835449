"""Does credit per turn, per state, by information or over a tree help? Each method against its parent, seed by seed.

    python -m benchmarks.credit --runs DIR                    # all of them, 5 seeds; goes on where it was stopped
    python -m benchmarks.credit --only revise --seeds 7

How runs are made and compared: `benchmarks.compare.arms`. Other methods are compared by `benchmarks.methods`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.compare.arms import run_all, show_table
from benchmarks.compare.comparisons import COMPARISONS
from benchmarks.support.record import provenance
from rl.cli import Parser, run, whole_number


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, print the table, write JSON and plot."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=[*COMPARISONS], action="append", help="this comparison; repeatable")
    parser.add_argument("--seeds", type=whole_number(2), default=5)
    parser.add_argument("--jobs", type=whole_number(1), default=2, help="runs at a time, one thread each")
    parser.add_argument("--runs", metavar="DIR", help="where finished runs are kept (default: a temporary folder)")
    args = parser.parse_args(argv)
    home = Path(args.runs or tempfile.mkdtemp(prefix="credit-"))
    home.mkdir(parents=True, exist_ok=True)
    origin = provenance(torch.device("cpu"), range(args.seeds))
    comparisons = {name: COMPARISONS[name] for name in args.only or COMPARISONS}
    entries = run_all(comparisons, kind="credit", seeds=args.seeds, jobs=args.jobs, home=home, origin=origin)
    show_table(entries, args.seeds)
    return 0


if __name__ == "__main__":
    run(main)
