"""One forward pass over rows: log-probabilities, entropies and hidden states of the sampled tokens.

Every shared prefix is computed once: models of the families that `rl.policy.decoder` covers go through it, others
through their own blocks on packed tokens (`rl.learner.attention`). Models whose blocks would mix packed sequences are
computed on padded ones. With `recompute`, a backward pass computes every block again from its input (activation
checkpointing).

Legend: B rows, M sampled tokens, E hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from rl.learner import logprobs
from rl.learner.attention import packed_attention
from rl.learner.own_forward import abilities, own_head, packed_states
from rl.learner.packing import Packing
from rl.methods.inputs import Row
from rl.policy.decoder import CALL, Decoder, is_supported
from rl.policy.images.inputs import image_inputs
from rl.policy.model_config import text_config
from rl.policy.sampling import keyed_uniforms

T = TypeVar("T")


class TokenScores(NamedTuple):
    """Values of every sampled token, row by row; float32 except `hidden`, which has the model's precision.

    `further` are other numbers (M,) by name, for rows that ask for them (`_draws`).
    """

    hidden: Tensor  # (M, E) last hidden state that predicts the token
    logp: Tensor  # (M,) log-probability of the token, at its row's temperature
    entropy: Tensor  # (M,) entropy in nats of the distribution that the token was sampled from
    further: Mapping[str, Tensor] = {}


def inside(model: Any, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Return `function(model, ...)`; where the model is sharded, its weights are gathered meanwhile."""
    call = getattr(model, CALL, None)
    return function(model, *args, **kwargs) if call is None else call(function, *args, **kwargs)


def can_recompute(model: nn.Module) -> bool:
    """Whether the blocks of `model` are known, so that a backward pass can compute their activations again."""
    return is_supported(model) or bool(blocks(model))


def score_tokens(
    model: Any, rows: Sequence[Row], device: torch.device, *, entropy_grad: bool = False, recompute: bool = False
) -> TokenScores:
    """Return log-probability (M,), entropy (M,) and hidden state (M, E) of the M sampled tokens of `rows`.

    All are float32 except the hidden states. The entropy carries a gradient only with `entropy_grad`. With `recompute`
    activations are computed again in the backward pass, which needs `can_recompute(model)`.
    """
    per_token = np.concatenate([np.full(int(row.mask.sum()), row.temperature, np.float32) for row in rows])
    temperature = torch.as_tensor(per_token, device=device)[:, None] if (per_token != 1).any() else None
    rows = _with_codes(model, rows)
    if not is_supported(model) and not abilities(model).has_head:
        states, logits, target = _whole(model, rows, device, recompute)
        scores = logprobs.of_logits(logits, target, temperature, entropy_grad=entropy_grad)
        draws = _draws(rows, logits, lambda logits: logits, logits.shape[-1], target, temperature)
        return TokenScores(states, *scores, draws)
    states, target = _states(model, rows, device, recompute)
    if is_supported(model) or abilities(model).has_plain_head:
        head = model.get_output_embeddings().weight
        scores = logprobs.of_states(states, head, target, temperature, entropy_grad=entropy_grad)
        draws = _draws(rows, states, lambda states: F.linear(states, head), len(head), target, temperature)
    else:
        vocabulary = text_config(model).vocab_size
        scores = logprobs.of_head(states, own_head(model), vocabulary, target, temperature, entropy_grad=entropy_grad)
        draws = _draws(rows, states, own_head(model), vocabulary, target, temperature)
    return TokenScores(states, *scores, draws)


def _draws(
    rows: Sequence[Row],
    states: Tensor,
    head: Callable[[Tensor], Tensor],
    vocabulary: int,
    target: Tensor,
    temperature: Tensor | None,
) -> dict[str, Tensor]:
    """`drawn` and `hits` (M,) of as many tokens as the rows' stream `draws` asks for at each position; else nothing.

    A draw is keyed by the row's stream `draw_seed` and its place, so that a second pass over the same rows draws the
    same where the model is the same.
    """
    if not all("draws" in row.streams for row in rows):
        return {}
    count = int(max(row.streams["draws"].max() for row in rows))
    parts = []
    for row in rows:
        places = np.flatnonzero(row.mask)
        seeds = np.repeat(row.streams["draw_seed"][places].astype(np.uint64), count)
        parts.append(keyed_uniforms(seeds, (places[:, None] * count + np.arange(count)).ravel()).reshape(-1, count))
    uniform = torch.as_tensor(np.concatenate(parts), device=states.device)
    means, hits = logprobs.of_draws(states, head, vocabulary, target, temperature, uniform)
    return {"drawn": means, "hits": hits}


def hidden_states(model: Any, rows: Sequence[Row], device: torch.device) -> Tensor:
    """Return the last hidden states (M, E) that predict the sampled tokens of `rows`, in the model's precision."""
    rows = _with_codes(model, rows)
    if not is_supported(model) and not abilities(model).has_head:
        return _whole(model, rows, device, False)[0]
    return _states(model, rows, device, False)[0]


def _with_codes(model: Any, rows: Sequence[Row]) -> Sequence[Row]:
    """Rows in which the tokens of images have codes that tell images apart (`rl.policy.images.inputs`)."""
    images = image_inputs(model)
    if images is None or not any(row.images for row in rows):
        return rows
    codes = []
    for row in rows:
        start, ids = len(row.prefix), images.code((*row.prefix, *row.ids.tolist()), row.images)
        codes.append(replace(row, prefix=ids[:start], ids=np.asarray(ids[start:], np.int64)))
    return codes


def _states(model: Any, rows: Sequence[Row], device: torch.device, recompute: bool) -> tuple[Tensor, Tensor]:
    """Hidden states (M, E) that predict the sampled tokens, and the tokens (M,)."""
    if is_supported(model):
        packing, decoder = Packing(rows, device), Decoder(model)
        weights = decoder.weights(fuse=not decoder.is_wide)
        states = decoder.hidden_states(
            weights, packing.ids, packing.position, packing, packing.max_length, recompute=recompute
        )
        return states.index_select(0, packing.predict), packing.target
    if abilities(model).packs and not any(row.images for row in rows):
        packing = Packing(rows, device)
        with _recompute_blocks(model, recompute, partial(packed_attention, model)):
            states = packed_states(model, packing)
        return states.index_select(0, packing.predict), packing.target
    batch = _Padded(rows, device)
    with _recompute_blocks(model, recompute):
        out = model.base_model(**batch.inputs(model), use_cache=False)
    return out.last_hidden_state[batch.row, batch.column], batch.target


def _whole(model: Any, rows: Sequence[Row], device: torch.device, recompute: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states (M, E), logits (M, V) and tokens (M,) by the model's whole forward on padded sequences."""
    batch = _Padded(rows, device)
    columns, column = batch.column.unique(return_inverse=True)
    with _recompute_blocks(model, recompute):
        out = model(
            **batch.inputs(model),
            use_cache=False,
            output_hidden_states=True,
            logits_to_keep=columns,
        )
    return out.hidden_states[-1][batch.row, batch.column], out.logits[batch.row, column], batch.target


class _Padded:
    """Rows as right-padded `ids` and `attention` (B, L), and the `row` and `column` (M,) that predict each `target`."""

    def __init__(self, rows: Sequence[Row], device: torch.device) -> None:
        sequences = [np.concatenate([np.asarray(row.prefix, np.int64), row.ids]) for row in rows]
        width = max(map(len, sequences))
        ids, attention = np.zeros((len(rows), width), np.int64), np.zeros((len(rows), width), np.int64)
        places: list[tuple[int, int]] = []
        for i, (row, tokens) in enumerate(zip(rows, sequences, strict=True)):
            ids[i, : len(tokens)], attention[i, : len(tokens)] = tokens, 1
            places += [(i, len(row.prefix) + int(t) - 1) for t in np.nonzero(row.mask)[0]]
        self.ids, self.attention = torch.as_tensor(ids, device=device), torch.as_tensor(attention, device=device)
        self.row, self.column = (torch.as_tensor(index, device=device) for index in np.asarray(places).T)
        self.target = torch.as_tensor(np.concatenate([row.ids[row.mask] for row in rows]), device=device)

    def inputs(self, model: Any) -> dict[str, Tensor]:
        """The arguments of a model's forward."""
        images = image_inputs(model)
        if images is None:
            return {"input_ids": self.ids, "attention_mask": self.attention}
        first = np.zeros((len(self.ids), 1), np.int64)
        parts = images.of_parts(self.ids.cpu().numpy(), self.attention.cpu().numpy() > 0, first, self.ids.device)
        return {**parts, "attention_mask": self.attention}


def blocks(model: nn.Module) -> list[nn.Module]:
    """Return the blocks of a model of transformers, in order; [] for a model that marks none."""
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


@contextmanager
def _recompute_blocks(
    model: nn.Module, recompute: bool, context: Callable[[], AbstractContextManager] = nullcontext
) -> Iterator[None]:
    """Context in which a forward pass of `model` keeps only the input of every block, if `recompute` and it can learn.

    The library's own switch works in training mode alone, which would also turn dropout on. Blocks are computed again
    in `context()`.
    """
    computed_again: list[Any] = blocks(model) if recompute and torch.is_grad_enabled() else []
    options: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
    for block in computed_again:
        again = partial(checkpoint, block.forward, **options, context_fn=lambda: (nullcontext(), context()))
        block.forward = again
    try:
        yield
    finally:
        for block in computed_again:
            del block.forward
