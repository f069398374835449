"""A lean forward pass of Llama-shaped models over packed tokens: no padding, one call for sampling and for training.

It reads the weights of a Hugging Face model; what attends to what is left to an `Attend` callable, because that is
the only thing in which decoding with a cache, prefilling and training with shared prefixes differ.

Covered: decoder-only models with rotary positions, RMS norm and a gated SiLU MLP (`llama`, `qwen2`, `qwen3`,
`mistral` without a sliding window), biases and per-head norms included. Everything else runs through the model's own
forward (`rl.policy.forward`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# (layer, q (N, H, D), k (N, Hk, D), v (N, Hk, D)) -> (N, H * D)
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]

FAMILIES = ("llama", "qwen2", "qwen3", "mistral")


class Layer(NamedTuple):
    """The weights of one block, with the projections that read the same input fused."""

    norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class Weights(NamedTuple):
    """What one forward pass reads."""

    embed: Tensor  # (V, E)
    layers: tuple[Layer, ...]
    norm: Tensor
    head: Tensor  # (V, E)


def supported(model: nn.Module) -> bool:
    """Whether `Decoder` computes the same function as the model's own forward."""
    config: Any = model.config
    if config.model_type not in FAMILIES or not hasattr(getattr(model, "model", None), "layers"):
        return False
    rope = config.rope_parameters or {}
    rotary = (
        rope.get("rope_type", "default") not in ("dynamic", "longrope") and rope.get("partial_rotary_factor", 1.0) == 1
    )
    plain = all(type(m) is nn.Linear for n, m in model.named_modules() if n.endswith("_proj"))
    variant = (
        getattr(config, "sliding_window", None) or getattr(config, "mlp_bias", False) or config.hidden_act != "silu"
    )
    return rotary and plain and not variant


def _bias(*linears: nn.Linear) -> Tensor | None:
    if all(linear.bias is None for linear in linears):
        return None
    return torch.cat(
        [linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias for linear in linears]
    )


class Decoder:
    """The forward pass of `model`, which stays the owner of the weights."""

    def __init__(self, model: nn.Module) -> None:
        """Raise `ValueError` when the family is not covered."""
        config: Any = model.config
        if not supported(model):
            raise ValueError(f"model type {config.model_type!r} has no lean forward; covered: {', '.join(FAMILIES)}")
        self.model: Any = model
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_dim: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.eps: float = config.rms_norm_eps
        self._rotary: tuple[Tensor, Tensor] | None = None

    def weights(self) -> Weights:
        """Fuse the current weights. Differentiable; sampling calls it once per policy version under no_grad."""
        return Weights(
            self.model.model.embed_tokens.weight,
            tuple(self._layers()),
            self.model.model.norm.weight,
            self.model.lm_head.weight,
        )

    def _layers(self) -> Iterator[Layer]:
        for block in self.model.model.layers:
            attention, mlp = block.self_attn, block.mlp
            q, k, v = attention.q_proj, attention.k_proj, attention.v_proj
            yield Layer(
                norm=block.input_layernorm.weight,
                qkv=torch.cat([q.weight, k.weight, v.weight]),
                qkv_bias=_bias(q, k, v),
                q_norm=attention.q_norm.weight if hasattr(attention, "q_norm") else None,
                k_norm=attention.k_norm.weight if hasattr(attention, "k_norm") else None,
                out=attention.o_proj.weight,
                out_bias=attention.o_proj.bias,
                mlp_norm=block.post_attention_layernorm.weight,
                gate_up=torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
                down=mlp.down_proj.weight,
            )

    def rotary(self, length: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosine and sine tables, (length or more, 1, head_dim), from the model's own rotary module."""
        table = self._rotary
        if table is None or len(table[0]) < length or table[0].device != device:
            rows = max(256, 1 << (length - 1).bit_length())
            with torch.no_grad():
                anchor = torch.zeros(1, dtype=dtype, device=device)
                cos, sin = self.model.model.rotary_emb(anchor, torch.arange(rows, device=device)[None])
            half = self.head_dim // 2
            # the sign of the rotated half is folded into the sine, so that rotating is one roll
            sin = torch.cat([-sin[0, :, :half], sin[0, :, half:]], -1)
            self._rotary = table = (cos[0][:, None].contiguous(), sin[:, None].contiguous())
        return table

    def hidden(self, weights: Weights, ids: Tensor, positions: Tensor, attend: Attend, longest: int) -> Tensor:
        """Final hidden states (N, E) of packed tokens `ids` (N,) at `positions` (N,), all below `longest`."""
        x = F.embedding(ids, weights.embed)
        cos_table, sin_table = self.rotary(longest, x.device, x.dtype)
        cos, sin = cos_table.index_select(0, positions), sin_table.index_select(0, positions)
        width, half, rotated = (self.head_dim,), self.head_dim // 2, self.heads + self.kv_heads
        for index, layer in enumerate(weights.layers):
            y = F.rms_norm(x, (x.shape[-1],), layer.norm, self.eps)
            qkv = F.linear(y, layer.qkv, layer.qkv_bias).view(len(ids), -1, self.head_dim)
            qk, v = qkv[:, :rotated], qkv[:, rotated:]
            if layer.q_norm is not None and layer.k_norm is not None:
                q = F.rms_norm(qk[:, : self.heads], width, layer.q_norm, self.eps)
                qk = torch.cat([q, F.rms_norm(qk[:, self.heads :], width, layer.k_norm, self.eps)], 1)
            qk = qk * cos + qk.roll(half, -1) * sin
            y = attend(index, qk[:, : self.heads], qk[:, self.heads :], v)
            x = x + F.linear(y, layer.out, layer.out_bias)
            y = F.rms_norm(x, (x.shape[-1],), layer.mlp_norm, self.eps)
            gate, up = F.linear(y, layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        return F.rms_norm(x, (x.shape[-1],), weights.norm, self.eps)
