"""What score parts ask of the trained model beside log-probabilities: squared probabilities and gradient norms.

Legend: M sampled tokens, E hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rl.learner.batch import split_microbatches, trajectory_rows
from rl.learner.forward import hidden_states, score_tokens
from rl.learner.logprobs import chunk_tokens
from rl.methods.inputs import Row
from rl.methods.options import PartError
from rl.records import Trajectory

if TYPE_CHECKING:
    from rl.learner.interface import AnyLearner


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
    """Return the norm of the gradient of each trajectory's mean log-probability, over the trained weights."""
    weights = [weight for weight in learner.model.parameters() if weight.requires_grad]
    norms = []
    for trajectory in trajectories:
        total: list[Tensor | None] = [None] * len(weights)
        rows = _rows(learner, [trajectory])
        for piece in split_microbatches(rows, learner.microbatch_tokens, whole_trajectories=False):
            logp = score_tokens(learner.model, piece, learner.device, recompute=learner.recompute).logp
            gradients = torch.autograd.grad(logp.sum() / trajectory.num_sampled, weights, allow_unused=True)
            total = [_plus(one, other) for one, other in zip(total, gradients, strict=True)]
        norms.append(sum(float(one.float().square().sum()) for one in total if one is not None) ** 0.5)
    return norms


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
