"""One forward pass over rows: log-probabilities, entropies and hidden states of the sampled tokens.

Models of the families that `rl.policy.decoder` covers compute every shared prefix once; others go through their own
forward on padded sequences. With `recompute`, a backward pass computes every block again from its input (activation
checkpointing).

Legend: B rows, M sampled tokens, E hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from rl.learner import logprobs
from rl.learner.packing import Packing
from rl.methods.inputs import Row
from rl.policy.decoder import Decoder, is_supported


class TokenScores(NamedTuple):
    """Values of every sampled token, row by row; float32 except `hidden`, which has the model's precision."""

    hidden: Tensor  # (M, E) last hidden state that predicts the token
    logp: Tensor  # (M,) log-probability of the token, at its row's temperature
    entropy: Tensor  # (M,) entropy in nats of the distribution that the token was sampled from


def can_recompute(model: nn.Module) -> bool:
    """Whether the blocks of `model` are known, so that a backward pass can compute their activations again."""
    return is_supported(model) or bool(_blocks(model))


def score_tokens(
    model: Any, rows: Sequence[Row], device: torch.device, *, entropy_grad: bool = False, recompute: bool = False
) -> TokenScores:
    """Return log-probability (M,), entropy (M,) and hidden state (M, E) of the M sampled tokens of `rows`.

    All are float32 except the hidden states. The entropy carries a gradient only with `entropy_grad`. With `recompute`
    activations are computed again in the backward pass, which needs `can_recompute(model)`.
    """
    per_token = np.concatenate([np.full(int(row.mask.sum()), row.temperature, np.float32) for row in rows])
    temperature = torch.as_tensor(per_token, device=device)[:, None] if (per_token != 1).any() else None
    if not is_supported(model):
        states, logits, target = _padded_forward(model, rows, device, recompute)
        return TokenScores(states, *logprobs.of_logits(logits, target, temperature, entropy_grad=entropy_grad))
    states, head, target = _packed_forward(model, rows, device, recompute)
    return TokenScores(states, *logprobs.of_states(states, head, target, temperature, entropy_grad=entropy_grad))


def hidden_states(model: Any, rows: Sequence[Row], device: torch.device) -> Tensor:
    """Return the last hidden states (M, E) that predict the sampled tokens of `rows`, in the model's precision."""
    return (_packed_forward if is_supported(model) else _padded_forward)(model, rows, device, False)[0]


def _packed_forward(
    model: Any, rows: Sequence[Row], device: torch.device, recompute: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states (M, E) that predict the sampled tokens, the output matrix (V, E) and the tokens (M,)."""
    packing, decoder = Packing(rows, device), Decoder(model)
    weights = decoder.weights(fuse=not decoder.is_wide)
    states = decoder.hidden_states(
        weights, packing.ids, packing.position, packing, packing.max_length, recompute=recompute
    )
    return states.index_select(0, packing.predict), weights.head, packing.target


def _padded_forward(
    model: Any, rows: Sequence[Row], device: torch.device, recompute: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states (M, E), logits (M, V) and tokens (M,) by the model's own forward on right-padded sequences."""
    sequences = [np.concatenate([np.asarray(row.prefix, np.int64), row.ids]) for row in rows]
    width = max(map(len, sequences))
    ids, attention = np.zeros((len(rows), width), np.int64), np.zeros((len(rows), width), np.int64)
    places: list[tuple[int, int]] = []  # (row, column) that predicts each sampled token
    for i, (row, tokens) in enumerate(zip(rows, sequences, strict=True)):
        ids[i, : len(tokens)], attention[i, : len(tokens)] = tokens, 1
        places += [(i, len(row.prefix) + int(t) - 1) for t in np.nonzero(row.mask)[0]]
    line, column = (torch.as_tensor(index, device=device) for index in np.asarray(places).T)
    logit_columns, logit_index = column.unique(return_inverse=True)
    with _recompute_blocks(model) if recompute and torch.is_grad_enabled() else nullcontext():
        # the model's own logits, as some families scale, cap or shift the product with the output matrix
        out = model(
            input_ids=torch.as_tensor(ids, device=device),
            attention_mask=torch.as_tensor(attention, device=device),
            use_cache=False,
            output_hidden_states=True,
            logits_to_keep=logit_columns,
        )
    target = torch.as_tensor(np.concatenate([row.ids[row.mask] for row in rows]), device=device)
    return out.hidden_states[-1][line, column], out.logits[line, logit_index], target


def _blocks(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


@contextmanager
def _recompute_blocks(model: nn.Module) -> Iterator[None]:
    """Context in which a forward pass of `model` keeps only the input of every block.

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
