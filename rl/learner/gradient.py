"""The gradient of one optimiser step: passes over the micro-batches of this rank's trajectories, which add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rl.learner.batch import split_microbatches
from rl.learner.diagnostics import Diagnostics
from rl.learner.loss import policy_loss
from rl.learner.minibatch import step_tokens
from rl.learner.packing import Columns
from rl.methods.inputs import Row
from rl.methods.recipe import Recipe
from rl.methods.streams import needs

if TYPE_CHECKING:
    from rl.learner.learner import Learner


@dataclass(frozen=True)
class StepRows:
    """The rows of an optimiser step, and what was computed over all of them.

    Attributes:
        rows: All B rows.
        indices: Those that are computed.
        share: (B, T) each token's share of the step.
        streams: (B, T) tables of step parts, by name.
    """

    rows: Sequence[Row]
    indices: Sequence[int]
    share: Tensor
    streams: Mapping[str, Tensor]


@dataclass
class MicroBatch:
    """Rows of whole trajectories that one loss is computed of.

    Attributes:
        rows: The rows.
        where: Their indices in the step.
        pieces: The same rows in passes of at most `Learner.microbatch_tokens` tokens. More than one where a trajectory
            is longer than that.
        scores: With more than one piece, the scores (M,) of all by name, computed without gradient.
    """

    rows: list[Row]
    where: list[int]
    pieces: list[list[Row]]
    scores: dict[str, Tensor]


def accumulate(learner: Learner, step: StepRows, recipe: Recipe, diagnostics: Diagnostics) -> None:
    """Add the gradients of this rank's micro-batches to the optimiser's masters, and their sums to `diagnostics`.

    All ranks make equally many passes, first those without gradient: gathering and reducing weights takes all of them,
    so their number is agreed before. A rank with fewer micro-batches makes passes whose gradient is 0.
    """
    own = [step.indices[i] for i in learner.ranks.own([step.rows[i] for i in step.indices])]
    batches = list(_micro_batches(learner, step, own))
    spare = shortest([step.rows[i] for i in step.indices])
    long = [batch for batch in batches if len(batch.pieces) > 1]
    scoring, adding = (sum(len(batch.pieces) for batch in of_kind) for of_kind in (long, batches))
    spare_scoring = learner.ranks.most(scoring) - scoring
    spare_adding = learner.ranks.most(adding) - adding
    with torch.no_grad():
        for batch in long:
            parts = [learner.forward(learner.model, piece) for piece in batch.pieces]
            batch.scores = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        for _ in range(spare_scoring):
            learner.forward(learner.model, spare)
    for batch in batches:
        _add_gradient(learner, batch, step, recipe, diagnostics)
    for _ in range(spare_adding):
        _add_nothing(learner, spare, recipe)


def shortest(rows: Sequence[Row]) -> list[Row]:
    """Return the row with the fewest tokens, alone in a list."""
    return [min(rows, key=lambda row: row.size + len(row.prefix))]


def _micro_batches(learner: Learner, step: StepRows, own: Sequence[int]) -> list[MicroBatch]:
    first, batches = 0, []
    for part in split_microbatches([step.rows[i] for i in own], learner.microbatch_tokens):
        pieces = split_microbatches(part, learner.microbatch_tokens, whole_trajectories=False)
        batches.append(MicroBatch(part, list(own[first : first + len(part)]), pieces, {}))
        first += len(part)
    return batches


def _add_gradient(
    learner: Learner, batch: MicroBatch, step: StepRows, recipe: Recipe, diagnostics: Diagnostics
) -> None:
    """Add the gradient of the loss of a micro-batch.

    The rows of one trajectory may together be longer than a micro-batch. Then the loss is computed from scores without
    gradient, and its gradient for them goes through the model piece by piece: one forward pass more, the same gradient.
    """
    entropy_grad = needs(recipe, "entropy")
    columns = Columns(batch.rows, learner.device)
    share = step.share[batch.where, : columns.shape[1]]
    streams = {name: table[batch.where, : columns.shape[1]] for name, table in step.streams.items()}
    if len(batch.pieces) == 1:
        scores = learner.forward(learner.model, batch.rows, entropy_grad=entropy_grad)
    else:
        scores = {name: values.requires_grad_(torch.is_grad_enabled()) for name, values in batch.scores.items()}
    tokens = step_tokens(columns, scores, share, streams)
    loss = policy_loss(tokens, recipe)
    if loss.requires_grad and len(batch.pieces) == 1:
        with learner.optimizer.accumulate_in_masters():
            loss.backward()
    elif loss.requires_grad:
        gradients = torch.autograd.grad(loss, list(scores.values()), allow_unused=True)
        first = 0
        for piece in batch.pieces:
            piece_scores = learner.forward(learner.model, piece, entropy_grad=entropy_grad)
            count = len(piece_scores["logp"])
            pairs = [
                (piece_scores[name], gradient[first : first + count])
                for name, gradient in zip(scores, gradients, strict=True)
                if gradient is not None and piece_scores[name].requires_grad
            ]
            with learner.optimizer.accumulate_in_masters():
                torch.autograd.backward([score for score, _ in pairs], [gradient for _, gradient in pairs])
            first += count
    diagnostics.add(tokens, loss.detach())


def _add_nothing(learner: Learner, rows: Sequence[Row], recipe: Recipe) -> None:
    """Make the pass of a micro-batch and add a gradient of 0."""
    scores = learner.forward(learner.model, rows, entropy_grad=needs(recipe, "entropy"))
    total = sum((values.sum() for values in scores.values() if values.requires_grad), start=torch.zeros(()))
    if isinstance(total, Tensor) and total.requires_grad:
        (total * 0.0).backward()
