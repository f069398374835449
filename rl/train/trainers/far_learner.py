"""A learner whose model is trained by several processes; the run's own model follows their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from rl.learner.hidden_states import of_rows
from rl.methods.inputs import Row
from rl.methods.recipe import Recipe, words
from rl.policy import lora
from rl.records import Trajectory
from rl.settings import Settings
from rl.train.storage.state_file import StateSnapshot, read_state, write_state
from rl.train.trainers.part_memory import load_part_memory, part_memory
from rl.train.trainers.processes import TrainerProcesses
from rl.train.trainers.rank import Opening


class FarLearner:
    """`rl.learner.learner.Learner` as the run uses it, over `--trainers` processes that shard the model among them.

    After every update the run's `model` gets the ranks' weights, from which the sampler, checkpoints and the scores
    that need more than log-probabilities and values go on. What the ranks keep beside weights (moments, a critic, the
    reference policy) has the same form in a checkpoint as one process's, so their number may change.

    Attributes:
        model: The run's copy of the weights.
        lr: Learning rate.
        weights_changed: Whether an update moved the weights since a caller set this to False.
        has_adapters: Whether adapters are trained in place of the weights.
        processes: The ranks.
    """

    def __init__(
        self, model: Any, settings: Settings, recipe: Recipe, *, role: str, run: Path | None, options: Mapping[str, Any]
    ) -> None:
        """Start the ranks and wait until they have a model. `run` is the one that is resumed.

        `options` are the learner's arguments beside the model. Raises `ValueError` for devices that there are not, and
        `TrainersLost` if the ranks cannot shard the model.
        """
        self.model = model.eval()
        self.device = next(model.parameters()).device
        self.temperature, self.lr = options["temperature"], options["lr"]
        self.microbatch_tokens, self.recompute = options["microbatch_tokens"], options["recompute"]
        self.weights_changed, self.has_adapters = False, bool(lora.adapter_layers(model))
        self._weight_names = [name for name, weight in model.named_parameters() if weight.requires_grad]
        self._are_alike = False  # whether the ranks have the model's weights
        size = 4 * sum(weight.numel() for weight in model.parameters())
        count = settings.trainers
        devices = rank_devices(settings, self.device)
        name = f"trainer of {role}" if role else "trainer"
        self.processes = TrainerProcesses(name, count, 3 * size, devices)
        opening = Opening(
            settings=settings,
            slots=words(recipe),
            run=str(run or ""),
            role=role,
            store=str(self.processes.folder / "store"),
            device=self.device.type,
            options=dict(options),
            timeout_s=self.processes.timeout_s,
        )
        self.processes.call("open", (opening,))

    def update(self, rows: Sequence[Row], recipe: Recipe, *, scale: float = 1.0, seed: int = 0) -> dict[str, float]:
        """Let the ranks make an update, copy their weights into `model`, and return its metrics; see `Learner.update`.

        They follow the recipe of the settings, which is the same one. What its parts remember comes from `recipe` and
        goes back to it, so that it is in the run's checkpoints.
        """
        self._begin()
        path = self.processes.folder / "weights.safetensors"
        memory = part_memory(recipe)
        order = rows, memory, scale, seed, self._weight_names, str(path)
        metrics, has_moved, memory = self.processes.call("update", order)
        load_part_memory(recipe, memory)
        if has_moved:
            self.weights_changed = True
            own = dict(self.model.named_parameters())
            with torch.no_grad():
                for name, value in load_file(path).items():
                    own[name].copy_(value)
        path.unlink(missing_ok=True)
        return metrics

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """See `Learner.values`."""
        return self._score("values", trajectories)

    def reference(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """See `Learner.reference`."""
        return self._score("reference", trajectories)

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """See `Learner.logprobs`."""
        return self._score("logprobs", trajectories)

    def hidden_states(self, rows: Sequence[Row]) -> np.ndarray:
        """See `Learner.hidden_states`; computed by the run itself."""
        return of_rows(self.model, rows, self.device, self.microbatch_tokens)

    def freeze_reference(self) -> None:
        """See `Learner.freeze_reference`."""
        self._begin()
        self.processes.call("freeze_reference")

    def state_dict(self) -> dict[str, Any]:
        """See `Learner.state_dict`."""
        self._begin()
        folder = self.processes.folder / "state"
        self.processes.call("save_state", (str(folder),))
        try:
            return read_state(folder)
        finally:
            rmtree(folder)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Learner.load_state_dict`."""
        self._begin()
        folder = self.processes.folder / "state"
        folder.mkdir()
        write_state(folder, StateSnapshot.of(state))
        try:
            self.processes.call("load_state", (str(folder),))
        finally:
            rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """End the ranks."""
        self.processes.close()

    def _score(self, which: str, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        self._begin()
        scores: list[list[tuple[float, ...]]] = self.processes.call("score", (which, trajectories))
        return scores

    def _begin(self) -> None:
        """Hand the model's weights to the ranks before the first order: a cold start may have changed them all."""
        if self._are_alike:
            return
        path = self.processes.folder / "first.safetensors"
        save_file({name: weight.detach().cpu().clone() for name, weight in self.model.named_parameters()}, path)
        self.processes.call("set_weights", (str(path),))
        path.unlink()
        self._are_alike = True


def rank_devices(settings: Settings, device: torch.device) -> list[str]:
    """Return the CUDA device of each rank, by default the first ones; [] where the model is on the CPU.

    Raises `ValueError` for devices that the machine has not.
    """
    text, count = settings.trainer_devices, settings.trainers
    if device.type == "cpu":
        if text:
            raise ValueError(f"--trainer-devices {text}: the model is on the CPU; leave it out")
        return []
    devices = text.split(",") if text else list(map(str, range(count)))
    num_gpus = torch.cuda.device_count()
    if any(int(number) >= num_gpus for number in devices):
        flag = f"--trainer-devices {text}" if text else f"--trainers {count}"
        raise ValueError(f"{flag}: each trainer has a GPU of its own, and torch sees {num_gpus}")
    return devices
