"""The program of one rank: it makes a learner of the run's settings, and does what the run orders all ranks to do."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from rl.cli import one_line
from rl.learner.learner import Learner
from rl.learner.ranks.sharded import ShardedRanks
from rl.methods.inputs import Row
from rl.methods.options import PartError
from rl.methods.recipe import Recipe
from rl.policy.pool.model_copy import load_structure, load_weights
from rl.processes.timeout import answer_timeout_s
from rl.records import Trajectory
from rl.settings import Settings
from rl.train import precision
from rl.train.scheduling.part_faults import part_fault
from rl.train.storage.state_file import StateSnapshot, read_state, write_state
from rl.train.trainers import meeting
from rl.train.trainers.line import Line, wait_for_file
from rl.train.trainers.part_memory import load_part_memory, part_memory

WEIGHTS = "weights.safetensors"  # what the first rank writes for the run


@dataclass(frozen=True)
class Opening:
    """What a rank makes its learner of, beside a file of the model's weights.

    Attributes:
        settings: All settings of the run.
        slots: The text of the recipe's parts, by slot.
        structure: The model without weights (`rl.policy.pool.model_copy.dump_structure`).
        trained: Names of the weights that are trained.
        meeting_place: Where the ranks find each other (`rl.train.trainers.meeting`).
        device: Type of the device that each has.
        options: Arguments of the learner beside the model.
        timeout_s: Seconds after which a rank that waits for others gives up.
    """

    settings: Settings
    slots: Mapping[str, Any]
    structure: bytes
    trained: Collection[str]
    meeting_place: str
    device: str
    options: Mapping[str, Any]
    timeout_s: float


def serve(line: Line, number: int, count: int) -> None:
    """Do what the run orders, as rank `number` of `count`, until it is gone; then end the process."""
    rank = Rank(number, count, line.home)
    with suppress(EOFError, OSError):
        while True:
            order, paths = line.receive()
            try:
                for path in paths:
                    wait_for_file(path, answer_timeout_s())
                verb, content = pickle.loads(Path(paths[0]).read_bytes())
                answer = order, False, getattr(rank, verb)(*content, *paths[1:])
            except Exception as error:
                answer = order, True, _failure(error, rank)
            line.send(answer)
    sys.stdout.flush()
    line.end()


def _failure(error: Exception, rank: Rank) -> tuple[str, str]:
    """Return type and text of an error for the run, which gets what a part of a user's own raised as a `PartError`."""
    recipe = getattr(rank, "_recipe", None)  # not before it is opened
    fault = recipe and part_fault(error, recipe)
    return (PartError.__name__, fault[:500]) if fault else (type(error).__name__, one_line(error)[:500])


class Rank:
    """The verbs that a run can order; all ranks do them together. The first one writes files into `home`."""

    _ranks: ShardedRanks
    _learner: Learner
    _recipe: Recipe

    def __init__(self, number: int, count: int, home: str) -> None:
        self._number, self._count, self._home = number, count, Path(home)
        self._store: Any = None
        self._has_copies = False

    def open_port(self, address: str, timeout_s: float) -> str:
        """Let the ranks meet at the first one, whose machine has this address, and return where that is."""
        if self._number:
            return ""
        place, self._store = meeting.open_port(address, timeout_s)
        return place

    def open(self, opening: Opening, weights: str) -> None:
        """Make the learner, of the model whose weights are in a file."""
        from rl.train.__main__ import build_recipe

        s = opening.settings
        torch.set_num_threads(s.threads or max(1, (os.cpu_count() or 1) // self._count))
        device = torch.device("cpu" if opening.device == "cpu" else f"{opening.device}:0")  # it sees no other
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        dtype = getattr(torch, s.dtype or "float32")

        def make_model() -> Any:
            return load_structure(opening.structure, "cpu").float()

        self._ranks = ShardedRanks(
            self._store or meeting.join(opening.meeting_place, self._count),
            self._number,
            self._count,
            device=device,
            make_model=make_model,
            shards=s.trainer_shards,
            dtype=dtype if dtype != torch.float32 else None,
            timeout_s=opening.timeout_s,
        )
        self._recipe = precision.trained_recipe(s, build_recipe(s, opening.slots))
        model = make_model()
        load_weights(model, [weights])
        for name, weight in model.named_parameters():
            weight.requires_grad_(name in opening.trained)
        self._learner = Learner(model.to(device), **opening.options, ranks=self._ranks)
        self._has_copies = dtype != torch.float32  # of one process, whose weights are rounded

    def set_weights(self, path: str) -> None:
        """Take over the weights in a file, by name."""
        self._ranks.set_weights(self._learner.model, load_file(path))

    def update(
        self, rows: Sequence[Row], memory: Any, scale: float, seed: int, names: Collection[str]
    ) -> tuple[dict[str, float], bool, Any]:
        """Make an update with the recipe's `memory` before it; the first rank writes the weights `names` to `WEIGHTS`.

        Returns the metrics, whether the weights have moved, and the recipe's memory after the update.
        """
        self._learner.weights_changed = False
        load_part_memory(self._recipe, memory)
        metrics = self._learner.update(rows, self._recipe, scale=scale, seed=seed)
        weights = self._ranks.weights(self._learner.model, names)
        if self._number == 0:
            save_file({name: value.contiguous() for name, value in weights.items()}, self._home / WEIGHTS)
        return metrics, self._learner.weights_changed, part_memory(self._recipe)

    def score(self, which: str, trajectories: Sequence[Trajectory]) -> Any:
        """Return the learner's `values`, `reference` or `logprobs` of trajectories."""
        result = getattr(self._learner, which)(trajectories)
        return result if self._number == 0 else None

    def freeze_reference(self) -> None:
        """Keep the present weights as the reference policy."""
        self._learner.freeze_reference()

    def save_state(self) -> None:
        """Let the first rank write the learner's state, as one process would have it."""
        state = self._learner.state_dict()
        if self._has_copies:
            weights = {name: w for name, w in self._learner.model.named_parameters() if w.requires_grad}
            whole = list(self._ranks.whole_state(weights).values())
            state["optimizer"] = {**state["optimizer"], "masters": whole}
        if self._number == 0:
            write_state(self._home, StateSnapshot.of(state))

    def load_state(self, *paths: str) -> None:
        """Continue from the files that `save_state` wrote, by however many ranks."""
        state = read_state(Path(paths[0]).parent)
        masters = state["optimizer"].pop("masters", [])
        if masters:
            names = [name for name, w in self._learner.model.named_parameters() if w.requires_grad]
            self._ranks.set_weights(self._learner.model, dict(zip(names, masters, strict=True)))
        self._learner.load_state_dict(state)
