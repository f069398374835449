"""Does self-play approach an equilibrium? Exact exploitability in Kuhn poker, of a table of logits and of the model.

    python -m benchmarks.seats.self_play --policy table            # every arm, five seeds
    python -m benchmarks.seats.self_play --policy tiny --only pull # the bundled model; results of other arms stay
    python -m benchmarks.seats.self_play --policy tiny --runs DIR  # goes on where it was stopped

Both run through the same loop, rollout, strategy and recipe parts, one group for each deal and seat. The table
replaces engine, agent and learner (`benchmarks.support.table_policy`), so that what the rule of learning does can be
told from what a network makes of it. Exploitability is NashConv / 2, in chips a hand: that of uniform play is 0.458, of
always betting 0.333, of an equilibrium 0. `last` is that of the weights at the end; `late`, the mean of the last five
points of the curve; `mixture`, that of drawing one of all points of the curve for each seat before a game, as
fictitious play does.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.seats.mixture import mixture
from benchmarks.support.record import RESULTS, commit, provenance, save, show
from benchmarks.support.runs import interval, train
from benchmarks.support.self_play_arms import ENV, FIELDS, Arm, Field
from benchmarks.support.table_policy import Table, TableAgent, TableEngine, TableLearner
from envs.multi import game_tree
from envs.multi.kuhn import Kuhn
from rl.cli import Parser, run, whole_number
from rl.evaluate.seats.exploitability import ModelStrategy
from rl.learner.scorer import ModelScorer
from rl.methods.parts.sampler import History
from rl.records import SamplingParams
from rl.rollout.roles import Role
from rl.rollout.runner import Runner
from rl.settings import Settings
from rl.train.loop import Loop, Plan
from rl.train.progress import Progress
from rl.train.seats.trainees import Trainee
from rl.train.session import Session

Strategy = Mapping[str, Sequence[float]]  # probabilities of the legal words by information state
LATE = 5  # points of the curve
MEASURES = ("start", "last", "late", "mixture", "legal")


def play_table(arm: Arm, shared: Field, seed: int, updates: int, note: Callable[[int, Strategy], None]) -> None:
    """Train a table by the loop of `rl.train`; `note` is called with the number of updates and the strategy."""
    settings = {**shared.settings, **arm.settings}
    table = Table(game_tree.information_states(game_tree.build_tree(Kuhn(style="short"))))
    engine, learner = TableEngine(table), TableLearner(table, lr=settings["lr"])
    runner = Runner(
        lambda: Kuhn(style="short"),  # type: ignore[arg-type,return-value]
        lambda: TableAgent(table),
        engine,
        SamplingParams(1),
        64,
        seats=tuple(Kuhn.seats),
    )

    def on_update(metrics: dict[str, float], groups: Sequence[Any]) -> None:
        if int(metrics["update"]) % shared.every == 0:
            note(int(metrics["update"]), table.strategy())

    loop = Loop(
        runner,
        [Trainee(Role("", runner.seats), learner, ModelScorer(learner, None), engine, None)],  # type: ignore[arg-type]
        arm.recipe(),
        Plan(settings["groups"], settings["size"], seed, updates),
        Progress(History(len(Kuhn(style="short").load("train")))),
        sync_weights=engine.sync_weights,
        on_update=on_update,
    )
    note(0, table.strategy())
    try:
        asyncio.run(loop.run(updates))
    finally:
        runner.close()


class Measured(Session):
    """A training run of the bundled model that notes its strategy."""

    every: int
    note: Callable[[int, Strategy, float], None]

    def measure(self) -> None:
        """Read the present strategy from the model's probabilities."""
        strategy = ModelStrategy.of(Kuhn(style="short"), self)  # type: ignore[arg-type]
        self.note(self.progress.update, self.strategy_of(strategy), min(strategy.masses.values()))

    @staticmethod
    def strategy_of(strategy: ModelStrategy) -> Strategy:
        """The probabilities without the words."""
        return {information: [*odds.values()] for information, odds in strategy.odds.items()}

    def make_agent(self) -> Any:
        """The agent of an episode, as `ModelStrategy` asks for it."""
        return self._make_agent()

    def _make_loop(self) -> Loop:
        loop = super()._make_loop()
        forward = loop.on_update
        self.measure()

        def after(metrics: dict[str, float], groups: list[Any]) -> None:
            forward(metrics, groups)
            if self.progress.update % self.every == 0:
                self.measure()

        loop.on_update = after
        return loop


def play_model(
    arm: Arm, shared: Field, seed: int, updates: int, note: Callable[[int, Strategy, float], None], home: Path
) -> None:
    """Train the bundled model by `rl.train`."""
    folder = home / "start"
    if not (folder / "summary.json").exists():
        train([*shared.start, "--updates", "0"], 0, folder, home / "cache")
    model = str(folder / "checkpoints" / "latest" / "model")
    fixed: dict[str, Any] = {"eval_episodes": 0, "threads": 1, "rollouts": "none", "logger": "none"}
    values = {**fixed, **shared.settings, **arm.settings}
    settings = Settings(env=ENV, model=model, updates=updates, seed=seed, **values)
    session = Measured(settings, arm.recipe())
    session.every, session.note = shared.every, note
    with tempfile.TemporaryDirectory(dir=home) as out:
        session.train(Path(out) / "run")


def one(policy: str, name: str, seed: int, updates: int, home: Path) -> dict[str, Any]:
    """Train one arm on one seed; its curve and the exploitability of the mixture. Kept in `home`."""
    kept = home / f"{policy}-{name}-{updates}-{seed}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    shared = FIELDS[policy]
    arm = shared.arms[name]
    tree = game_tree.build_tree(Kuhn(style="short"))
    points: list[dict[str, Any]] = []
    strategies: list[game_tree.Policy] = []

    def note(update: int, strategy: Strategy, legal: float = 1.0) -> None:
        own = {information: [*odds] for information, odds in strategy.items()}
        strategies.append(lambda information, words: own[information])
        points.append(
            {
                "update": update,
                "exploitability": game_tree.exploitability(tree, strategies[-1]),
                "mixture": game_tree.exploitability(tree, mixture(tree, strategies)),
                "legal": legal,
            }
        )
        points[-1]["strategy"] = {information: odds[0] for information, odds in own.items()}

    began = time.process_time()  # without the start, which is another process
    if policy == "table":
        play_table(arm, shared, seed, updates, note)
    else:
        play_model(arm, shared, seed, updates, note, home)
    for point in points[:-1]:
        del point["strategy"]  # that of the end is enough
    found = {
        "seed": seed,
        "commit": commit(),
        "cpu_seconds": round(time.process_time() - began, 1),
        "start": points[0]["exploitability"],
        "last": points[-1]["exploitability"],
        "late": float(np.mean([point["exploitability"] for point in points[-LATE:]])),
        "mixture": points[-1]["mixture"],
        "legal": points[-1]["legal"],
        "curve": points,
    }
    print(
        f"{policy} {name} seed {seed}: {found['start']:.3f} -> {found['last']:.3f}, last {LATE} points "
        f"{found['late']:.3f}, mixture {found['mixture']:.3f}, {found['cpu_seconds']:.0f} s",
        flush=True,
    )
    kept.write_text(json.dumps(found))
    return found


def summarise(runs: Mapping[str, Sequence[Mapping[str, Any]]], arms: Mapping[str, Arm]) -> dict[str, Any]:
    """Mean, highest value and 95 % interval over seeds of each measure, arm by arm."""
    return {
        name: {
            "about": arms[name].about,
            "seeds": len(found),
            **{
                key: {"mean": float(np.mean(values)), "most": max(values), "interval": interval(values)}
                for key in MEASURES
                if (values := [one[key] for one in found])
            },
            "cpu_seconds": float(np.mean([one["cpu_seconds"] for one in found])),
        }
        for name, found in runs.items()
    }


def plot(runs: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    """The mean curve of each arm over seeds, with their range: the weights themselves, and the mixture so far."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9.6, 3.8), sharey=True)
    for axis, key, title in zip(axes, ("exploitability", "mixture"), ("last weights", "mixture so far"), strict=True):
        for name, found in runs.items():
            updates = [point["update"] for point in found[0]["curve"]]
            values = np.array([[point[key] for point in one["curve"]] for one in found])
            (line,) = axis.plot(updates, values.mean(0), lw=1.4, label=name)
            axis.fill_between(updates, values.min(0), values.max(0), alpha=0.12, color=line.get_color())
        axis.set(xlabel="update", title=title, ylim=(0, None))
    axes[0].set_ylabel("exploitability, chips a hand")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, print the table, write JSON and plot."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--policy", choices=[*FIELDS], required=True)
    parser.add_argument("--only", action="append", metavar="ARM", help="this arm; repeatable")
    parser.add_argument("--seeds", type=whole_number(1), default=5)
    parser.add_argument("--updates", type=whole_number(1), help="instead of the usual number")
    parser.add_argument("--runs", metavar="DIR", help="where finished runs are kept (default: a temporary folder)")
    args = parser.parse_args(argv)
    arms = FIELDS[args.policy].arms
    if unknown := [name for name in args.only or () if name not in arms]:
        parser.error(f"--only {unknown[0]}: the arms of {args.policy} are {', '.join(arms)}")
    home = Path(args.runs or tempfile.mkdtemp(prefix="self-play-"))
    home.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TURNWISE_CACHE", str(home / "cache"))
    torch.set_num_threads(1)
    updates = args.updates or FIELDS[args.policy].updates
    out = RESULTS / f"self_play-{args.policy}.json"
    earlier = json.loads(out.read_text())["runs"] if out.exists() and args.only else {}
    names = args.only or [*arms]
    runs = {name: [one(args.policy, name, seed, updates, home) for seed in range(args.seeds)] for name in names}
    show(
        f"exploitability in {ENV}, {args.policy}, {args.seeds} seeds: mean (highest)",
        ("arm", "start", "last", f"last {LATE} points", "mixture", "CPU seconds"),
        [
            (
                name,
                *(f"{entry[key]['mean']:.3f} ({entry[key]['most']:.3f})" for key in MEASURES[:-1]),
                f"{entry['cpu_seconds']:.0f}",
            )
            for name, entry in summarise(runs, arms).items()
        ],
    )
    runs = {name: found for name in arms if (found := {**earlier, **runs}.get(name))}
    origin = provenance(torch.device("cpu"), range(args.seeds))
    save(out, {**origin, "env": ENV, "updates": updates, "summary": summarise(runs, arms), "runs": runs})
    plot(runs, out.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    run(main)
