"""A forward pass of Llama-shaped models over packed tokens, without padding, shared by sampling and training.

It reads the weights of a Hugging Face model. Attention is left to a callable (`AttentionFn`), because that is the only
thing in which decoding with a cache, prefilling and training with shared prefixes differ.

Covered: decoder-only models with rotary positions, RMS norm and a gated SiLU MLP (`llama`, `qwen2`, `qwen3`,
`mistral` without a sliding window), biases and per-head norms included. Everything else runs through the model's own
forward (`rl.policy.cached_forward`, `rl.learner.forward`).

Legend: N packed tokens, E hidden size, V vocabulary, H heads, Hk key-value heads, D head size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from rl.policy.gpu.kernels import elementwise_kernels
from rl.policy.projection import Projection, apply_two, is_readable, read_projection, read_projections

# (layer, q (N, H, D), k (N, Hk, D), v (N, Hk, D)) -> (N, H * D)
AttentionFn = Callable[[int, Tensor, Tensor, Tensor], Tensor]

CALL = "call_inside"  # a method of models that are sharded (`rl.learner.ranks.sharded`), within which weights are whole
FAMILIES = ("llama", "qwen2", "qwen3", "mistral")
# Hidden size from which on projections are not fused for training: the calls that this saves cost less than the copy.
WIDE_HIDDEN_SIZE = 1024


class LayerWeights(NamedTuple):
    """The weights of one block; projections that read the same input are one tuple, fused where that pays."""

    norm: Tensor  # (E,)
    qkv: tuple[Projection, ...]
    q_norm: Tensor | None  # (D,)
    k_norm: Tensor | None  # (D,)
    out: Projection
    mlp_norm: Tensor  # (E,)
    gate_up: tuple[Projection, ...]
    down: Projection


class Weights(NamedTuple):
    """The weights that a forward pass reads."""

    embed: Tensor  # (V, E)
    layers: Sequence[LayerWeights]
    norm: Tensor  # (E,)
    head: Tensor  # (V, E)


def is_supported(model: nn.Module) -> bool:
    """Whether `Decoder` computes the same function as the own forward of `model`, a Hugging Face model.

    True for the model types `FAMILIES` with rotary positions over the whole head, fixed for all lengths, and
    projections that are plain linear layers or have one LoRA adapter; False with a sliding window or biases in the MLP,
    and for a sharded model, whose blocks have whole weights in their own forward only.
    """
    config: Any = model.config
    if hasattr(model, CALL):
        return False
    if config.model_type not in FAMILIES or not hasattr(getattr(model, "model", None), "layers"):
        return False
    rope = config.rope_parameters or {}
    rotary = (
        rope.get("rope_type", "default") not in ("dynamic", "longrope") and rope.get("partial_rotary_factor", 1.0) == 1
    )
    plain = all(is_readable(m) for n, m in model.named_modules() if n.endswith("_proj"))
    variant = (
        getattr(config, "sliding_window", None) or getattr(config, "mlp_bias", False) or config.hidden_act != "silu"
    )
    return rotary and plain and not variant


class Decoder:
    """The packed forward pass of `model`, which keeps the weights."""

    def __init__(self, model: nn.Module) -> None:
        """Raise `ValueError` if the family is not covered (`is_supported`)."""
        config: Any = model.config
        if not is_supported(model):
            raise ValueError(f"model type {config.model_type!r} has no packed forward; covered: {', '.join(FAMILIES)}")
        self.model: Any = model
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_dim: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.eps: float = config.rms_norm_eps
        self.is_wide: bool = config.hidden_size >= WIDE_HIDDEN_SIZE
        self._rotary: tuple[Tensor, Tensor] | None = None

    def weights(self, *, fuse: bool = True) -> Weights:
        """Return the current weights, differentiable. A layer is read, and with `fuse` fused, on every access.

        Sampling reads them once per policy version under no_grad and keeps a copy.
        """
        inner = self.model.model
        layers = Layers(inner.layers, fuse)
        return Weights(inner.embed_tokens.weight, layers, inner.norm.weight, self.model.lm_head.weight)

    def rotary_tables(self, length: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return cosines and sines (rows, 1, D) for at least `length` positions, from the model's own rotary module.

        The tables are cached. The sines of the first half are negated, so that rotating is one roll.
        """
        tables = self._rotary
        if tables is None or len(tables[0]) < length or tables[0].device != device:
            rows = max(256, 1 << (length - 1).bit_length())
            with torch.no_grad():
                anchor = torch.zeros(1, dtype=dtype, device=device)
                cos, sin = self.model.model.rotary_emb(anchor, torch.arange(rows, device=device)[None])
            half = self.head_dim // 2
            sin = torch.cat([-sin[0, :, :half], sin[0, :, half:]], -1)
            self._rotary = tables = (cos[0][:, None].contiguous(), sin[:, None].contiguous())
        return tables

    def hidden_states(
        self,
        weights: Weights,
        ids: Tensor,
        positions: Tensor,
        attention: AttentionFn,
        max_length: int,
        *,
        recompute: bool = False,
    ) -> Tensor:
        """Return the final hidden states (N, E) of packed tokens.

        Args:
            weights: Of `weights`, or a copy of them.
            ids: (N,) token ids.
            positions: (N,) positions in their sequences, all below `max_length`.
            attention: Which token attends to which.
            max_length: Length of the longest sequence.
            recompute: Keep only the input of every block, and compute the block again in the backward pass (Chen et
                al., arXiv:1604.06174); the same operations in the same order, so the gradient has the same bits.
        """
        x = F.embedding(ids, weights.embed)
        cos_table, sin_table = self.rotary_tables(max_length, x.device, x.dtype)
        rotary = cos_table.index_select(0, positions), sin_table.index_select(0, positions)
        block = partial(checkpoint, self._block, use_reentrant=False, preserve_rng_state=False)
        for index in range(len(weights.layers)):
            x = (block if recompute else self._block)(weights.layers, index, x, rotary, attention)
        return rms_norm(x, weights.norm, self.eps)

    def _block(
        self,
        layers: Sequence[LayerWeights],
        index: int,
        x: Tensor,
        rotary: tuple[Tensor, Tensor],
        attention: AttentionFn,
    ) -> Tensor:
        """Apply block `index` to x (N, E)."""
        layer = layers[index]
        cos, sin = rotary
        qk_heads = self.heads + self.kv_heads
        y = rms_norm(x, layer.norm, self.eps)
        if len(layer.qkv) == 1:
            qkv = layer.qkv[0](y).view(x.shape[0], -1, self.head_dim)
            qk, v = qkv.split((qk_heads, self.kv_heads), 1)  # the gradient of slices would be padded and summed
            if layer.q_norm is not None and layer.k_norm is not None:
                q, k = qk.split((self.heads, self.kv_heads), 1)
                q = rms_norm(q, layer.q_norm, self.eps)
                qk = torch.cat([q, rms_norm(k, layer.k_norm, self.eps)], 1)
            q, k = rotate(qk, cos, sin).split((self.heads, self.kv_heads), 1)
        else:
            q, k, v = (one(y).view(x.shape[0], -1, self.head_dim) for one in layer.qkv)
            if layer.q_norm is not None and layer.k_norm is not None:
                q = rms_norm(q, layer.q_norm, self.eps)
                k = rms_norm(k, layer.k_norm, self.eps)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = attention(index, q, k, v)
        x = x + layer.out(y)
        y = rms_norm(x, layer.mlp_norm, self.eps)
        return x + layer.down(gated(layer.gate_up, y))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return heads x (N, H, D) at positions with these cosines and sines (N, 1, D), those of the first half negated."""
    if kernels := elementwise_kernels(x):
        return kernels.rotate(x, cos, sin)
    return x * cos + x.roll(x.shape[-1] // 2, -1) * sin


def gated_silu(gate: Tensor, up: Tensor) -> Tensor:
    """Return silu(gate) * up for gate and up (N, F)."""
    kernels = elementwise_kernels(gate)
    return kernels.gated_silu(gate, up) if kernels else F.silu(gate) * up


def gated(projections: Sequence[Projection], x: Tensor) -> Tensor:
    """Return silu(gate) * up (N, F) of x (N, E), with projections that are one tuple, fused or not."""
    if len(projections) == 1 and on_cpu_with_gradient(x):
        return _GatedSilu.apply(projections[0](x))
    return gated_silu(*apply_two(projections, x))


class _GatedSilu(torch.autograd.Function):
    """`gated_silu` of both halves of (N, 2F), whose gradient is written in its place instead of being joined."""

    @staticmethod
    def forward(ctx: Any, both: Tensor) -> Tensor:
        gate, up = both.chunk(2, -1)
        active = F.silu(gate)
        ctx.save_for_backward(both, active)
        return active * up

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        both, active = ctx.saved_tensors
        (gate, up), out = both.chunk(2, -1), torch.empty_like(both)
        torch.mul(grad, active, out=out[:, active.shape[-1] :])
        torch.ops.aten.silu_backward.grad_input(grad * up, gate, grad_input=out[:, : active.shape[-1]])
        return out


def on_cpu_with_gradient(x: Tensor) -> bool:
    """Whether to use gradients of our own, which are for the precision of training on a CPU."""
    return torch.is_grad_enabled() and x.dtype == torch.float32 and x.device.type == "cpu"


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return x (..., E) over its root mean square, times the weight (E,)."""
    if on_cpu_with_gradient(x):
        return _RMSNorm.apply(x, weight, eps)
    return F.rms_norm(x, weight.shape, weight, eps)


class _RMSNorm(torch.autograd.Function):
    """`F.rms_norm` in float32 with a gradient of half as many passes over memory; the same bits forward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        scale = x.pow(2).mean(-1, keepdim=True).add_(eps).rsqrt_()
        unit = x * scale
        ctx.save_for_backward(unit, scale, weight)
        return unit * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        unit, scale, weight = ctx.saved_tensors
        product = grad * unit
        along = (product @ weight).unsqueeze(-1)
        inner = (grad * weight).addcmul_(unit, along, value=-1 / unit.shape[-1])
        of_weight = product.flatten(0, -2).sum(0) if ctx.needs_input_grad[1] else None
        return inner.mul_(scale), of_weight, None


class Layers(Sequence[LayerWeights]):
    """The current weights of a model's blocks, read on access: a fused copy lives as long as its reader holds it."""

    def __init__(self, blocks: Sequence[Any], fuse: bool) -> None:
        self.blocks, self.fuse = blocks, fuse

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: Any) -> Any:
        block = self.blocks[index]
        attention, mlp = block.self_attn, block.mlp
        return LayerWeights(
            norm=block.input_layernorm.weight,
            qkv=read_projections(attention.q_proj, attention.k_proj, attention.v_proj, fuse=self.fuse),
            q_norm=attention.q_norm.weight if hasattr(attention, "q_norm") else None,
            k_norm=attention.k_norm.weight if hasattr(attention, "k_norm") else None,
            out=read_projection(attention.o_proj),
            mlp_norm=block.post_attention_layernorm.weight,
            gate_up=read_projections(mlp.gate_proj, mlp.up_proj, fuse=self.fuse),
            down=read_projection(mlp.down_proj),
        )
