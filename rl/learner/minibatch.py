"""The rows of an optimiser step: which they are, which can have a gradient, and what the loss reads of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from torch import Tensor

from rl.learner.loss import is_zero_without_advantage
from rl.learner.packing import Columns
from rl.methods.inputs import Row, Tokens
from rl.methods.recipe import Recipe

_SCORES = {"logp", "entropy", "value"}  # scores that are fields of `Tokens`
_FIELDS = {"ref", "value", "returns", "proximal"}  # streams of rows that are fields of `Tokens`


def step_tokens(
    columns: Columns, scores: Mapping[str, Tensor], share: Tensor, streams: Mapping[str, Tensor] | None = None
) -> Tokens:
    """Return the (B, T) inputs of the loss, from scores (M,) of the sampled tokens and the `streams` of step parts."""
    recorded, proximal = columns.pad(lambda row: row.old), columns.stream("proximal")
    names = columns.rows[0].streams.keys() - _FIELDS
    further = {name: table for name in sorted(names) if (table := columns.stream(name)) is not None}
    further |= {name: columns.scatter(numbers) for name, numbers in scores.items() if name not in _SCORES}
    return Tokens(
        logp=columns.scatter(scores["logp"]),
        old=recorded if proximal is None else proximal,
        adv=columns.pad(lambda row: row.adv),
        mask=columns.mask,
        share=share,
        entropy=columns.scatter(scores["entropy"]),
        labels=columns.labels(),
        ref=columns.stream("ref"),
        value=columns.scatter(scores["value"]) if "value" in scores else None,
        old_value=columns.stream("value"),
        returns=columns.stream("returns"),
        behaviour=None if proximal is None else recorded,
        streams={**further, **(streams or {})},
    )


def rows_with_gradient(rows: Sequence[Row], recipe: Recipe) -> list[int]:
    """Return the indices of rows that can have a gradient; without an advantage none of a trajectory's may have one."""
    if not is_zero_without_advantage(recipe):
        return list(range(len(rows)))
    with_advantage = {row.trajectory for row in rows if row.adv.any()}
    return [i for i, row in enumerate(rows) if row.trajectory in with_advantage]


def split_minibatches(rows: Sequence[Row], count: int, rng: np.random.Generator) -> Iterator[list[Row]]:
    """Split `rows` into `count` minibatches of whole groups, in random order; with one, the rows keep their order."""
    if count == 1 or not rows:
        yield list(rows)
        return
    groups = rng.permutation(np.unique([row.group for row in rows]))
    for part in np.array_split(groups, min(count, len(groups))):
        members = set(part.tolist())
        yield [row for row in rows if row.group in members]
