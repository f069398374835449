"""Whether a part of the loss gives a token the same number in whatever micro-batch it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import torch
from torch import Tensor

from rl.checks.parts import Place
from rl.methods.inputs import Tokens


def check_cut(place: Place, result: Tensor, tokens: Tokens, *args: Tensor) -> None:
    """Raise `RecipeFault` if a loss part gives tokens other numbers when it sees half the trajectories, in less space.

    A trainer cuts an optimiser step into micro-batches and pads each to its longest row.
    """
    lengths = tokens.mask.int().cumsum(1).argmax(1) + 1
    longest = lengths.new_zeros(len(lengths)).scatter_reduce(0, _numbered(tokens.labels.trajectory), lengths, "amax")
    order = longest[_numbered(tokens.labels.trajectory)]
    for half in (order <= order.median(), order > order.median()):
        rows = half.nonzero().squeeze(1)
        if not 0 < len(rows) < len(lengths):
            return
        width = int(lengths[rows].max())
        with torch.no_grad():
            try:
                part = place.part(*(_cut(arg, rows, width) for arg in args), _cut_tokens(tokens, rows, width))
                again = place.part(*args, tokens)
            except Exception as error:
                place.fail_with(error)
        mask = _cut(tokens.mask, rows, width)
        if not torch.equal(again, result):
            return  # it draws
        if not torch.allclose(part[mask].double(), _cut(result, rows, width)[mask].double(), rtol=1e-4, atol=1e-5):
            place.fail(
                "gives a token other numbers in another micro-batch, so that --microbatch-tokens changes the loss; "
                "take sums and means over the optimiser step in a `step` part or in `reduce`"
            )


def _numbered(labels: Tensor) -> Tensor:
    """Labels (B,) as numbers from 0."""
    return labels.unique(return_inverse=True)[1]


def _cut(table: Tensor, rows: Tensor, width: int) -> Tensor:
    """Some rows of a tensor (B,) or of the first `width` columns of one (B, T)."""
    return table[rows, :width] if table.dim() == 2 else table[rows]


def _cut_tokens(tokens: Tokens, rows: Tensor, width: int) -> Tokens:
    """Some rows of `tokens`, padded to `width`."""
    labels = {field.name: getattr(tokens.labels, field.name) for field in fields(tokens.labels)}
    labels = {name: None if value is None else _cut(value, rows, width) for name, value in labels.items()}
    streams = {name: _cut(value, rows, width) for name, value in tokens.streams.items()}
    tables = {name: _cut(value, rows, width) for name, value in tensors_of(tokens)}
    return replace(tokens, labels=replace(tokens.labels, **labels), streams=streams, **tables)


def tensors_of(tokens: Tokens) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the tensor of each field of `tokens` that holds one."""
    for field in fields(tokens):
        if isinstance(value := getattr(tokens, field.name), Tensor):
            yield field.name, value
