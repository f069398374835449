"""What score parts ask of the trained model beside log-probabilities: squared probabilities and gradient norms.

Legend: M sampled tokens, E hidden size, V vocabulary.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from rl.learner.batch import split_microbatches, trajectory_rows
from rl.learner.forward import hidden_states, score_tokens
from rl.learner.logprobs import WHOLE_LOGITS, chunk_tokens
from rl.methods.inputs import Row
from rl.methods.options import PartError
from rl.policy.decoder import CALL, is_supported
from rl.policy.model_config import text_config
from rl.records import Trajectory

if TYPE_CHECKING:
    from rl.learner.interface import AnyLearner

PER_SAMPLE_BYTES = 2**28  # of per-sample gradients at a time

log = logging.getLogger(__name__)


def squares(learner: AnyLearner, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
    """Return the sum of squared probabilities of the vocabulary at each sampled token: `[trajectory][turn][token]`.

    Raises `PartError` for a model whose logits are more than a product with its output matrix.
    """
    head = learner.model.get_output_embeddings()
    if head is None or getattr(learner.model.config, "final_logit_softcapping", None):
        raise PartError("the stream square is not computed for this kind of model, whose head is not a plain matrix")
    numbers: list[float] = []
    with torch.no_grad():
        for part in split_microbatches(
            _rows(learner, trajectories), learner.microbatch_tokens, whole_trajectories=False
        ):
            states = hidden_states(learner.model, part, learner.device)
            temperature = np.concatenate([np.full(int(row.mask.sum()), row.temperature, np.float32) for row in part])
            numbers += _squares(states, head.weight, torch.as_tensor(temperature, device=learner.device)[:, None])
    remaining = iter(numbers)
    return [[tuple(next(remaining) for _ in turn.completion.ids) for turn in t.turns] for t in trajectories]


def gradient_norms(learner: AnyLearner, trajectories: Sequence[Trajectory]) -> list[float]:
    """Return the norm of the gradient of each trajectory's mean log-probability, over the trained weights.

    Small models have per-sample gradients of several trajectories at a time (`torch.func.vmap`), as many as fit into
    `PER_SAMPLE_BYTES` bytes and whose logits are at most `WHOLE_LOGITS` numbers, where the model's own forward allows
    that and agrees on the shortest trajectory with a backward pass of its own. All other models, and those with
    adapters, have one backward pass for each trajectory.
    """
    if not trajectories:
        return []
    shortest = min(range(len(trajectories)), key=lambda number: _length(trajectories[number]))
    norm = _gradient_norm(learner, trajectories[shortest])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)  # of operations that vmap loops
        norms = _per_sample_norms(learner, trajectories)
    if norms is not None and math.isclose(norms[shortest], norm, rel_tol=1e-3 if _is_float32(learner) else 0.05):
        return norms
    return [norm if n == shortest else _gradient_norm(learner, one) for n, one in enumerate(trajectories)]


def _length(trajectory: Trajectory) -> int:
    """The tokens of a trajectory."""
    return sum(len(turn.context) + len(turn.completion.ids) for turn in trajectory.turns)


def _gradient_norm(learner: AnyLearner, trajectory: Trajectory) -> float:
    """The norm for one trajectory, by a backward pass of its own in as many micro-batches as it takes."""
    weights = [weight for weight in learner.model.parameters() if weight.requires_grad]
    total: list[Tensor | None] = [None] * len(weights)
    for piece in split_microbatches(_rows(learner, [trajectory]), learner.microbatch_tokens, whole_trajectories=False):
        logp = score_tokens(learner.model, piece, learner.device, recompute=learner.recompute).logp
        gradients = torch.autograd.grad(logp.sum() / trajectory.num_sampled, weights, allow_unused=True)
        total = [_plus(one, other) for one, other in zip(total, gradients, strict=True)]
    return sum(float(one.float().square().sum()) for one in total if one is not None) ** 0.5


def _is_float32(learner: AnyLearner) -> bool:
    return all(weight.dtype == torch.float32 for weight in learner.model.parameters())


def _per_sample_norms(learner: AnyLearner, trajectories: Sequence[Trajectory]) -> list[float] | None:
    """The norms for all trajectories, several at a time; None where rows, weights or the model forbid it."""
    rows = _rows(learner, trajectories)
    parameters = {name: weight for name, weight in learner.model.named_parameters() if weight.requires_grad}
    weights = {name: weight.detach() for name, weight in parameters.items()}
    together = PER_SAMPLE_BYTES // max(1, sum(weight.nbytes for weight in weights.values()))
    is_plain = all(type(weight) is nn.Parameter for weight in parameters.values()) and not hasattr(learner.model, CALL)
    is_plain &= not (learner.has_adapters or learner.recompute or any(row.images for row in rows))
    if not is_plain or [row.trajectory for row in rows] != list(range(len(trajectories))):
        return None
    lengths = np.array([len(row.prefix) + row.size for row in rows])
    together = min(together, WHOLE_LOGITS // (int(lengths.max()) * text_config(learner.model).vocab_size))
    if together < 2:
        return None
    norms, order = np.zeros(len(rows)), np.argsort(-lengths, kind="stable")
    try:
        while len(order):
            count = max(1, min(together, learner.microbatch_tokens // int(lengths[order[0]])))
            part, order = order[:count], order[count:]
            norms[part] = _norms(learner, weights, [rows[i] for i in part], int(lengths[part[0]]))
    except Exception as error:  # of an operation that vmap does not know, somewhere in the model's own forward
        log.debug("gradient norms are computed one after the other: %s", error)
        return None
    return norms.tolist()


def _norms(learner: AnyLearner, weights: Mapping[str, Tensor], rows: Sequence[Row], width: int) -> np.ndarray:
    """The norms (B,) of B rows of one trajectory each, from the model's own forward on `width` tokens, padded."""
    ids, target = (torch.zeros(len(rows), width, dtype=torch.long) for _ in range(2))
    share, temperature = torch.zeros(len(rows), width), torch.ones(len(rows), 1)
    for i, row in enumerate(rows):
        places = np.flatnonzero(row.mask) + len(row.prefix)
        tokens = torch.as_tensor([*row.prefix, *row.ids.tolist()])
        ids[i, : len(tokens)], temperature[i] = tokens, row.temperature
        target[i, places - 1], share[i, places - 1] = tokens[places], 1 / len(places)

    def mean_logp(
        weights: Mapping[str, Tensor], ids: Tensor, target: Tensor, share: Tensor, temperature: Tensor
    ) -> Tensor:
        out = functional_call(learner.model, dict(weights), (), {"input_ids": ids[None], "use_cache": False})
        logp = (out.logits[0].float() / temperature).log_softmax(-1)
        return (logp.gather(-1, target[:, None])[:, 0] * share).sum()

    parts = (part.to(learner.device) for part in (ids, target, share, temperature))
    with _gradients_of_all_tokens(learner.model):
        gradients = vmap(grad(mean_logp), in_dims=(None, 0, 0, 0, 0))(weights, *parts)
    squared = sum(one.flatten(1).float().square().sum(1) for one in gradients.values())
    return cast(Tensor, squared).sqrt().cpu().numpy()


@contextmanager
def _gradients_of_all_tokens(model: Any) -> Iterator[None]:
    """In this context the model's own embedding has a gradient for padding too, as that of `rl.policy.decoder` has."""
    embedding: Any = model.get_input_embeddings() if is_supported(model) else None
    padding = getattr(embedding, "padding_idx", None)
    if padding is None:
        yield
        return
    embedding.padding_idx = None
    try:
        yield
    finally:
        embedding.padding_idx = padding


def _rows(learner: AnyLearner, trajectories: Sequence[Trajectory]) -> list[Row]:
    return [
        row
        for number, trajectory in enumerate(trajectories)
        for row in trajectory_rows(
            trajectory, np.zeros(trajectory.num_sampled), number=number, temperature=learner.temperature
        )
    ]


def _squares(states: Tensor, head: Tensor, temperature: Tensor) -> list[float]:
    """The sums (M,) of squared probabilities of states (M, E) with the output matrix (V, E), some tokens at a time."""
    size = chunk_tokens(len(head), on_gpu=states.is_cuda, is_light=False)
    numbers: list[float] = []
    for first in range(0, len(states), size):
        logits = F.linear(states[first : first + size], head).float() / temperature[first : first + size]
        numbers += logits.softmax(-1).square().sum(-1).tolist()
    return numbers


def _plus(total: Tensor | None, gradient: Tensor | None) -> Tensor | None:
    return total if gradient is None else gradient if total is None else total + gradient
