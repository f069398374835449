"""What a turn is worth to IGPO: how much likelier the true answer gets when a turn reveals a fact, and elsewhere.

    python -m benchmarks.turn_gain                         # trains a start of the bundled model: about a minute
    python -m benchmarks.turn_gain --model RUN             # a trained one, such as the folder of a run

The oracle plays held-out tasks and makes its first reply twice, so that one turn of each episode reveals nothing. A
turn reveals a fact if the environment's own metric `gain` is above 0. Its information gain is the difference that it
makes to the answer's mean token probability (IGPO, arXiv:2510.14967). An episode's last turn has none and is left out.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from rich.console import Console

import envs
from agents.scripted import oracle
from benchmarks.support import record
from benchmarks.support.runs import interval, train
from envs.types import Message
from rl.cli import Parser, run, whole_number
from rl.evaluate.runner import count_tasks, tickets
from rl.learner.learner import Learner
from rl.learner.scorer import ModelScorer
from rl.methods.parts.score import answer_gain
from rl.policy.model_config import max_sequence_length
from rl.policy.pretrained import load_pretrained
from rl.prompt_options import PromptOptions
from rl.records import Group
from rl.rollout.scripted import play_script, tokenize
from rl.spec_paths import output_file

ENV = "tools/Clarify-v0"
START = ["--turn-tokens", "24", "--cold-start", "4000", "--cold-start-until", "0.3", "--updates", "0"]
KINDS = ("reveals a fact", "repeats the turn before")


def oracle_with_repetition(env: gymnasium.Env, seed: int) -> Iterator[Message]:
    """Yield the oracle's replies, the first of them twice."""
    replies = oracle(env, seed)
    first = next(replies)
    yield first
    yield deepcopy(first)
    yield from replies


def gains(env_id: str, model_name: str, num_tasks: int) -> dict[str, list[float]]:
    """Return the information gains of all turns but the last of each episode, by `KINDS`."""
    model, tokenizer = load_pretrained(model_name)
    prompts = PromptOptions(style="short")
    renderer = prompts.make_renderer(tokenizer, model, max_sequence_length(model))
    learner = Learner(model, lr=0.0, microbatch_tokens=16_384)
    groups = []
    with envs.make(env_id, style="short") as env:
        for ticket in tickets(count_tasks(env), num_tasks, 1, seed=0):
            played = play_script(env, ticket, oracle_with_repetition)
            if played.error or not played.success:
                raise RuntimeError(f"{env_id}: the oracle failed on task {ticket.index}: {played.error}")
            groups.append(Group(ticket, [tokenize(played, prompts.make_agent(renderer), renderer.write)]))
    asyncio.run(answer_gain(ModelScorer(learner, renderer), groups))
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for group in groups:
        for turn in group.trajectories[0].turns[:-1]:
            if "gain" not in turn.metrics:
                raise ValueError(f"--env {env_id}: its turns have no metric `gain`, such as those of {ENV}")
            kind = KINDS[0] if turn.metrics["gain"] > 0 else KINDS[1]
            found[kind].append(float(turn.streams["gain"][-1]))
    if not all(found.values()):
        raise ValueError(
            f"--env {env_id}: no turn {KINDS[0 if not found[KINDS[0]] else 1]}, so nothing can be compared"
        )
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Train if need be, measure, print and write."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--env", metavar="ID", default=ENV, help=f"an environment with the metric `gain` (default: {ENV})"
    )
    parser.add_argument("--model", metavar="RUN", help="a model (default: the bundled one after a cold start)")
    parser.add_argument("--tasks", type=whole_number(2), default=60, help="held-out tasks (default: 60)")
    parser.add_argument("--out", type=output_file, help="file of the result (default: benchmarks/results)")
    args, console = parser.parse_args(argv), Console(highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or str(Path(folder, "start"))
        if not args.model:
            train(["--env", args.env, *START], 0, Path(model), Path(folder, "cache"))
        found = gains(args.env, model, args.tasks)
    result: dict[str, Any] = {"env": args.env, "model": args.model or " ".join(["cold start:", *START])}
    result["gains"] = {
        kind: {"mean": float(np.mean(values)), "interval": interval(values), "turns": len(values)}
        for kind, values in found.items()
    }
    rows = [
        (kind, f"{own['mean']:+.3f}", f"{own['interval'][0]:+.3f} to {own['interval'][1]:+.3f}", str(own["turns"]))
        for kind, own in result["gains"].items()
    ]
    record.show(f"information gain of a turn, {args.env}", ("turn", "mean", "95 % interval", "turns"), rows, console)
    record.save(
        args.out or record.RESULTS / "turn_gain.json", {**record.provenance(torch.device("cpu"), [0]), **result}
    )
    return 0


if __name__ == "__main__":
    run(main)
