"""What credit costs: the time of every recipe's credit, as a share of one update of the bundled model.

    python -m benchmarks.credit_cost [--quick]

The episodes of one ordinary update are played; then each recipe credits these same groups and lays them out as rows,
in turn with plain GRPO, in CPU time. The update is the one they were played for: sampling, credit, optimiser step.
Forward passes that a recipe asks of models are left out here; `benchmarks.credit` has their share.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from benchmarks.support import record
from rl.cli import Parser, run, whole_number
from rl.learner import batch
from rl.methods import recipe as recipes
from rl.records import Group
from rl.settings import Settings
from rl.train.loop import Loop
from rl.train.session import Session

OUT = record.RESULTS / "credit_cost.json"
ENVIRONMENTS = ("games/GuessNumber-v0", "games/FrozenLake-v0", "math/Revise-v0")
CPU = torch.device("cpu")
WANTED = 0.03  # of an update, over plain GRPO
RECORDED = ("grpo_roc", "pivotrl", "starpo_s", "ui_s1")  # recipes that drop members or want a record to follow
STREAMS = ("value", "gain", "reply_advantage")


def main(argv: Sequence[str] | None = None) -> int:
    """Play, time, print and write; 1 where a recipe costs more than it may."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=whole_number(1), default=7, help="timed rounds (default: 7)")
    parser.add_argument("--quick", action="store_true", help="one environment, one round: does it work?")
    args, console = parser.parse_args(argv), Console(highlight=False, width=118)
    torch.set_num_threads(1)
    chosen = ENVIRONMENTS[:1] if args.quick else ENVIRONMENTS
    entries = [entry for env in chosen for entry in costs(env, 1 if args.quick else args.rounds)]
    worst = max(entries, key=lambda entry: entry["share"])
    record.show(
        f"credit beyond GRPO's, as a share of an update: at most {WANTED:.0%} is wanted",
        ("environment", "update, s", "GRPO's credit, ms", "dearest recipes (ms more, share)"),
        [
            (
                env,
                f"{own[0]['update_s']:.2f}",
                f"{1e3 * own[0]['plain_s']:.1f}",
                ", ".join(
                    f"{entry['recipe']} {1e3 * entry['more_s']:.1f} {entry['share']:.2%}"
                    for entry in sorted(own, key=lambda entry: -entry["share"])[:4]
                ),
            )
            for env in chosen
            if (own := [entry for entry in entries if entry["env"] == env])
        ],
        console,
    )
    if not args.quick:
        record.save(OUT, {**record.provenance(CPU, [0]), "wanted": WANTED, "costs": entries})
    return int(worst["share"] > WANTED)


def costs(env: str, rounds: int) -> list[dict[str, Any]]:
    """One entry per recipe: the seconds its credit takes more than GRPO's, and their share of an update."""
    groups, seconds = played(env)
    names = [name for name, _ in recipes.catalogue() if name not in RECORDED]
    rivals = {name: partial(batch.build_rows, groups, recipes.load(name)) for name in names}
    times = record.alternate(rivals, rounds, CPU)
    spent = {name: record.Spread.of([one.cpu for one in found]).median for name, found in times.items()}
    return [
        {
            "env": env,
            "recipe": name,
            "update_s": seconds,
            "plain_s": spent["grpo"],
            "more_s": spent[name] - spent["grpo"],
            "share": (spent[name] - spent["grpo"]) / seconds,
        }
        for name in names
    ]


class Recording(Session):
    """A session that keeps the groups of each update, and the CPU seconds of the process by then."""

    recorded: list[tuple[list[Group], float]]

    def _make_loop(self) -> Loop:
        self.recorded, loop = [], super()._make_loop()
        forward = loop.on_update

        def after(metrics: dict[str, float], groups: list[Group]) -> None:
            self.recorded.append((deepcopy(groups), time.process_time()))
            forward(metrics, groups)

        loop.on_update = after
        return loop


def played(env: str, **settings: Any) -> tuple[list[Group], float]:
    """The groups of the second update of a run, with all streams that credit may read, and its CPU seconds."""
    session = Recording(Settings(env=env, updates=2, eval_episodes=0, threads=1, **settings), recipes.load("grpo"))
    with tempfile.TemporaryDirectory() as folder:
        session.train(Path(folder) / "run")
    (_, began), (groups, ended) = session.recorded
    for turn in (turn for group in groups for member in group.trajectories for turn in member.turns):
        for name in STREAMS:
            turn.streams[name] = (0.0,) * len(turn.completion.ids)
        turn.metrics = {**turn.metrics, "redundancy": 0.0, "matched": 1.0}
    return groups, ended - began


if __name__ == "__main__":
    run(main)
