"""Estimate of the memory that a training run needs, from the shape of its model and the settings alone.

Weights, gradients and the optimiser's state are exact. Activations, logits and the cache are upper estimates: every
sequence is taken to be `--max-tokens` long with everything after the prompt sampled, and kernels to save what they save
on a CPU (`tests/rl/train/memory` compares with real tensors). Not included: CUDA's own memory,
fragmentation, and vLLM, which takes a share of the free memory.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import nn

from rl.learner import logprobs
from rl.learner.own_forward import may_pack
from rl.policy import lora
from rl.policy.decoder import WIDE_HIDDEN_SIZE, is_supported
from rl.policy.model_config import text_config
from rl.train.memory.vision import vision_bytes
from rl.train.memory.workload import FLOAT_BYTES, Workload

MAX_CACHE_BYTES = 4 * 2**30  # limit of the cache of `HFPolicy`


@dataclass(frozen=True)
class Estimate:
    """The memory that a run needs, in bytes by purpose."""

    weights: int
    gradients: int
    optimizer: int  # two moments, and a float32 copy of trained weights of lower precision
    reference: int
    sampler: int  # the copy of the weights that is sampled from
    cache: int
    activations: int
    vision: int  # activations of a vision tower
    logits: int

    @property
    def total(self) -> int:
        """The sum, which is needed in the middle of a backward pass."""
        return sum(asdict(self).values())

    def summary(self) -> str:
        """Return the total and the parts that are not zero: `memory, about 3.0 GiB: weights 1.0 GiB, ...`."""
        parts = [f"{name} {size_text(size)}" for name, size in asdict(self).items() if size]
        return f"memory, about {size_text(self.total)}: {', '.join(parts)}"


def size_text(size: float) -> str:
    """Return a number of bytes as text with one decimal: `1.5 GiB`, or below 1 GiB in MiB, as `0.5 MiB`."""
    unit, name = (2**30, "GiB") if size >= 2**30 else (2**20, "MiB")
    return f"{size / unit:.1f} {name}"


def estimate(model: nn.Module, work: Workload) -> Estimate:
    """Estimate the bytes that `work` takes.

    `model` may be on the device `meta`, and may have its adapters already or not. If the cold start takes more memory
    than the updates after it, the estimate is that of the cold start.
    """
    if work.rank and work.cold_start:
        first = estimate(model, replace(work, rank=0, reference=False, cold_start=False))
        return max(first, estimate(model, replace(work, cold_start=False)), key=lambda one: one.total)
    shape = _Shape.of(model, work)
    trainable = shape.adapters if work.rank else shape.weights
    master = FLOAT_BYTES * trainable if work.itemsize < FLOAT_BYTES else 0
    has_sampler, logits = work.slots > 0, _logits_bytes(shape, work)
    # While a block's values are computed again for its gradients, the logits are gone. What a block without recomputing
    # saved is freed as its gradients are computed.
    passing = _block_bytes(shape, work) if work.recompute else 0
    sampling = replace(work, itemsize=work.sampler_itemsize or work.itemsize)
    copy_size = shape.weights + shape.adapters if work.sampler_itemsize else trainable
    sampler = copy_size * sampling.itemsize + (shape.layers * _fused_bytes(shape, sampling) if work.rank else 0)
    n, shards = work.policies, work.shards
    if shards > 1:  # in float32, beside the run's own copy
        master = FLOAT_BYTES * (shape.weights + shape.adapters)
    reference = n * shape.weights * (FLOAT_BYTES if shards > 1 else work.itemsize)
    return Estimate(
        weights=(shape.weights * (1 if work.rank else n) + shape.adapters * n) * work.itemsize,
        gradients=n * trainable * FLOAT_BYTES // shards,
        optimizer=n * (2 * FLOAT_BYTES * trainable + master) // shards,
        reference=reference // shards if work.reference and not work.rank else 0,
        sampler=n * sampler if has_sampler else 0,
        cache=n * _cache_bytes(shape, sampling) if has_sampler else 0,
        activations=activation_bytes(model, work) + max(passing - logits, 0),
        vision=vision_bytes(model, _layout(shape, work)[1] * work.images, work.itemsize),
        logits=logits,
    )


def activation_bytes(model: nn.Module, work: Workload) -> int:
    """Estimate the bytes that the blocks save of one micro-batch for the backward pass, without the logits."""
    shape = _Shape.of(model, work)
    tokens, rows, own = _layout(shape, work)
    hidden = tokens * shape.hidden * work.itemsize
    per_block = hidden if work.recompute else _block_bytes(shape, work) + _fused_bytes(shape, work)
    last = tokens * shape.hidden * (_norm_bytes(work) + work.itemsize)  # the last norm, and the input of the logits
    if shape.packs:  # cosines and sines, and an additive mask
        last += (2 * tokens * shape.head_dim + rows * own * work.context) * work.itemsize
    else:  # a boolean mask, and one table of cosines and sines for all rows
        last += rows * work.context**2
    return int(last + shape.layers * per_block)


def training_state_bytes(model: nn.Module) -> int:
    """Return the bytes that training adds to the weights of `model`: gradients, moments and float32 copies."""
    total = 0
    for weight in model.parameters():
        if weight.requires_grad:
            total += weight.numel() * FLOAT_BYTES * (3 if weight.element_size() >= FLOAT_BYTES else 4)
    return total


@dataclass(frozen=True)
class _Shape:
    """The sizes of a model that memory depends on."""

    weights: int  # number of weights without those of adapters
    adapters: int  # number of weights of adapters
    adapter_layers: int  # linear layers per block that have an adapter
    fused_outputs: int  # outputs per block of projections that share their input and have no adapter
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

    @classmethod
    def of(cls, model: nn.Module, work: Workload) -> _Shape:
        config = text_config(model)
        heads, hidden = config.num_attention_heads, config.hidden_size
        dim = getattr(config, "head_dim", None) or hidden // heads
        inner = getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None) or 4 * hidden
        keys = (getattr(config, "num_key_value_heads", None) or heads) * dim
        weights = sum(weight.numel() for name, weight in model.named_parameters() if not lora.is_adapter_weight(name))
        adapters, names = _adapters(model, work)
        targets = {name.rpartition(".")[2] for name in names}
        fused_outputs = 0 if targets & {"q_proj", "k_proj", "v_proj"} else heads * dim + 2 * keys
        fused_outputs += 0 if targets & {"gate_proj", "up_proj"} else 2 * inner
        return cls(
            weights=weights,
            adapters=adapters,
            adapter_layers=math.ceil(len(names) / config.num_hidden_layers),
            fused_outputs=fused_outputs,
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
        )


def _adapters(model: nn.Module, work: Workload) -> tuple[int, list[str]]:
    """Count the weights of the adapters that the model has or would get; return it with the names of their layers."""
    if not work.rank:
        return 0, []
    if layers := lora.adapter_layers(model):
        count = sum(weight.numel() for name, weight in model.named_parameters() if lora.is_adapter_weight(name))
        return count, [name for name, _ in layers]
    targets = lora.parse_targets(work.targets)
    head: Any = getattr(model, "get_output_embeddings", lambda: None)()
    sizes: dict[str, int] = {
        name: sum(module.weight.shape)  # type: ignore[arg-type]
        for name, module in model.named_modules()
        if type(module).__name__ in ("Linear", "Conv1D")
        and module is not head
        and (targets == [lora.ALL] or name.rpartition(".")[2] in targets)
    }
    return work.rank * sum(sizes.values()), list(sizes)


def _layout(shape: _Shape, work: Workload) -> tuple[float, float, int]:
    """Return, for one micro-batch, the computed tokens, the rows, and the tokens of a row after its prompt."""
    prompt = min(work.prompt, work.context - 1)
    own = work.context - prompt
    row_tokens = own + prompt / work.size if shape.packs else work.context
    rows = max(1.0, work.microbatch_tokens / row_tokens)
    return rows * row_tokens, rows, own


def _block_bytes(shape: _Shape, work: Workload) -> int:
    """Bytes that one block saves for its backward pass."""
    tokens, rows, _ = _layout(shape, work)
    attention = shape.queries + 2 * shape.keys
    adapters = work.rank * shape.adapter_layers
    if shape.is_lean:
        numbers = 4 * shape.inner + 2 * attention + 3 * shape.queries + adapters
        size = tokens * numbers + 2 * rows * work.context * shape.keys  # keys and values, the prompt's once per row
        norms = 2 * shape.hidden * (_norm_bytes(work) + work.itemsize)
        if shape.has_head_norms:  # in float32 their input is there already
            input_bytes = FLOAT_BYTES if work.itemsize == FLOAT_BYTES else 0
            norms += (shape.queries + shape.keys) * (_norm_bytes(work) - input_bytes)
        return int(size * work.itemsize + tokens * norms)
    numbers = 5 * shape.inner + 5 * shape.queries + 2 * shape.keys + 4 * shape.hidden + adapters
    size = tokens * numbers + (2 * rows * work.context * shape.keys if shape.packs else 0)
    return int(size * work.itemsize + tokens * 4 * shape.hidden * _norm_bytes(work))


def _norm_bytes(work: Workload) -> int:
    """Bytes per number that a norm saves: its float32 input and, if its weight is trained, the normalised input."""
    return FLOAT_BYTES if work.rank else 2 * FLOAT_BYTES


def _fused_bytes(shape: _Shape, work: Workload) -> int:
    """Bytes of one block's projections that are copied into one matrix; those with an adapter are not copied."""
    if not shape.is_lean or shape.hidden >= WIDE_HIDDEN_SIZE:
        return 0
    return shape.fused_outputs * shape.hidden * work.itemsize


def _logits_bytes(shape: _Shape, work: Workload) -> int:
    """Bytes of the logits at their peak, and of what one chunk adds to the gradient of the output matrix."""
    _, rows, own = _layout(shape, work)
    tokens = rows * own
    lower_precision = work.itemsize if work.itemsize < FLOAT_BYTES else 0
    # logits, log-probabilities, probabilities and the product of both; what a head does to its logits beside them
    copies = 4 if shape.is_lean else 5
    if shape.packs and tokens * shape.vocab > logprobs.WHOLE_LOGITS:
        tokens = min(tokens, logprobs.chunk_tokens(shape.vocab))
        of_head = 0 if work.rank else shape.vocab * shape.hidden * work.itemsize
        copies = 2 if shape.is_lean else copies
        return int(tokens * shape.vocab * (copies * FLOAT_BYTES + lower_precision)) + of_head
    return int(tokens * shape.vocab * (copies * FLOAT_BYTES + lower_precision))


def _cache_bytes(shape: _Shape, work: Workload) -> int:
    """Bytes of cached keys and values, for as many sequences as fit into `MAX_CACHE_BYTES`."""
    sequence = 2 * shape.layers * shape.keys * work.itemsize * work.context
    return sequence * max(1, min(work.slots, MAX_CACHE_BYTES // sequence))
