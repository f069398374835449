"""A lean forward pass of Llama-shaped models over packed tokens: no padding, one call for sampling and for training.

It reads the weights of a Hugging Face model; what attends to what is left to an `Attend` callable, because that is
the only thing in which decoding with a cache, prefilling and training with shared prefixes differ.

Covered: decoder-only models with rotary positions, RMS norm and a gated SiLU MLP (`llama`, `qwen2`, `qwen3`,
`mistral` without a sliding window), biases and per-head norms included. Everything else runs through the model's own
forward (`rl.policy.forward`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rl.policy.projection import Projection, apply, read, readable, side_by_side

# (layer, q (N, H, D), k (N, Hk, D), v (N, Hk, D)) -> (N, H * D)
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]

FAMILIES = ("llama", "qwen2", "qwen3", "mistral")
# Hidden size from which on projections are not fused to be trained: the calls that this saves cost less than the copy.
WIDE = 1024


class Layer(NamedTuple):
    """The weights of one block; projections that read the same input stand together, fused where that pays."""

    norm: Tensor
    qkv: tuple[Projection, ...]
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Projection
    mlp_norm: Tensor
    gate_up: tuple[Projection, ...]
    down: Projection


class Weights(NamedTuple):
    """What one forward pass reads."""

    embed: Tensor  # (V, E)
    layers: Sequence[Layer]
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
    plain = all(readable(m) for n, m in model.named_modules() if n.endswith("_proj"))
    variant = (
        getattr(config, "sliding_window", None) or getattr(config, "mlp_bias", False) or config.hidden_act != "silu"
    )
    return rotary and plain and not variant


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
        self.wide: bool = config.hidden_size >= WIDE
        self._rotary: tuple[Tensor, Tensor] | None = None

    def weights(self, *, fused: bool = True) -> Weights:
        """The current weights, differentiable; a layer is read, and fused, whenever it is asked for.

        Sampling calls it once per policy version under no_grad, and keeps what it finds.
        """
        inner = self.model.model
        layers = Layers(inner.layers, fused)
        return Weights(inner.embed_tokens.weight, layers, inner.norm.weight, self.model.lm_head.weight)

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

    def hidden(
        self, weights: Weights, ids: Tensor, positions: Tensor, attend: Attend, longest: int, *, recompute: bool = False
    ) -> Tensor:
        """Final hidden states (N, E) of packed tokens `ids` (N,) at `positions` (N,), all below `longest`.

        With `recompute`, a backward pass computes every block again from its input, which is all that is kept of it
        (Chen et al., arXiv:1604.06174); the same operations in the same order, so the gradient has the same bits.
        """
        x = F.embedding(ids, weights.embed)
        cos_table, sin_table = self.rotary(longest, x.device, x.dtype)
        turn = cos_table.index_select(0, positions), sin_table.index_select(0, positions)
        block = partial(checkpoint, self._block, use_reentrant=False, preserve_rng_state=False)
        for index in range(len(weights.layers)):
            x = (block if recompute else self._block)(weights.layers, index, x, turn, attend)
        return F.rms_norm(x, (x.shape[-1],), weights.norm, self.eps)

    def _block(
        self, layers: Sequence[Layer], index: int, x: Tensor, turn: tuple[Tensor, Tensor], attend: Attend
    ) -> Tensor:
        layer = layers[index]
        (cos, sin), width = turn, (self.head_dim,)
        rotated = self.heads + self.kv_heads
        y = F.rms_norm(x, (x.shape[-1],), layer.norm, self.eps)
        qkv = apply(layer.qkv, y).view(len(x), -1, self.head_dim)
        qk, v = qkv[:, :rotated], qkv[:, rotated:]
        if layer.q_norm is not None and layer.k_norm is not None:
            q = F.rms_norm(qk[:, : self.heads], width, layer.q_norm, self.eps)
            qk = torch.cat([q, F.rms_norm(qk[:, self.heads :], width, layer.k_norm, self.eps)], 1)
        qk = qk * cos + qk.roll(self.head_dim // 2, -1) * sin
        y = attend(index, qk[:, : self.heads], qk[:, self.heads :], v)
        x = x + layer.out(y)
        y = F.rms_norm(x, (x.shape[-1],), layer.mlp_norm, self.eps)
        gate, up = apply(layer.gate_up, y).chunk(2, -1)
        return x + layer.down(F.silu(gate) * up)


class Layers(Sequence[Layer]):
    """The blocks of a model as they are at the moment: what is fused for one lives no longer than its reader."""

    def __init__(self, blocks: Sequence[Any], fused: bool) -> None:
        self.blocks, self.fused = blocks, fused

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: Any) -> Any:
        block = self.blocks[index]
        attention, mlp = block.self_attn, block.mlp
        return Layer(
            norm=block.input_layernorm.weight,
            qkv=side_by_side(attention.q_proj, attention.k_proj, attention.v_proj, fused=self.fused),
            q_norm=attention.q_norm.weight if hasattr(attention, "q_norm") else None,
            k_norm=attention.k_norm.weight if hasattr(attention, "k_norm") else None,
            out=read(attention.o_proj),
            mlp_norm=block.post_attention_layernorm.weight,
            gate_up=side_by_side(mlp.gate_proj, mlp.up_proj, fused=self.fused),
            down=read(mlp.down_proj),
        )
