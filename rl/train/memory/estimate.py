"""Estimate of the memory that a training run needs, from the shape of its model and the settings alone.

Weights, gradients and the optimiser's state are exact. Activations, logits and the cache are upper estimates: every
sequence is taken to be `--max-tokens` long with everything after the prompt sampled, and kernels to save what they save
on a CPU, or for families that the decoder covers on a GPU (`tests/rl/train/memory` compares with real tensors and with
measured peaks). Not included: CUDA's own memory, fragmentation, and vLLM, which takes a share of the free memory.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from torch import nn

from rl.learner import logprobs
from rl.policy.decoder import WIDE_HIDDEN_SIZE
from rl.policy.gpu.varlen import is_head_served
from rl.train.memory.model_shape import ModelShape
from rl.train.memory.vision import vision_bytes
from rl.train.memory.workload import FLOAT_BYTES, Workload

MAX_CACHE_BYTES = 4 * 2**30  # limit of the cache of `HFPolicy`
FROZEN_SLOTS = 256  # sequences that `HFPolicy` samples at a time unless it is told otherwise


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
    other_models: int = 0  # weights and caches of the models that play other seats or judge

    @property
    def total(self) -> int:
        """The sum, which is needed in the middle of a backward pass."""
        return sum(asdict(self).values())

    def summary(self) -> str:
        """Return the total and the parts that are not zero: `memory, about 3.0 GiB: weights 1.0 GiB, ...`."""
        parts = [f"{name.replace('_', ' ')} {size_text(size)}" for name, size in asdict(self).items() if size]
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
    shape = ModelShape.of(model, work.rank, work.targets)
    trainable = shape.adapters if work.rank else shape.weights
    master = FLOAT_BYTES * trainable if work.itemsize < FLOAT_BYTES else 0
    has_sampler, logits = work.slots > 0, _logits_bytes(shape, work)
    # While a block's values are computed again for its gradients, the logits are gone. What a block without recomputing
    # saved is freed as its gradients are computed.
    passing = _block_bytes(shape, work) + _gate_gradient_bytes(shape, work) if work.recompute else 0
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
        sampler=n * work.versions * sampler if has_sampler else 0,
        cache=n * work.versions * _cache_bytes(shape, sampling) if has_sampler else 0,
        activations=activation_bytes(model, work) + max(passing - logits, 0),
        vision=vision_bytes(model, _layout(shape, work)[1] * work.images, work.itemsize),
        logits=logits,
        other_models=work.other_models + work.past * _frozen_bytes(shape, work, trainable),
    )


def activation_bytes(model: nn.Module, work: Workload) -> int:
    """Estimate the bytes that the blocks save of one micro-batch for the backward pass, without the logits."""
    shape = ModelShape.of(model, work.rank, work.targets)
    tokens, rows, own = _layout(shape, work)
    hidden = tokens * shape.hidden * work.itemsize
    per_block = hidden if work.recompute else _block_bytes(shape, work) + _fused_bytes(shape, work)
    # of the last norm, and the input of the logits
    last = tokens * shape.hidden * (_norm_bytes(shape, work) + work.itemsize)
    if shape.packs:  # cosines and sines, and an additive mask
        mask = 0 if _is_maskless(shape, work) else rows * own * work.context
        last += (2 * tokens * shape.head_dim + mask) * work.itemsize
    else:  # a boolean mask, and one table of cosines and sines for all rows
        last += rows * work.context**2
    return int(last + shape.layers * per_block)


def frozen_bytes(model: nn.Module, context: int, slots: int) -> int:
    """Return the bytes of a model that is not trained and samples by the engine `hf`, with a full cache."""
    shape = ModelShape.of(model)
    itemsize = next(model.parameters()).element_size()
    return _frozen_bytes(shape, Workload(context, context, slots=slots, itemsize=itemsize), shape.weights)


def _frozen_bytes(shape: ModelShape, work: Workload, weights: int) -> int:
    """Bytes of so many frozen weights, what is made of them to sample, and a cache."""
    cache = _cache_bytes(shape, replace(work, slots=min(work.slots, FROZEN_SLOTS)))
    return weights * work.itemsize + shape.layers * _fused_bytes(shape, work) + cache


def training_state_bytes(model: nn.Module) -> int:
    """Return the bytes that training adds to the weights of `model`: gradients, moments and float32 copies."""
    total = 0
    for weight in model.parameters():
        if weight.requires_grad:
            total += weight.numel() * FLOAT_BYTES * (3 if weight.element_size() >= FLOAT_BYTES else 4)
    return total


def engine_reserve(
    model: nn.Module, memory: Estimate, *, policies: int, others: int, has_scores: bool, is_overlapping: bool
) -> int:
    """Return the bytes of a GPU that an engine leaves to training beside the weights that are there already.

    An engine that samples while updates are computed also leaves what these need for their time; another one sleeps
    meanwhile, but not while the model scores what was sampled.

    Args:
        model: The model that the engine samples.
        memory: Estimate of the run.
        policies: Number of policies that are trained.
        others: How many of them have not been put on the GPU yet.
        has_scores: Whether the recipe lets the model score replies before an update.
        is_overlapping: Whether the engine samples during updates.
    """
    weights = sum(weight.nbytes for weight in model.parameters())
    lasting = (others + 1) * (training_state_bytes(model) + memory.reference // policies) + others * weights
    if is_overlapping:
        return lasting + memory.activations + memory.vision + memory.logits
    return lasting + memory.logits * has_scores


def _is_maskless(shape: ModelShape, work: Workload) -> bool:
    """Whether attention is computed without a mask (`rl.policy.gpu.varlen`)."""
    return work.on_gpu and work.itemsize < FLOAT_BYTES and is_head_served(shape.head_dim) and not shape.is_capped


def _layout(shape: ModelShape, work: Workload) -> tuple[float, float, int]:
    """Return, for one micro-batch, the computed tokens, the rows, and the tokens of a row after its prompt."""
    prompt = min(work.prompt, work.context - 1)
    own = work.context - prompt
    row_tokens = own + prompt / work.size if shape.packs else work.context
    rows = max(1.0, work.microbatch_tokens / row_tokens)
    return rows * row_tokens, rows, own


def _block_bytes(shape: ModelShape, work: Workload) -> int:
    """Bytes that one block saves for its backward pass."""
    tokens, rows, _ = _layout(shape, work)
    attention = shape.queries + 2 * shape.keys
    adapters = work.rank * shape.adapter_layers
    if shape.is_lean:
        numbers = (
            (3 if work.on_gpu else 4) * shape.inner + (1 + shape.joins_heads) * attention + 3 * shape.queries + adapters
        )
        # Keys and values, the prompt's once per row; masks on a GPU need as many heads of them as of queries.
        width = shape.queries if work.on_gpu and not _is_maskless(shape, work) else shape.keys
        size = tokens * numbers + 2 * rows * work.context * width
        norms = 2 * shape.hidden * (_norm_bytes(shape, work) + work.itemsize)
        if shape.has_head_norms:  # in float32 their input is there already
            input_bytes = FLOAT_BYTES if work.itemsize == FLOAT_BYTES and shape.joins_heads else 0
            norms += (shape.queries + shape.keys) * (_norm_bytes(shape, work) - input_bytes)
        return int(size * work.itemsize + tokens * norms)
    numbers = 5 * shape.inner + 5 * shape.queries + 2 * shape.keys + 4 * shape.hidden + adapters
    size = tokens * numbers + (2 * rows * work.context * shape.keys if shape.packs else 0)
    return int(size * work.itemsize + tokens * 4 * shape.hidden * _norm_bytes(shape, work))


def _gate_gradient_bytes(shape: ModelShape, work: Workload) -> int:
    """Bytes of the gradients of the gate and what it multiplies, beside all that the block saved."""
    return int(2 * _layout(shape, work)[0] * shape.inner * work.itemsize) if shape.is_lean and work.on_gpu else 0


def _norm_bytes(shape: ModelShape, work: Workload) -> int:
    """Bytes per number that a norm saves: its float32 input and, if its weight is trained, the normalised input.

    The decoder's norms save one of both: on a GPU, where they are one kernel, their input as it is, and on a CPU in
    float32 the normalised input.
    """
    if shape.is_lean and (work.on_gpu or work.itemsize == FLOAT_BYTES):
        return work.itemsize
    return FLOAT_BYTES if work.rank else 2 * FLOAT_BYTES


def _fused_bytes(shape: ModelShape, work: Workload) -> int:
    """Bytes of one block's projections that are copied into one matrix; those with an adapter are not copied."""
    if not shape.is_lean or shape.hidden >= WIDE_HIDDEN_SIZE:
        return 0
    return shape.fused_outputs * shape.hidden * work.itemsize


def _logits_bytes(shape: ModelShape, work: Workload) -> int:
    """Bytes of the logits at their peak, and of what one chunk adds to the gradient of the output matrix."""
    _, rows, own = _layout(shape, work)
    tokens = rows * own
    lower_precision = work.itemsize if work.itemsize < FLOAT_BYTES else 0
    # logits, log-probabilities, probabilities and the product of both; what a head does to its logits beside them
    copies = 4 if shape.is_lean else 5
    if shape.packs and tokens * shape.vocab > logprobs.WHOLE_LOGITS:
        tokens = min(tokens, logprobs.chunk_tokens(shape.vocab, on_gpu=work.on_gpu, is_light=shape.is_lean))
        of_head = 0 if work.rank else shape.vocab * shape.hidden * work.itemsize
        if shape.is_lean and work.on_gpu:  # `rl.policy.gpu.softmax`; the chunks' gradients add up in float32
            of_head = 0 if work.rank else shape.vocab * shape.hidden * (FLOAT_BYTES + work.itemsize)
            return int(tokens * shape.vocab * work.itemsize) + of_head
        copies = 2 if shape.is_lean else copies
        return int(tokens * shape.vocab * (copies * FLOAT_BYTES + lower_precision)) + of_head
    return int(tokens * shape.vocab * (copies * FLOAT_BYTES + lower_precision))


def _cache_bytes(shape: ModelShape, work: Workload) -> int:
    """Bytes of cached keys and values, of all sequences at full length or of what fits into `MAX_CACHE_BYTES`."""
    sequence = 2 * shape.layers * shape.keys * work.itemsize * work.context
    return max(sequence, min(work.slots * sequence, MAX_CACHE_BYTES))
