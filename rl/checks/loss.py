"""The parts that make the loss, called on the tokens of toy episodes under a policy of one small table.

Legend: B rows, T tokens of a row, M sampled tokens, V letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl.checks.micro_batches import check_cut, tensors_of
from rl.checks.parts import Place
from rl.learner.packing import Columns
from rl.methods.inputs import Row, Tokens
from rl.methods.recipe import Recipe
from rl.methods.results import describe
from rl.methods.streams import needs
from rl.seeds import generator

NUM_LETTERS = 8
MAX_PHASES = 4
MAX_PASSES = 1000


class ToyModel:
    """A policy and a critic that see the last token only: one table of logits (V, V) and one of values (V,)."""

    def __init__(self) -> None:
        rng = generator("toy model")
        self.logits = torch.tensor(rng.normal(0.0, 0.5, (NUM_LETTERS, NUM_LETTERS)), dtype=torch.float32)
        self.value_of = torch.tensor(rng.normal(0.0, 0.5, NUM_LETTERS), dtype=torch.float32)
        self.logits.requires_grad_()
        self.value_of.requires_grad_()

    def __call__(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probability, entropy and value (M,) of every sampled token, row by row."""
        last = np.concatenate([np.array([row.prefix[-1], *row.ids[:-1]])[row.mask] for row in rows]) % NUM_LETTERS
        target = np.concatenate([row.ids[row.mask] for row in rows]) % NUM_LETTERS
        table = self.logits.log_softmax(-1)
        entropy = -(table.exp() * table).sum(-1)
        return table[last, target], entropy[last], self.value_of[last]

    def logprobs(self, rows: Sequence[Row]) -> list[np.ndarray]:
        """The log-probabilities (M,) of each row, as phases ask for them."""
        with torch.no_grad():
            numbers = self(rows)[0].numpy()
        return np.split(numbers, np.cumsum([int(row.mask.sum()) for row in rows])[:-1])


class ToyWeights:
    """The weights of a toy model, as passes may move them."""

    def __init__(self, model: ToyModel) -> None:
        self.weights = [model.logits, model.value_of]

    def copy(self) -> list[Tensor]:
        """A copy of both tables."""
        return [weight.detach().clone() for weight in self.weights]

    def move(self, start: list[Tensor], share: float) -> None:
        """Interpolate between `start` and the tables."""
        with torch.no_grad():
            for weight, origin in zip(self.weights, start, strict=True):
                weight.copy_(origin.lerp(weight, share))

    def entropy(self) -> float:
        """Any number of nats."""
        return 1.0


@torch.enable_grad()  # an environment's file may have switched gradients off
def check_loss(recipe: Recipe, rows: Sequence[Row]) -> None:
    """Call phases, reduce, ratio, surrogate, select and penalties, and take the gradient of their loss.

    The ratios of every other row are 1, as on fresh samples; those of the rest lie around it.
    """
    model, has_gradient = ToyModel(), False
    _check_passes(recipe, model)
    rows = [_sampled_by(row, logp, i) for i, (row, logp) in enumerate(zip(rows, model.logprobs(rows), strict=True))]
    for phase in _phases(recipe, rows, model):
        tokens = _tokens(recipe, phase, model)
        has_gradient |= _check_phase(recipe, tokens, model)
    if not has_gradient:
        Place("surrogate", recipe.surrogate).fail(
            "the loss has no gradient on any token: it must depend on log_ratio or tokens.logp, not on a detached copy"
        )


def _check_passes(recipe: Recipe, model: ToyModel) -> None:
    """Go through the passes of one update of two epochs."""
    place = Place("passes", recipe.passes)
    result = place.call(ToyWeights(model), 2)
    if not isinstance(result, Iterator):
        place.fail(f"returned {describe(result)}, expected an iterator: `yield` once for each pass")
    try:
        count = sum(1 for _ in islice(result, MAX_PASSES + 1))
    except Exception as error:
        place.fail_with(error)
    if not 0 < count <= MAX_PASSES:
        number = f"more than {MAX_PASSES}" if count else "no"
        place.fail(f"yields {number} passes for two epochs, expected one or a few for each")


def _sampled_by(row: Row, logprobs: np.ndarray, number: int) -> Row:
    """The row as if its tokens had been sampled with `logprobs` (M,), every other row by a policy near that."""
    old = np.zeros_like(row.old)
    old[row.mask] = logprobs + generator("toy ratio", number).normal(0.0, 0.1 * (number % 2), len(logprobs))
    return replace(row, old=old)


def _phases(recipe: Recipe, rows: Sequence[Row], model: ToyModel) -> Iterator[Sequence[Row]]:
    """The first phases that the recipe makes of `rows`."""
    place = Place("phases", recipe.phases)
    result = place.call(rows, model.logprobs)
    if not isinstance(result, Iterator):
        place.fail(f"returned {describe(result)}, expected an iterator of rows: `yield` them, one phase after another")
    count = 0
    while True:
        try:
            phase = list(islice(result, 1))
        except Exception as error:
            place.fail_with(error)
        if not phase or count == MAX_PHASES:
            break
        if not isinstance(phase[0], Sequence) or not all(isinstance(row, Row) for row in phase[0]):
            place.fail(f"yielded {describe(phase[0])}, expected a list of rows")
        for row in phase[0]:
            lengths = {len(row.ids), len(row.mask), len(row.old), len(row.adv), len(row.turn)}
            if len(lengths) > 1 or not np.isfinite(row.adv).all() or not np.isfinite(row.old).all():
                place.fail("yielded a row whose arrays differ in length or are not finite")
        if phase[0]:
            count += 1
            yield phase[0]
    if not count:
        place.fail("yielded no rows, so nothing would be learned")


def _tokens(recipe: Recipe, rows: Sequence[Row], model: ToyModel) -> Tokens:
    """What the loss parts read of `rows`, with the shares that the recipe gives them."""
    columns = Columns(rows, torch.device("cpu"))
    logp, entropy, value = map(columns.scatter, model(rows))
    place, mask, labels = Place("reduce", recipe.reduce), columns.mask.float(), columns.labels()
    before = mask.clone()
    share = place.call(mask, labels)
    place.expect_unchanged(True, torch.equal(before, mask), "the mask")
    _expect_table(place, share, columns.mask)
    if share[~columns.mask].any():
        place.fail("gives a share to tokens that were not sampled, where mask is 0")
    sampler_logp, proximal = columns.pad(lambda row: row.old), columns.stream("proximal")
    tokens = Tokens(
        logp=logp,
        old=sampler_logp if proximal is None else proximal,
        adv=columns.pad(lambda row: row.adv),
        mask=columns.mask,
        share=share.detach(),
        entropy=entropy,
        labels=labels,
        ref=columns.stream("ref"),
        value=value if needs(recipe, "value") else None,
        old_value=columns.stream("value"),
        returns=columns.stream("returns"),
        behaviour=None if proximal is None else sampler_logp,
        streams={name: table for name in sorted(rows[0].streams) if (table := columns.stream(name)) is not None},
    )
    if needs(recipe, "draws"):
        draws = {"drawn": 1.5 * logp, "hits": 0.5 * columns.mask.float()}
        tokens = replace(tokens, streams={**tokens.streams, **draws})
    return replace(tokens, streams={**tokens.streams, **_step_streams(recipe, tokens)})


def _step_streams(recipe: Recipe, tokens: Tokens) -> dict[str, Tensor]:
    """What the step parts compute of `tokens`, after a look at each; without the factors of the learning rate."""
    streams: dict[str, Tensor] = {}
    view = tokens if needs(recipe, "logp") else replace(tokens, logp=tokens.old, entropy=torch.zeros_like(tokens.old))
    for part in recipe.step:
        place = Place("step", part)
        result = place.call(view)
        if not isinstance(result, Mapping):
            place.fail(f"returned {describe(result)}, expected a mapping from names to tensors of shape (B, T)")
        for name, value in result.items():
            if name == "rate":
                if not (isinstance(value, Tensor) and value.numel() == 1 and torch.isfinite(value) and value >= 0):
                    place.fail(f"returned {describe(value)} as rate, expected a tensor of one number of at least 0")
                continue
            _expect_table(place, value, tokens.mask, is_weight=True)
            if value.requires_grad:
                place.fail(f"returned {name!r} with a gradient, expected a detached tensor")
            streams[name] = value
    return streams


def _check_phase(recipe: Recipe, tokens: Tokens, model: ToyModel) -> bool:
    """Call the loss parts on `tokens`; return whether the loss, but for `select`, has a gradient that is not 0."""
    ratio = _call(Place("ratio", recipe.ratio), recipe, tokens)
    loss = _call(Place("surrogate", recipe.surrogate), recipe, tokens, ratio)
    for select in recipe.select:
        place = Place("select", select)
        weight = _call(place, recipe, tokens, is_weight=True)
        if weight.requires_grad:
            place.fail("returned weights with a gradient, expected detached ones: end with `.detach()`")
    for penalty in recipe.penalty:
        place = Place("penalty", penalty)
        value = _call(place, recipe, tokens)
        if not value.requires_grad:
            place.fail("returned losses without a gradient, which change nothing; read tokens.logp undetached")
        loss = loss + value
    total = (loss * tokens.share).sum()
    if not total.requires_grad:
        return False
    gradients = torch.autograd.grad(total, (model.logits, model.value_of), allow_unused=True)
    for gradient in gradients:
        if gradient is not None and not torch.isfinite(gradient).all():
            Place("surrogate", recipe.surrogate).fail("the loss has a gradient that is not finite on toy episodes")
    return any(gradient is not None and bool(gradient.any()) for gradient in gradients)


def _call(place: Place, recipe: Recipe, tokens: Tokens, *args: Tensor, is_weight: bool = False) -> Tensor:
    """The result (B, T) of a loss part, after a look at it and at what the part has done to `tokens`."""
    before = {name: value.detach().clone() for name, value in tensors_of(tokens)}
    place.check_parameters(*args, tokens)
    try:
        result = place.part(*args, tokens)
    except Exception as error:
        if name := _undeclared_stream(place, recipe, tokens, *args):
            place.fail(f'reads tokens.{name}, which a run computes only for parts with @needs("{name}")', error)
        place.fail_with(error)
    for name, value in tensors_of(tokens):
        place.expect_unchanged(True, torch.equal(before[name], value.detach()), f"tokens.{name}")
    _expect_table(place, result, tokens.mask, is_weight=is_weight)
    check_cut(place, result, tokens, *args)
    if result.requires_grad and not needs(recipe, "entropy"):
        (gradient,) = torch.autograd.grad(result.sum(), tokens.entropy, retain_graph=True, allow_unused=True)
        if gradient is not None:
            place.fail('reads the gradient of tokens.entropy, which is there only for parts with @needs("entropy")')
    return result


def _expect_table(place: Place, result: Any, mask: Tensor, *, is_weight: bool = False) -> None:
    """Raise `RecipeFault` unless `result` is a tensor (B, T) of finite numbers; weights may be Boolean."""
    if not isinstance(result, Tensor) or result.shape != mask.shape:
        place.fail(
            f"returned {describe(result)}, expected a tensor of shape {tuple(mask.shape)}, "
            "that is (B, T), one number per token"
        )
    if not (result.is_floating_point() or (is_weight and result.dtype == torch.bool)):
        place.fail(f"returned {describe(result)}, expected floating-point numbers")
    if not torch.isfinite(result).all():
        number = result[~torch.isfinite(result)][0].item()
        place.fail(f"returned {number} among its numbers, expected finite ones, also where tokens.mask is False")


def _undeclared_stream(place: Place, recipe: Recipe, tokens: Tokens, *args: Tensor) -> str:
    """The field of `tokens` without which the part fails, and with which it does not; empty if there is none."""
    lacking = {"ref": ("ref",), "value": ("value", "old_value", "returns")}
    for name, names in lacking.items():
        if needs(recipe, name):
            continue
        try:
            numbers: dict[str, Any] = {field: tokens.logp.detach() - 0.1 for field in names}
            place.part(*args, replace(tokens, **numbers))
        except Exception:
            continue
        return name
    return ""
