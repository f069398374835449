"""What a training run needs of memory, from the model's shape and the settings, before any of it is taken.

Weights, gradients and the optimiser's state are exact. Activations, logits and the cache are upper estimates: every
history is as long as `--max-tokens` allows, all of it behind the prompt is sampled, and the kernels keep what they keep
on a CPU (`tests/rl/train/test_memory_estimate.py` compares). Left out: what CUDA itself takes, fragments, and vLLM, which takes a share
of what is free.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from rl.learner.forward import CHUNK
from rl.policy import lora
from rl.policy.decoder import WIDE, supported
from rl.policy.forward import text_config
from rl.settings import Settings

FLOAT = 4  # bytes of gradients, moments and logits, whatever the weights have
CACHE = 4 * 2**30  # what `HFPolicy` gives its cache at most


@dataclass(frozen=True)
class Work:
    """What a run does with its model, as far as memory goes."""

    microbatch_tokens: int
    context: int  # tokens of one history
    prompt: int = 1  # of these, shared by a group
    size: int = 1  # episodes of a group
    slots: int = 0  # sequences sampled at a time by the hf engine; 0 for one that keeps its own memory
    itemsize: int = FLOAT  # of a weight
    rank: int = 0  # of adapters; 0 trains the weights
    targets: str = lora.ALL
    recompute: bool = False
    reference: bool = False
    imitates: bool = False  # with every weight first, as a cold start does below adapters too


@dataclass(frozen=True)
class Estimate:
    """Bytes by what they are for."""

    weights: int
    gradients: int
    optimizer: int  # two moments, and a float32 copy of weights that are trained in less
    reference: int
    sampler: int  # the copy of the weights that is sampled from
    cache: int
    activations: int
    logits: int

    @property
    def total(self) -> int:
        """All of them at once, as they are in the middle of a backward pass."""
        return sum(asdict(self).values())

    def words(self) -> str:
        """The parts that are there, in a line."""
        parts = [f"{name} {shown(size)}" for name, size in asdict(self).items() if size]
        return f"memory, about {shown(self.total)}: {', '.join(parts)}"


def work(settings: Settings, prompt: int, slots: int, *, reference: bool, fresh: bool = True) -> Work:
    """What a run with these settings does: histories that open with `prompt` tokens, `slots` sampled at a time.

    One that is not `fresh` has its cold start behind it.
    """
    return Work(
        microbatch_tokens=settings.microbatch_tokens,
        context=settings.max_tokens,
        prompt=prompt,
        size=settings.size,
        slots=slots if settings.engine == "hf" else 0,
        itemsize=getattr(torch, settings.dtype).itemsize,
        rank=settings.lora,
        targets=settings.lora_targets,
        recompute=settings.checkpoint_activations,
        reference=reference,
        imitates=fresh and bool(settings.cold_start),
    )


def shown(size: float) -> str:
    """`1.5 GiB` for so many bytes."""
    unit, name = (2**30, "GiB") if size >= 2**30 else (2**20, "MiB")
    return f"{size / unit:.1f} {name}"


def estimate(model: nn.Module, work: Work) -> Estimate:
    """The bytes that `work` takes with `model`, which may be on the device `meta` and have adapters or not.

    Where a cold start takes more than the updates behind it, the bytes are those of the cold start.
    """
    if work.rank and work.imitates:
        first = estimate(model, replace(work, rank=0, reference=False, imitates=False))
        return max(first, estimate(model, replace(work, imitates=False)), key=lambda one: one.total)
    shape = _Shape.of(model, work)
    trained = shape.adapters if work.rank else shape.own
    master = FLOAT * trained if work.itemsize < FLOAT else 0
    sampled, logits = work.slots > 0, _logits(shape, work)
    # While one block's gradients are computed, and its own values again, the logits are gone.
    passing = _block(shape, work) * (2 if work.recompute else 1)
    return Estimate(
        weights=(shape.own + shape.adapters) * work.itemsize,
        gradients=trained * FLOAT,
        optimizer=2 * FLOAT * trained + master,
        reference=shape.own * work.itemsize if work.reference and not work.rank else 0,
        sampler=trained * work.itemsize + (shape.layers * _fused(shape, work) if work.rank else 0) if sampled else 0,
        cache=_cache(shape, work) if sampled else 0,
        activations=kept(model, work) + max(passing - logits, 0),
        logits=logits,
    )


def kept(model: nn.Module, work: Work) -> int:
    """Bytes that the blocks of one micro-batch keep for its backward pass, its logits apart."""
    shape = _Shape.of(model, work)
    tokens, rows, own = _layout(shape, work)
    hidden = tokens * shape.hidden * work.itemsize
    each = hidden if work.recompute else _block(shape, work) + _fused(shape, work)
    last = tokens * shape.hidden * (_norm(work) + work.itemsize)  # the last norm, and what logits are made of
    if shape.lean:  # cosines and sines, and the mask in numbers
        last += (2 * tokens * shape.head_dim + rows * own * work.context) * work.itemsize
    else:  # a mask of booleans, and one table for all rows
        last += rows * work.context**2
    return int(last + shape.layers * each)


def training_state_bytes(model: nn.Module) -> int:
    """Bytes that training adds to the weights of `model` as it is: gradients, moments, float32 copies."""
    total = 0
    for weight in model.parameters():
        if weight.requires_grad:
            total += weight.numel() * FLOAT * (3 if weight.element_size() >= FLOAT else 4)
    return total


@dataclass(frozen=True)
class _Shape:
    """Of a model, what the sizes depend on."""

    own: int  # weights, without adapters
    adapters: int
    adapted: int  # linear layers of one block that have an adapter
    beside: int  # outputs of projections of one block that read the same input and have none
    lean: bool
    layers: int
    hidden: int
    inner: int  # of the MLP, for one token
    queries: int
    keys: int
    head_dim: int
    vocab: int
    head_norms: bool

    @classmethod
    def of(cls, model: nn.Module, work: Work) -> _Shape:
        config = text_config(model)
        heads, hidden = config.num_attention_heads, config.hidden_size
        dim = getattr(config, "head_dim", None) or hidden // heads
        inner = getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None) or 4 * hidden
        keys = (getattr(config, "num_key_value_heads", None) or heads) * dim
        own = sum(weight.numel() for name, weight in model.named_parameters() if not lora.of_adapters(name))
        adapters, names = _adapters(model, work)
        ends = {name.rpartition(".")[2] for name in names}
        beside = 0 if ends & {"q_proj", "k_proj", "v_proj"} else heads * dim + 2 * keys
        beside += 0 if ends & {"gate_proj", "up_proj"} else 2 * inner
        return cls(
            own=own,
            adapters=adapters,
            adapted=math.ceil(len(names) / config.num_hidden_layers),
            beside=beside,
            lean=supported(model),
            layers=config.num_hidden_layers,
            hidden=hidden,
            inner=inner * (getattr(config, "num_experts_per_tok", None) or 1),
            queries=heads * dim,
            keys=keys,
            head_dim=dim,
            vocab=config.vocab_size,
            head_norms=any(name.endswith("q_norm") for name, _ in model.named_modules()),
        )


def _adapters(model: nn.Module, work: Work) -> tuple[int, list[str]]:
    """The weights of the adapters that the model has or would get, and the names of their layers."""
    if not work.rank:
        return 0, []
    if there := lora.layers(model):
        own = sum(weight.numel() for name, weight in model.named_parameters() if lora.of_adapters(name))
        return own, [name for name, _ in there]
    targets = lora.listed(work.targets)
    head: Any = getattr(model, "get_output_embeddings", lambda: None)()
    sizes: dict[str, int] = {
        name: sum(module.weight.shape)  # type: ignore[arg-type]
        for name, module in model.named_modules()
        if type(module).__name__ in ("Linear", "Conv1D")
        and module is not head
        and (targets == [lora.ALL] or name.rpartition(".")[2] in targets)
    }
    return work.rank * sum(sizes.values()), list(sizes)


def _layout(shape: _Shape, work: Work) -> tuple[float, float, int]:
    """Of one micro-batch: tokens that are computed, rows, and tokens of a row behind its prompt."""
    prompt = min(work.prompt, work.context - 1)
    own = work.context - prompt
    apiece = own + prompt / work.size if shape.lean else work.context  # the prompt of a group is computed once
    rows = max(1.0, work.microbatch_tokens / apiece)
    return rows * apiece, rows, own


def _block(shape: _Shape, work: Work) -> int:
    """Bytes that one block keeps for its backward pass."""
    tokens, rows, _ = _layout(shape, work)
    attention = shape.queries + 2 * shape.keys
    adapters = work.rank * shape.adapted
    if shape.lean:
        each = 4 * shape.inner + 2 * attention + 3 * shape.queries + adapters
        size = tokens * each + 2 * rows * work.context * shape.keys  # keys and values, the prompt's once per row
        norms = 2 * shape.hidden * (_norm(work) + work.itemsize)
        if shape.head_norms:  # in float32 their input is there already
            norms += (shape.queries + shape.keys) * (_norm(work) - (FLOAT if work.itemsize == FLOAT else 0))
        return int(size * work.itemsize + tokens * norms)
    each = 5 * shape.inner + 5 * shape.queries + 2 * shape.keys + 4 * shape.hidden + adapters
    return int(tokens * (each * work.itemsize + 4 * shape.hidden * _norm(work)))


def _norm(work: Work) -> int:
    """Bytes per number that a norm keeps: in float32 its input and, for the weight's gradient, that normalised."""
    return FLOAT if work.rank else 2 * FLOAT


def _fused(shape: _Shape, work: Work) -> int:
    """Bytes of one block's projections that are copied to be one; those with an adapter are not."""
    if not shape.lean or shape.hidden >= WIDE:
        return 0
    return shape.beside * shape.hidden * work.itemsize


def _logits(shape: _Shape, work: Work) -> int:
    """Bytes of the largest moment of the logits: themselves, log-probabilities, probabilities and their product."""
    _, rows, own = _layout(shape, work)
    tokens = rows * own
    if work.recompute and shape.lean:
        tokens = min(tokens, CHUNK)
    copies = 4 if shape.lean else 5
    return int(tokens * shape.vocab * (copies * FLOAT + (work.itemsize if work.itemsize < FLOAT else 0)))


def _cache(shape: _Shape, work: Work) -> int:
    """Bytes of keys and values, as many sequences as fit."""
    one = 2 * shape.layers * shape.keys * work.itemsize * work.context
    return one * max(1, min(work.slots, CACHE // one))
