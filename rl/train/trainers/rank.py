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
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor

from rl.cli import one_line
from rl.learner.learner import Learner
from rl.learner.ranks.sharded import ShardedRanks
from rl.methods.inputs import Row
from rl.methods.recipe import Recipe
from rl.records import Trajectory
from rl.settings import Settings
from rl.train import precision
from rl.train.model import TrainedModel
from rl.train.run_folder import RunFolder
from rl.train.storage.state_file import StateSnapshot, read_state, write_state
from rl.train.trainers.line import Line
from rl.train.trainers.part_memory import load_part_memory, part_memory


@dataclass(frozen=True)
class Opening:
    """What a rank makes its learner of.

    Attributes:
        settings: All settings of the run.
        slots: The text of the recipe's parts, by slot.
        run: Path of the run that is resumed, "" for a new one.
        role: Name of the policy.
        store: File by which the ranks find each other.
        device: Type of the device that each has.
        options: Arguments of the learner beside the model.
        timeout_s: Seconds after which a rank that waits for others gives up.
    """

    settings: Settings
    slots: Mapping[str, Any]
    run: str
    role: str
    store: str
    device: str
    options: Mapping[str, Any]
    timeout_s: float


def main(line: Line, number: int, count: int) -> None:
    """Do what the run orders, as rank `number` of `count`, until it is gone; then end the process."""
    rank: Rank | None = None
    with suppress(EOFError, OSError):
        while True:
            order, path = line.receive()
            try:
                verb, content = pickle.loads(Path(path).read_bytes())
                if verb == "open":
                    rank, result = Rank(content[0], number, count), None
                else:
                    result = getattr(rank, verb)(*(content or ()))
                answer = order, False, result
            except Exception as error:
                answer = order, True, (type(error).__name__, one_line(error)[:500])
            line.send(answer)
    sys.stdout.flush()
    line.end()


class Rank:
    """The verbs that a run can order; all ranks do them together."""

    def __init__(self, opening: Opening, number: int, count: int) -> None:
        from rl.train.__main__ import build_recipe

        s = opening.settings
        torch.set_num_threads(s.threads or max(1, (os.cpu_count() or 1) // count))
        device = torch.device("cpu" if opening.device == "cpu" else f"{opening.device}:0")  # it sees no other
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        dtype = getattr(torch, s.dtype or "float32")

        def make_model() -> Any:
            run = RunFolder(Path(opening.run)) if opening.run else None
            return TrainedModel(s, run, role=opening.role).model.float()

        self._ranks = ShardedRanks(
            dist.FileStore(opening.store, count),
            number,
            count,
            device=device,
            make_model=make_model,
            shards=s.trainer_shards,
            dtype=dtype if dtype != torch.float32 else None,
            timeout_s=opening.timeout_s,
        )
        self._recipe: Recipe = precision.trained_recipe(s, build_recipe(s, opening.slots))
        self._learner = Learner(make_model().to(device), **opening.options, ranks=self._ranks)
        self._has_copies = dtype != torch.float32  # of one process, whose weights are rounded

    def set_weights(self, path: str) -> None:
        """Take over the weights in a file, by name."""
        self._ranks.set_weights(self._learner.model, load_file(path))

    def update(
        self, rows: Sequence[Row], memory: Any, scale: float, seed: int, names: Collection[str], path: str
    ) -> tuple[dict[str, float], bool, Any]:
        """Make an update with the recipe's `memory` before it; the first rank writes the weights `names` to `path`.

        Returns the metrics, whether the weights have moved, and the recipe's memory after the update.
        """
        self._learner.weights_changed = False
        load_part_memory(self._recipe, memory)
        metrics = self._learner.update(rows, self._recipe, scale=scale, seed=seed)
        self._write(self._ranks.weights(self._learner.model, names), path)
        return metrics, self._learner.weights_changed, part_memory(self._recipe)

    def score(self, which: str, trajectories: Sequence[Trajectory]) -> Any:
        """Return the learner's `values`, `reference` or `logprobs` of trajectories."""
        result = getattr(self._learner, which)(trajectories)
        return result if self._ranks.rank == 0 else None

    def freeze_reference(self) -> None:
        """Keep the present weights as the reference policy."""
        self._learner.freeze_reference()

    def save_state(self, folder: str) -> None:
        """Write the learner's state, as one process would have it, into `folder`."""
        state = self._learner.state_dict()
        if self._has_copies:
            weights = {name: w for name, w in self._learner.model.named_parameters() if w.requires_grad}
            whole = list(self._ranks.whole_state(weights).values())
            state["optimizer"] = {**state["optimizer"], "masters": whole}
        if self._ranks.rank == 0:
            Path(folder).mkdir()
            write_state(Path(folder), StateSnapshot.of(state))

    def load_state(self, folder: str) -> None:
        """Continue from what `save_state` wrote, by however many ranks."""
        state = read_state(Path(folder))
        masters = state["optimizer"].pop("masters", [])
        if masters:
            names = [name for name, w in self._learner.model.named_parameters() if w.requires_grad]
            self._ranks.set_weights(self._learner.model, dict(zip(names, masters, strict=True)))
        self._learner.load_state_dict(state)

    def _write(self, weights: Mapping[str, Tensor], path: str) -> None:
        if self._ranks.rank == 0:
            save_file({name: value.contiguous() for name, value in weights.items()}, path)
