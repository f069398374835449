"""A learner whose model is trained by several processes; the run's own model follows their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from rl.checksums import file_digest
from rl.learner.hidden_states import of_rows
from rl.methods.inputs import Row
from rl.methods.recipe import Recipe, words
from rl.policy import lora
from rl.policy.pool.model_copy import dump_structure
from rl.processes.host import open_host
from rl.records import Trajectory
from rl.settings import Settings
from rl.train.storage.state_file import STATE, TENSORS, StateSnapshot, read_state, write_state
from rl.train.trainers.part_memory import load_part_memory, part_memory
from rl.train.trainers.processes import TrainerProcesses
from rl.train.trainers.rank import WEIGHTS, Opening


class FarLearner:
    """`rl.learner.learner.Learner` as the run uses it, over `--trainers` processes that shard the model among them.

    After every update the run's `model` gets the ranks' weights, from which the sampler, checkpoints and the scores
    that need more than log-probabilities and values go on. What the ranks keep beside weights (moments, a critic, the
    reference policy) has the same form in a checkpoint as one process's, so their number may change.

    Attributes:
        model: The run's copy of the weights.
        lr: Learning rate.
        weights_changed: Whether an update moved the weights since a caller set this to False, or the ranks have ended
            since, and what they keep with them.
        has_adapters: Whether adapters are trained in place of the weights.
        processes: The ranks.
    """

    def __init__(
        self, model: Any, settings: Settings, recipe: Recipe, *, role: str, options: Mapping[str, Any]
    ) -> None:
        """Start the ranks and wait until they have the model.

        `options` are the learner's arguments beside the model. Raises `ValueError` for devices that there are not and a
        model that cannot be sent, and `TrainersLost` if the ranks cannot be started or shard the model.
        """
        self.model = model.eval()
        self.device = next(model.parameters()).device
        self.temperature, self.lr = options["temperature"], options["lr"]
        self.microbatch_tokens, self.recompute = options["microbatch_tokens"], options["recompute"]
        self.weights_changed, self.has_adapters = False, bool(lora.adapter_layers(model))
        self._weight_names = [name for name, weight in model.named_parameters() if weight.requires_grad]
        self._are_alike = False  # whether the ranks have the model's weights
        self._sent_digest = ""  # of the file of weights that they were sent last
        host, structure = open_host(settings.cluster), dump_structure(model, "--trainers")
        self.processes = TrainerProcesses(
            f"trainer of {role}" if role else "trainer",
            settings.trainers,
            3 * 4 * sum(weight.numel() for weight in model.parameters()),
            devices=[] if host.is_far else rank_devices(settings, self.device),
            host=host,
            gpus=int(self.device.type != "cpu"),
        )
        opening = Opening(
            settings=settings,
            slots=words(recipe),
            structure=structure,
            trained=self._weight_names,
            meeting_place=self.processes.meeting_place(),
            device=self.device.type,
            options=dict(options),
            timeout_s=self.processes.timeout_s,
        )
        self._send_weights("open", (opening,))

    @property
    def weights_changed(self) -> bool:
        """See above."""
        return self._has_moved or bool(self.processes.end)

    @weights_changed.setter
    def weights_changed(self, value: bool) -> None:
        self._has_moved = value

    def update(self, rows: Sequence[Row], recipe: Recipe, *, scale: float = 1.0, seed: int = 0) -> dict[str, float]:
        """Let the ranks make an update, copy their weights into `model`, and return its metrics; see `Learner.update`.

        They follow the recipe of the settings, which is the same one. What its parts remember comes from `recipe` and
        goes back to it, so that it is in the run's checkpoints.
        """
        self._begin()
        memory = part_memory(recipe)
        order = rows, memory, scale, seed, self._weight_names
        metrics, has_moved, memory = self.processes.call("update", order)
        path = self.processes.fetch(WEIGHTS)
        load_part_memory(recipe, memory)
        if has_moved:
            self.weights_changed = True
            own = dict(self.model.named_parameters())
            with torch.no_grad():
                for name, value in load_file(path).items():
                    own[name].copy_(value)
        path.unlink()
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
        self.processes.call("save_state")
        files = [self.processes.fetch(name) for name in (STATE, TENSORS)]
        try:
            return read_state(self.processes.folder)
        finally:
            for file in files:
                file.unlink()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Learner.load_state_dict`."""
        self._begin()
        write_state(self.processes.folder, StateSnapshot.of(state))
        files = [self.processes.folder / name for name in (STATE, TENSORS)]
        try:
            self.processes.call("load_state", files=files)
        finally:
            for file in files:
                file.unlink()

    def close(self) -> None:
        """End the ranks."""
        self.processes.close()

    def _score(self, which: str, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        self._begin()
        scores: list[list[tuple[float, ...]]] = self.processes.call("score", (which, trajectories))
        return scores

    def _begin(self) -> None:
        """Before the first order, hand the model's weights to the ranks if a cold start has changed them."""
        if self._are_alike:
            return
        self._send_weights("set_weights")
        self._are_alike = True

    def _send_weights(self, verb: str, content: tuple[Any, ...] = ()) -> None:
        """Give an order with a file of the model's weights, unless the last such order had the same ones."""
        path = self.processes.folder / "model.safetensors"
        save_file({name: weight.detach().cpu().clone() for name, weight in self.model.named_parameters()}, path)
        digest = file_digest(path)
        if digest != self._sent_digest:
            self.processes.call(verb, content, [path])
            self._sent_digest = digest
        path.unlink()


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
