"""Rows in, weight updates out. Knows models and optimisers; knows no environment, no group and no method by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rl.learner.adamw import Float32AdamW
from rl.learner.batch import rows_of, split
from rl.learner.diagnostics import Diagnostics
from rl.learner.forward import hidden, recomputable, said
from rl.learner.loss import policy_loss, silent_without_advantage
from rl.learner.packing import Columns
from rl.methods.inputs import Row, Tokens
from rl.methods.recipe import Recipe, needs
from rl.policy import lora
from rl.records import Trajectory


class Learner:
    """A model, its optimiser and, where a recipe asks, a value head and a frozen reference.

    Trained is what takes a gradient: every weight, or the adapters on a frozen model (`rl.policy.lora`).
    `microbatch_tokens` bounds the tokens of one forward pass; the gradient does not depend on it, because every token
    carries its share of the whole optimiser step. `epochs` passes over the rows in `minibatches` optimiser steps each.
    `temperature` is the sampler's: log-probabilities that a recipe asks for are under it, like the recorded ones.
    The model may have any precision; log-probabilities, losses and the optimiser's state are in float32.
    With `recompute` a backward pass computes every block again, for the memory of what it would have kept.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        lr: float,
        weight_decay: float = 0.0,
        max_grad_norm: float = 1.0,
        microbatch_tokens: int = 16384,
        epochs: int = 1,
        minibatches: int = 1,
        critic: bool = False,
        temperature: float = 1.0,
        recompute: bool = False,
    ) -> None:
        """Build the optimiser and, for a `critic`, a value head on the model's last hidden state.

        Raise `ValueError` where `recompute` is asked of a model whose blocks are not known.
        """
        if recompute and not recomputable(model):
            kind = model.config.model_type  # type: ignore[union-attr]
            raise ValueError(f"--checkpoint-activations: the blocks of model type {kind!r} cannot be told apart")
        self.model: Any = model.eval()  # dropout would make of it another policy than the sampled one
        self.temperature = temperature
        self.device = next(model.parameters()).device
        self.lr, self.max_grad_norm, self.microbatch_tokens = lr, max_grad_norm, microbatch_tokens
        self.epochs, self.minibatches, self.recompute = epochs, minibatches, recompute
        self.head: nn.Linear | None = None
        if critic:
            width = model.config.get_text_config().hidden_size  # type: ignore[union-attr,operator]
            self.head = nn.utils.skip_init(nn.Linear, width, 1, device=self.device)  # leaves the global luck alone
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)
        self.moved = False  # whether a weight has, since someone last said that none had
        self.frozen: Any = None
        self.adapted = bool(lora.layers(model))
        self.optimizer = Float32AdamW(self.parameters(), lr=lr, weight_decay=weight_decay)

    def parameters(self) -> list[nn.Parameter]:
        """Everything that is trained."""
        own = [weight for weight in self.model.parameters() if weight.requires_grad]
        return [*own, *(self.head.parameters() if self.head else ())]

    def update(self, rows: Sequence[Row], recipe: Recipe, *, scale: float = 1.0, seed: int = 0) -> dict[str, float]:
        """Take the optimiser steps of one update with the learning rate times `scale`; return what was seen.

        Each phase of the recipe is one update of its rows.
        """
        seen = Diagnostics()
        self.optimizer.adopt()
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * scale
        order = np.random.default_rng(seed)
        for phase in recipe.phases(rows, self._present):
            for _ in range(self.epochs):
                for part in _parts(phase, self.minibatches, order):
                    self._step(part, recipe, seen)
        return seen.means()

    def freeze_reference(self) -> None:
        """Keep a copy of the present weights as the reference policy; below adapters, these are there as they were."""
        self.frozen = self.model if self.adapted else deepcopy(self.model).requires_grad_(False).eval()

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """See `rl.methods.parts.score.Scorer`."""
        if self.head is None:
            raise ValueError("the recipe reads values, but the learner was built without a critic")
        return self._score(self.model, trajectories, lambda found: found["value"])

    def reference(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """See `rl.methods.parts.score.Scorer`."""
        if self.frozen is None:
            raise ValueError("the recipe reads a reference policy, but none was frozen")
        with lora.lifted(self.model) if self.adapted else nullcontext():
            return self._score(self.frozen, trajectories, lambda found: found["logp"])

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """The present model's log-probability of every sampled token, per trajectory and turn."""
        return self._score(self.model, trajectories, lambda found: found["logp"])

    def hidden(self, rows: Sequence[Row]) -> np.ndarray:
        """The present model's last hidden states (M, E) in front of every sampled token, row by row."""
        with torch.no_grad():
            parts = [hidden(self.model, part, self.device) for part in split(rows, self.microbatch_tokens)]
        return torch.cat(parts).double().cpu().numpy()

    def state_dict(self) -> dict[str, Any]:
        """Optimiser, value head and a reference that is a copy; the model's weights are saved apart."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "head": self.head.state_dict() if self.head else None,
            "reference": self.frozen.state_dict() if self.frozen and not self.adapted else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.optimizer.load_state_dict(state["optimizer"])
        if self.head is not None:
            self.head.load_state_dict(state["head"])
        if self.frozen is not None and not self.adapted:
            self.frozen.load_state_dict(state["reference"])

    def _step(self, rows: Sequence[Row], recipe: Recipe, seen: Diagnostics) -> None:
        """One optimiser step: shares over all rows first, then micro-batches that simply add up.

        Trajectories whose gradient is 0 by construction keep their share but are not computed.
        """
        if not rows:
            return
        everything = Columns(rows, self.device)
        share = recipe.reduce(everything.mask.float(), everything.labels())
        taught = _teaching(rows, recipe)
        with torch.set_grad_enabled(bool(taught)):
            used = taught or list(range(len(rows)))  # nothing to learn: compute them all the same, to see how it stands
            self.optimizer.zero_grad(set_to_none=True)
            first = 0
            for part in split([rows[i] for i in used], self.microbatch_tokens):
                columns = Columns(part, self.device)
                portion = share[used[first : first + len(part)], : columns.shape[1]]
                tokens = self._tokens(part, columns, portion, recipe)
                loss = policy_loss(tokens, recipe)
                if loss.requires_grad:
                    with self.optimizer.collecting():
                        loss.backward()
                seen.add(tokens, loss.detach())
                first += len(part)
        norm = torch.nn.utils.clip_grad_norm_(self.optimizer.masters, self.max_grad_norm)
        seen.step(float(norm))
        if torch.isfinite(norm):
            self.moved = True
            self.optimizer.step()

    def _tokens(self, rows: Sequence[Row], columns: Columns, share: Tensor, recipe: Recipe) -> Tokens:
        found = self._forward(self.model, rows, entropy_grad=needs(recipe, "entropy"))
        return Tokens(
            logp=columns.scatter(found["logp"]),
            old=columns.padded(lambda row: row.old),
            adv=columns.padded(lambda row: row.adv),
            mask=columns.mask,
            share=share,
            entropy=columns.scatter(found["entropy"]),
            labels=columns.labels(),
            ref=columns.stream("ref"),
            value=columns.scatter(found["value"]) if "value" in found else None,
            old_value=columns.stream("value"),
            returns=columns.stream("returns"),
        )

    def _score(
        self, model: Any, trajectories: Sequence[Trajectory], pick: Callable[[dict[str, Tensor]], Tensor]
    ) -> list[list[tuple[float, ...]]]:
        rows = [
            row
            for number, trajectory in enumerate(trajectories)
            for row in rows_of(
                trajectory, np.zeros(trajectory.num_sampled), number=number, temperature=self.temperature
            )
        ]
        rest = iter(self._numbers(model, rows, pick))
        return [[tuple(next(rest) for _ in turn.completion.ids) for turn in t.turns] for t in trajectories]

    def _present(self, rows: Sequence[Row]) -> list[np.ndarray]:
        """See `rl.methods.parts.phases`."""
        logprobs = np.array(self._numbers(self.model, rows, lambda found: found["logp"]))
        return np.split(logprobs, np.cumsum([int(row.mask.sum()) for row in rows])[:-1])

    def _numbers(self, model: Any, rows: Sequence[Row], pick: Callable[[dict[str, Tensor]], Tensor]) -> list[float]:
        """One number per sampled token, row by row, without gradients."""
        numbers: list[float] = []
        with torch.no_grad():
            for part in split(rows, self.microbatch_tokens):
                numbers += pick(self._forward(model, part)).tolist()
        return numbers

    def _forward(self, model: Any, rows: Sequence[Row], *, entropy_grad: bool = False) -> dict[str, Tensor]:
        """`logp`, `entropy` and, with a value head, `value` of every sampled token (M,), row by row."""
        about = said(model, rows, self.device, entropy_grad=entropy_grad, recompute=self.recompute)
        found = {"logp": about.logp, "entropy": about.entropy}
        if self.head is not None:
            found["value"] = self.head(about.hidden.float()).squeeze(-1)
        return found


def _teaching(rows: Sequence[Row], recipe: Recipe) -> list[int]:
    """The rows that can have a gradient: all, or those of trajectories with an advantage where only these count."""
    if not silent_without_advantage(recipe):
        return list(range(len(rows)))
    heard = {row.trajectory for row in rows if row.adv.any()}
    return [i for i, row in enumerate(rows) if row.trajectory in heard]


def _parts(rows: Sequence[Row], count: int, order: np.random.Generator) -> Iterator[list[Row]]:
    """`count` optimiser steps' rows, whole groups each, in a seeded order; the given order when there is one step."""
    if count == 1 or not rows:
        yield list(rows)
        return
    groups = order.permutation(np.unique([row.group for row in rows]))
    for chosen in np.array_split(groups, min(count, len(groups))):
        members = set(chosen.tolist())
        yield [row for row in rows if row.group in members]
