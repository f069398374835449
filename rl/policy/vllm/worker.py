"""Extensions of vLLM's workers, which may be processes of their own: weights from a file, and keyed samples.

vLLM imports this module by name in every worker, before it asks for the weight transfer backend registered here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor
from vllm.distributed.weight_transfer.base import WeightTransferEngine, WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.lora.layers.base import BaseLayerWithLoRA

from rl.policy.vllm.requests import BACKEND, SampledToken
from rl.policy.vllm.sampler import KeyedSampler
from rl.policy.vllm.weight_file import read_weights, without_second_head


@dataclass
class FileInitInfo(WeightTransferInitInfo):
    """What vLLM passes to set up a transfer: nothing here."""


@dataclass
class FileUpdateInfo(WeightTransferUpdateInfo):
    """Path of a file of `rl.policy.vllm.weight_file.write_weights`, and the tied weights that it returned."""

    path: str = ""
    tied: dict[str, str] = field(default_factory=dict)


class FileWeightTransfer(WeightTransferEngine[FileInitInfo, FileUpdateInfo]):
    """Loads weights by their names in a checkpoint from a file, layer by layer."""

    init_info_cls = FileInitInfo
    update_info_cls = FileUpdateInfo

    def init_transfer_engine(self, init_info: FileInitInfo) -> None:
        """Set up nothing: files need no connection."""

    def start_weight_update(self) -> None:
        """Prepare the model to take weights layer by layer."""
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: FileUpdateInfo) -> None:
        """Load the weights from the file that `update_info` names."""
        weights = read_weights(update_info.path, update_info.tied)
        self.model.load_weights(without_second_head(self.model, weights))

    def finish_weight_update(self) -> None:
        """Bring the loaded layers into the form that vLLM computes with."""
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        """Release nothing: files need no connection."""

    @staticmethod
    def trainer_send_weights(iterator: Any, trainer_args: Any) -> None:
        """Required of every backend by vLLM 0.27 and never called: `rl.policy.vllm.engine_client` sends the weights."""
        raise NotImplementedError


class WorkerExtension:
    """Methods that the engine calls in a worker by `collective_rpc`, besides vLLM's own."""

    model_runner: Any

    def turnwise_take_samples(self) -> dict[int, SampledToken]:
        """Return and forget the tokens sampled since the last call, by request key."""
        processors = self.model_runner.input_batch.logitsprocs.all
        sampler = next(processor for processor in processors if isinstance(processor, KeyedSampler))
        samples, sampler.samples = sampler.samples, {}
        return samples

    def turnwise_describe(self, path: str) -> dict[str, Any]:
        """Return the Hugging Face config of the model that is served, and whether this process can read `path`.

        `takes_images` is false for a text model, and for one whose server was started for texts alone.
        """
        config = self.model_runner.model_config.hf_text_config.to_dict()
        plain = {name: value for name, value in config.items() if isinstance(value, str | int | float | bool)}
        takes_images = bool(getattr(self.model_runner, "supports_mm_inputs", False))
        return {"config": plain, "reads": os.access(path, os.R_OK), "takes_images": takes_images}

    def turnwise_feed_stand_in(self, token: int, stand_in: int) -> None:
        """Let the model read the token `stand_in` where `token`, which images fill, was sampled: it is no image.

        A model that does so already is left as it is.
        """
        model = self.model_runner.get_model()
        if getattr(model, "turnwise_stand_in", None) == (token, stand_in):
            return
        model.turnwise_stand_in = token, stand_in
        embed = model.embed_input_ids

        def embed_input_ids(input_ids: Tensor, *args: Any, is_multimodal: Tensor | None = None, **more: Any) -> Tensor:
            is_sampled = input_ids == token
            if is_multimodal is not None:
                is_sampled &= ~is_multimodal.to(input_ids.device)
                more["is_multimodal"] = is_multimodal
            return embed(input_ids.masked_fill(is_sampled, stand_in), *args, **more)

        model.embed_input_ids = embed_input_ids

    def turnwise_multiply_by_one_adapter(self) -> None:
        """On a CPU, apply the only adapter as a matrix product, where vLLM would copy it for every token."""
        from vllm.platforms import current_platform

        if current_platform.is_cpu():
            for wrapper in {layer.punica_wrapper for layer in self._adapter_manager.modules.values()}:
                wrapper.add_lora_linear = partial(_add_lora_linear, wrapper)

    def turnwise_count_adapters(self) -> int:
        """Return how many matrices of the model have an adapter; several may be one layer of vLLM's."""
        count = 0
        for adapters in self._adapter_manager.list_adapters().values():
            for name in self._adapter_manager.modules:
                if one := adapters.get_lora(name):
                    parts = one.lora_a if isinstance(one.lora_a, list) else [one.lora_a]
                    count += sum(part is not None for part in parts)
        return count

    @property
    def _adapter_manager(self) -> Any:
        return self.model_runner.lora_manager._adapter_manager


def _add_lora_linear(
    wrapper: Any,
    y: Tensor,
    x: Tensor,
    a: Sequence[Tensor],
    b: Sequence[Tensor],
    scale: float,
    widths: Sequence[int],
    **kwargs: Any,
) -> None:
    """Replaces `PunicaWrapperCPU.add_lora_linear`: add the adapters' outputs for x (T, I) to y (T, sum of widths).

    Each of `a` is (1, 1, rank, I), of `b` (1, 1, width, rank). All tokens have the adapter or none has.
    """
    if wrapper.no_lora:
        return
    start = 0
    for down, up, width in zip(a, b, widths, strict=True):
        y[:, start : start + width] += (x @ down[0, 0].T) @ up[0, 0].T * scale
        start += width


def _load_base_weights(self: Any, weights: Iterable[tuple[str, Tensor]]) -> Iterable[str]:
    """What later versions have as `BaseLayerWithLoRA.load_weights`: load weights into the layer below the adapters."""
    from vllm.model_executor.models.utils import AutoWeightsLoader

    load = getattr(self.base_layer, "load_weights", None) or AutoWeightsLoader(self.base_layer).load_weights
    return load(weights)


if not hasattr(BaseLayerWithLoRA, "load_weights"):  # vLLM 0.26
    BaseLayerWithLoRA.load_weights = _load_base_weights
WeightTransferEngineFactory.register_engine(BACKEND, FileWeightTransfer)
