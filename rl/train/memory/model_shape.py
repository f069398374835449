"""The sizes of a model that the memory of a run depends on; the model may be on the device `meta`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import nn

from rl.learner.own_forward import may_pack
from rl.policy import lora
from rl.policy.decoder import WIDE_HIDDEN_SIZE, is_supported
from rl.policy.model_config import text_config


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model that memory depends on."""

    weights: int  # number of weights without those of adapters
    adapters: int  # number of weights of adapters
    adapter_layers: int  # linear layers per block that have an adapter
    fused_outputs: int  # outputs per block of projections that share their input and have no adapter
    joins_heads: bool  # whether queries, keys and values of a block are one tensor, which is kept for the values
    is_lean: bool  # whether `rl.policy.decoder` computes it
    packs: bool  # whether the prompt of a group is computed once
    layers: int
    hidden: int
    inner: int  # outputs of the MLP's first projection, for one token
    queries: int
    keys: int
    head_dim: int
    vocab: int
    has_head_norms: bool
    is_capped: bool  # whether scores of attention have soft caps or sinks

    @classmethod
    def of(cls, model: nn.Module, rank: int = 0, targets: str = lora.ALL) -> ModelShape:
        """Read the sizes off a model, for adapters of `rank` (0 for none) on the layers `targets`."""
        config = text_config(model)
        heads, hidden = config.num_attention_heads, config.hidden_size
        dim = getattr(config, "head_dim", None) or hidden // heads
        inner = getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None) or 4 * hidden
        keys = (getattr(config, "num_key_value_heads", None) or heads) * dim
        weights = sum(weight.numel() for name, weight in model.named_parameters() if not lora.is_adapter_weight(name))
        adapters, names = _adapters(model, rank, targets)
        with_adapter = {name.rpartition(".")[2] for name in names}
        joins_heads = not with_adapter & {"q_proj", "k_proj", "v_proj"} and hidden < WIDE_HIDDEN_SIZE
        fused_outputs = 0 if with_adapter & {"q_proj", "k_proj", "v_proj"} else heads * dim + 2 * keys
        fused_outputs += 0 if with_adapter & {"gate_proj", "up_proj"} else 2 * inner
        return cls(
            weights=weights,
            adapters=adapters,
            adapter_layers=math.ceil(len(names) / config.num_hidden_layers),
            fused_outputs=fused_outputs,
            joins_heads=joins_heads,
            is_lean=is_supported(model),
            packs=is_supported(model) or may_pack(model),
            layers=config.num_hidden_layers,
            hidden=hidden,
            inner=inner * (getattr(config, "num_experts_per_tok", None) or 1),
            queries=heads * dim,
            keys=keys,
            head_dim=dim,
            vocab=config.vocab_size,
            has_head_norms=any(name.endswith("q_norm") for name, _ in model.named_modules()),
            is_capped=bool(getattr(config, "attn_logit_softcapping", None)) or config.model_type == "gpt_oss",
        )


def _adapters(model: nn.Module, rank: int, lora_targets: str) -> tuple[int, list[str]]:
    """Count the weights of the adapters that the model has or would get; return it with the names of their layers."""
    if not rank:
        return 0, []
    if layers := lora.adapter_layers(model):
        count = sum(weight.numel() for name, weight in model.named_parameters() if lora.is_adapter_weight(name))
        return count, [name for name, _ in layers]
    targets = lora.parse_targets(lora_targets)
    head: Any = getattr(model, "get_output_embeddings", lambda: None)()
    sizes: dict[str, int] = {
        name: sum(module.weight.shape)  # type: ignore[arg-type]
        for name, module in model.named_modules()
        if type(module).__name__ in ("Linear", "Conv1D")
        and module is not head
        and (targets == [lora.ALL] or name.rpartition(".")[2] in targets)
    }
    return rank * sum(sizes.values()), list(sizes)
