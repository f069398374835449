"""What one of several ranks runs in tests of `rl.learner.ranks.sharded`.

The first rank compares what all compute with a learner of its own that is alone, and prints a line of JSON for each case.
"""

from __future__ import annotations

import json
import os
import warnings
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

import rl.methods.recipes
from rl.learner.learner import Learner
from rl.learner.ranks.sharded import ShardedRanks
from rl.methods.inputs import Row
from rl.methods.recipe import Recipe, words
from rl.methods.streams import needs
from rl.policy import lora, tiny
from tests.support import rank_mutants

LOGPROBS = ("ref", "proximal", "teacher")
STREAMS = (*LOGPROBS, "reward", "value", "returns", "square")

LEARNER_SLOTS = ("phases", "passes", "step", "ratio", "surrogate", "select", "penalty", "reduce")


def rows(num_groups: int = 4, seed: int = 0) -> list[Row]:
    """Rows of unequal lengths in groups of four that share a prompt; every fourth trajectory is of three rows."""
    rng, result = np.random.default_rng(seed), list[Row]()
    for group in range(num_groups):
        prefix = tuple(rng.integers(0, 256, 12 + 5 * group).tolist())
        for member in range(4):
            advantage = rng.normal()
            for part in range(3 if member == 3 else 1):
                size = int(rng.integers(6, 18 + 6 * group))
                mask = rng.random(size) < 0.7
                mask[0] = True
                draw = {name: np.where(mask, rng.normal(0, 0.1, size), 0).astype(np.float32) for name in STREAMS}
                draw |= {name: np.where(mask, draw[name] - 5.5, 0).astype(np.float32) for name in LOGPROBS}
                old = np.where(mask, rng.normal(-5.5, 0.1, size), 0).astype(np.float32)
                adv = np.where(mask, advantage, 0).astype(np.float32)
                turn = np.where(mask, part, -1)
                draw["staleness"] = np.where(mask, 1 + member % 2, 0).astype(np.float32)
                ids = rng.integers(0, 256, size)
                number = 4 * group + member
                result.append(Row((*prefix, *range(part)), ids, mask, old, adv, turn, draw, number, group))
    return result


def with_draws(batch: list[Row]) -> list[Row]:
    """The rows, asking for four draws at each token, as `score=draws` does."""
    drawing = []
    for row in batch:
        streams = {
            "draws": np.full(row.size, 4, np.float32),
            "draw_seed": np.full(row.size, row.trajectory, np.float32),
        }
        drawing.append(replace(row, streams={**row.streams, **streams}))
    return drawing


def all_recipes() -> dict[str, Recipe]:
    """Every recipe by its name."""
    names = sorted(module.name for module in iter_modules(rl.methods.recipes.__path__))
    return {name: import_module(f"rl.methods.recipes.{name}").recipe for name in names}


class Trial:
    """A learner of all ranks beside one that is alone."""

    def __init__(self, make_ranks: Any, model: Any, **options: Any) -> None:
        settings: dict[str, Any] = {"lr": 1e-3, "microbatch_tokens": 120, "max_grad_norm": 1e9, **options}
        self.alone, self.ranks = Learner(model(), **settings), make_ranks(model)
        self.shared = Learner(model(), **settings, ranks=self.ranks)

    def gradients(self, recipe: Recipe, batch: list[Row]) -> dict[str, Any]:
        """Make an update without a step in both; return the largest differences, in other ranks than the first nothing."""
        learners = (self.shared, self.alone) if self.ranks.rank == 0 else (self.shared,)
        for learner in learners:
            learner.optimizer.step = lambda: None  # type: ignore[assignment]
        metrics = [learner.update(batch, recipe) for learner in reversed(learners)]
        shared = [weight.grad for weight in self.shared.parameters()]
        whole = [None if grad is None else grad.full_tensor() for grad in shared]  # in which all ranks take part
        if self.ranks.rank:
            return {}
        alone = [weight.grad for weight in self.alone.parameters()]
        pairs = list(zip(alone, whole, strict=True))
        trained = [(one, other) for one, other in pairs if one is not None and other is not None]
        largest = max((float((one - other).abs().max()) for one, other in trained), default=0.0)
        size = max((float(one.abs().max()) for one, _ in trained), default=0.0)
        return {
            "gradient": largest / max(1.0, size),
            "size": size,
            "sharded": all(isinstance(grad, DTensor) for grad in shared if grad is not None),
            "missing": sum((one is None) != (other is None) for one, other in pairs),
            "metrics": max((relative(metrics[0][name], metrics[1][name]) for name in metrics[0]), default=0.0),
            "norm": relative(metrics[0].get("grad_norm", 0.0), metrics[1].get("grad_norm", 0.0)),
        }


def relative(one: float, other: float) -> float:
    """The difference of two numbers, as a share of the first where that is above 1."""
    return abs(one - other) / max(1.0, abs(one))


def say(case: str, **numbers: Any) -> None:
    """Print the result of a case."""
    print(json.dumps({"case": case, **numbers}), flush=True)


def distinct_recipes() -> dict[str, Recipe]:
    """The first recipe of those that a learner cannot tell apart, when advantages are given."""
    first: dict[str, str] = {}
    for name, recipe in all_recipes().items():
        texts = words(recipe)
        kind = [texts[slot] for slot in LEARNER_SLOTS], needs(recipe, "value"), needs(recipe, "draws")
        first.setdefault(json.dumps(kind), name)
    return {name: all_recipes()[name] for name in first.values()}


def main(store: Path, rank: int, count: int, shards: int, recipes: str, mutant: str) -> None:
    """Run all cases, with the `recipes` of these names, or `all`, or those that are `distinct`.

    `mutant` names a fault of `tests.support.rank_mutants` that is put in before two of them.
    """
    torch.set_num_threads(1)
    rank_mutants.put_in(mutant)
    made: list[ShardedRanks] = []

    def make_ranks(model: Any) -> ShardedRanks:
        if made:
            other = made[0]
            other._make_model = model
            return other
        made.append(
            ShardedRanks(
                dist.FileStore(str(store), count),
                rank,
                count,
                device=torch.device("cpu"),
                make_model=model,
                shards=shards,
                timeout_s=15.0,
            )
        )
        return made[0]

    def plain() -> Any:
        model = tiny.create(0, hidden=64, layers=2, heads=2, intermediate=64)[0]
        with torch.no_grad():  # entropies that differ: some recipes divide by their range, and so magnify rounding
            model.get_input_embeddings().weight.mul_(4.0)
        return model

    batch = rows()
    trial = Trial(make_ranks, plain)
    if not mutant:
        critic = Trial(make_ranks, plain, critic=True)
        sets = {"all": all_recipes, "distinct": distinct_recipes}
        names = sets[recipes]() if recipes in sets else recipes.split(",")
        for name, recipe in ((name, all_recipes()[name]) for name in names):
            one = critic if needs(recipe, "value") else trial
            say(name, **one.gradients(recipe, with_draws(batch) if needs(recipe, "draws") else batch))
    gspo = all_recipes()["gspo"]
    say("whole trajectories", **trial.gradients(gspo, batch))
    say("one trajectory", **trial.gradients(gspo, batch[3:6]))  # the other ranks have none
    if mutant:
        return
    say("recompute", **Trial(make_ranks, plain, recompute=True).gradients(gspo, batch))
    say("minibatches", **Trial(make_ranks, plain, minibatches=3, epochs=2).gradients(gspo, batch))

    def adapted() -> Any:
        model = plain()
        lora.attach(model, 4, alpha=8, seed=1)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_B" in name:
                    weight.normal_(0, 0.02, generator=torch.Generator().manual_seed(3))
        return model

    say("lora", **Trial(make_ranks, adapted).gradients(gspo, batch))
    ppo = all_recipes()["ppo"]
    critic = Trial(make_ranks, plain, critic=True)
    start = [weight.detach().clone() for weight in critic.alone.parameters()]
    for learner in (critic.alone, critic.shared):
        learner.freeze_reference()
        for step in range(3):
            learner.update(rows(seed=step), ppo)
    # AdamW divides each gradient by its size, so that rounding moves a weight whose gradient is nearly 0 by up to the rate
    pairs = list(zip(critic.alone.parameters(), critic.shared.parameters(), strict=True))
    distance = sum(float((a - b.full_tensor()).square().sum()) for a, b in pairs)
    way = sum(float((a - before).square().sum()) for (a, _), before in zip(pairs, start, strict=True))
    say("three steps", drift=(distance / way) ** 0.5)
    scores = [
        torch.cat([learner.score(learner.model, batch)["value"], learner.score(learner.reference_model, batch)["logp"]])
        for learner in (critic.alone, critic.shared)
    ]
    say("values and reference", difference=float((scores[0] - scores[1]).abs().max()))
    state = critic.shared.state_dict()
    if rank == 0:
        own = critic.alone.state_dict()
        moments = [
            float((own["optimizer"]["state"][i]["exp_avg"] - state["optimizer"]["state"][i]["exp_avg"]).abs().max())
            for i in own["optimizer"]["state"]
        ]
        say("whole state", difference=max(moments), keys=own.keys() == state.keys())
    whole = deepcopy(critic.alone.state_dict())
    critic.shared.load_state_dict(whole)
    critic.ranks.set_weights(critic.shared.model, dict(critic.alone.model.named_parameters()))
    for learner in (critic.alone, critic.shared):
        learner.update([replace(row, adv=-row.adv) for row in batch], ppo)
    pairs = zip(critic.alone.parameters(), critic.shared.parameters(), strict=True)
    say("after loading", difference=max(float((a - b.full_tensor()).abs().max()) for a, b in pairs))


def run(output: Path, *arguments: Any) -> None:
    """Call `main` in a process of its own whose output goes to a file."""
    handle = os.open(output, os.O_WRONLY | os.O_CREAT)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    warnings.simplefilter("ignore")
    main(*arguments)
    os._exit(0)  # not in order: the group's threads may be in a call of the other ranks
