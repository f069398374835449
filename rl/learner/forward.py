"""One forward pass over rows: the hidden states in front of the sampled tokens, and what the model says of these.

Covered families share prefixes and go through `rl.policy.decoder`; the others through their own forward, padded.
With `recompute`, a backward pass computes every block, and for covered families the logits, again from their inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from rl.learner.packing import Packing
from rl.methods.inputs import Row
from rl.policy.decoder import Decoder, supported

CHUNK = 1024  # sampled tokens whose logits are there at a time when they are recomputed


class Said(NamedTuple):
    """About every sampled token, row by row, in float32 but for `hidden`, which has the model's precision."""

    hidden: Tensor  # (M, E) in front of the token
    logp: Tensor  # (M,) of the token, at its row's temperature
    entropy: Tensor  # (M,) of the distribution that it was drawn from


def recomputable(model: nn.Module) -> bool:
    """Whether the blocks of `model` are known, so that they can be computed again."""
    return supported(model) or bool(_blocks(model))


def said(
    model: Any, rows: Sequence[Row], device: torch.device, *, entropy_grad: bool = False, recompute: bool = False
) -> Said:
    """What `model` says of the sampled tokens of `rows`; the entropy has a gradient if `entropy_grad`."""
    heat = np.concatenate([np.full(int(row.mask.sum()), row.temperature, np.float32) for row in rows])
    temperature = torch.as_tensor(heat, device=device)[:, None] if (heat != 1).any() else None
    if not supported(model):
        states, logits, target = _padded(model, rows, device, recompute)
        return Said(states, *_of_logits(logits, target, temperature, entropy_grad))
    states, head, target = _packed(model, rows, device, recompute)
    if not recompute:
        return Said(states, *_of_hidden(states, head, target, temperature, entropy_grad))
    of = partial(checkpoint, _of_hidden, use_reentrant=False, preserve_rng_state=False)
    parts = [
        (of if torch.is_grad_enabled() else _of_hidden)(
            states[first : first + CHUNK],
            head,
            target[first : first + CHUNK],
            None if temperature is None else temperature[first : first + CHUNK],
            entropy_grad,
        )
        for first in range(0, len(target), CHUNK)
    ]
    logp, entropy = zip(*parts, strict=True)
    return Said(states, torch.cat(logp), torch.cat(entropy))


def hidden(model: Any, rows: Sequence[Row], device: torch.device) -> Tensor:
    """Hidden states (M, E) in front of the sampled tokens alone."""
    return (_packed if supported(model) else _padded)(model, rows, device, False)[0]


def _of_hidden(
    states: Tensor, head: Tensor, target: Tensor, temperature: Tensor | None, entropy_grad: bool
) -> tuple[Tensor, Tensor]:
    return _of_logits(F.linear(states, head), target, temperature, entropy_grad)


def _of_logits(logits: Tensor, target: Tensor, temperature: Tensor | None, entropy_grad: bool) -> tuple[Tensor, Tensor]:
    logits = logits.float()
    if temperature is not None:
        logits = logits / temperature
    logprobs = logits.log_softmax(-1)
    source = logprobs if entropy_grad else logprobs.detach()
    return logprobs.gather(1, target[:, None]).squeeze(1), -(source.exp() * source).sum(-1)


def _packed(model: Any, rows: Sequence[Row], device: torch.device, recompute: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states that predict the sampled tokens (M, E), the output matrix (V, E) and the tokens (M,)."""
    packing, decoder = Packing(rows, device), Decoder(model)
    weights = decoder.weights(fused=not decoder.wide)
    every = decoder.hidden(weights, packing.ids, packing.position, packing, packing.longest, recompute=recompute)
    return every.index_select(0, packing.predict), weights.head, packing.target


def _padded(model: Any, rows: Sequence[Row], device: torch.device, recompute: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, logits (M, V) and tokens by the model's own forward, one right-padded row per history."""
    full = [np.concatenate([np.asarray(row.prefix, np.int64), row.ids]) for row in rows]
    width = max(map(len, full))
    ids, attention = np.zeros((len(rows), width), np.int64), np.zeros((len(rows), width), np.int64)
    where: list[tuple[int, int]] = []
    for i, (row, tokens) in enumerate(zip(rows, full, strict=True)):
        ids[i, : len(tokens)], attention[i, : len(tokens)] = tokens, 1
        where += [(i, len(row.prefix) + int(t) - 1) for t in np.nonzero(row.mask)[0]]
    line, column = (torch.as_tensor(index, device=device) for index in np.asarray(where).T)
    kept, among = column.unique(return_inverse=True)
    with _recomputed(model) if recompute and torch.is_grad_enabled() else nullcontext():
        # the model's own logits, as some families scale, cap or shift what the output matrix gives
        out = model(
            input_ids=torch.as_tensor(ids, device=device),
            attention_mask=torch.as_tensor(attention, device=device),
            use_cache=False,
            output_hidden_states=True,
            logits_to_keep=kept,
        )
    target = torch.as_tensor(np.concatenate([row.ids[row.mask] for row in rows]), device=device)
    return out.hidden_states[-1][line, column], out.logits[line, among], target


def _blocks(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


@contextmanager
def _recomputed(model: nn.Module) -> Iterator[None]:
    """Keep no more of a block than its input, in a forward pass inside.

    The library's own switch works in training mode alone, which would also turn dropout on.
    """
    blocks: list[Any] = _blocks(model)
    for block in blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False, preserve_rng_state=False)
    try:
        yield
    finally:
        for block in blocks:
            del block.forward
