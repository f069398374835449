"""What vLLM takes into each of its workers, which may be processes of their own: weights from a file, our draws out.

vLLM imports this by name in every worker, before it asks for the backend that is registered here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor
from vllm.distributed.weight_transfer.base import WeightTransferEngine, WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

from rl.policy.vllm.requests import Entry
from rl.policy.vllm.sampler import Drawing
from rl.policy.vllm.weight_file import unpack

BACKEND = "turnwise-file"


@dataclass
class Init(WeightTransferInitInfo):
    """Nothing has to be agreed on."""


@dataclass
class Update(WeightTransferUpdateInfo):
    """What `rl.policy.vllm.weight_file.pack` wrote, and what it returned."""

    path: str = ""
    tied: dict[str, str] = field(default_factory=dict)


class FromFile(WeightTransferEngine[Init, Update]):
    """Weights by the names of a checkpoint, put in place layer by layer."""

    init_info_cls = Init
    update_info_cls = Update

    def init_transfer_engine(self, init_info: Init) -> None:
        """See `WeightTransferEngine`."""

    def start_weight_update(self) -> None:
        """See `WeightTransferEngine`."""
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: Update) -> None:
        """See `WeightTransferEngine`."""
        self.model.load_weights(unpack(update_info.path, update_info.tied))

    def finish_weight_update(self) -> None:
        """See `WeightTransferEngine`."""
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        """See `WeightTransferEngine`."""

    @staticmethod
    def trainer_send_weights(iterator: Any, trainer_args: Any) -> None:
        """What 0.27 asks every backend for, and never calls: `rl.policy.vllm.engine_client` sends the weights."""
        raise NotImplementedError


class Extension:
    """What the engine may ask of a worker besides vLLM's own verbs."""

    model_runner: Any

    def turnwise_drawn(self) -> dict[int, Entry]:
        """What was drawn since this was last asked, by key."""
        processors = self.model_runner.input_batch.logitsprocs.all
        drawing = next(processor for processor in processors if isinstance(processor, Drawing))
        drawn, drawing.drawn = drawing.drawn, {}
        return drawn

    def turnwise_one_adapter(self) -> None:
        """Multiply by the only adapter as a matrix on a CPU, where vLLM copies it for every token instead."""
        from vllm.platforms import current_platform

        if current_platform.is_cpu():
            for wrapper in {layer.punica_wrapper for layer in self._adapters.modules.values()}:
                wrapper.add_lora_linear = partial(_add, wrapper)

    def turnwise_adapted(self) -> int:
        """How many matrices of the model have an adapter; several may be one layer of vLLM's."""
        found = 0
        for adapters in self._adapters.list_adapters().values():
            for name in self._adapters.modules:
                if one := adapters.get_lora(name):
                    parts = one.lora_a if isinstance(one.lora_a, list) else [one.lora_a]
                    found += sum(part is not None for part in parts)
        return found

    @property
    def _adapters(self) -> Any:
        return self.model_runner.lora_manager._adapter_manager


def _add(
    wrapper: Any,
    y: Tensor,
    x: Tensor,
    a: Sequence[Tensor],
    b: Sequence[Tensor],
    scale: float,
    widths: Sequence[int],
    **more: Any,
) -> None:
    """In place of `PunicaWrapperCPU.add_lora_linear`: add to y (T, sum of widths) what adapters make of x (T, I).

    Each of `a` is (1, 1, rank, I), of `b` (1, 1, width, rank). All tokens have the adapter or none has.
    """
    if wrapper.no_lora:
        return
    start = 0
    for down, up, width in zip(a, b, widths, strict=True):
        y[:, start : start + width] += (x @ down[0, 0].T) @ up[0, 0].T * scale
        start += width


WeightTransferEngineFactory.register_engine(BACKEND, FromFile)
