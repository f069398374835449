"""Rows in, weight updates out. Knows models and optimisers, but no environment and no method by name.

Legend: B rows, T tokens of a row, M sampled tokens, E hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rl.learner import gradient
from rl.learner.adamw import Float32AdamW
from rl.learner.batch import split_microbatches, trajectory_rows
from rl.learner.diagnostics import Diagnostics
from rl.learner.forward import can_recompute, inside, score_tokens
from rl.learner.hidden_states import of_rows
from rl.learner.loss import step_streams
from rl.learner.minibatch import rows_with_gradient, split_minibatches, step_tokens
from rl.learner.movable_weights import MovableWeights
from rl.learner.noise import gradient_noise
from rl.learner.packing import Columns
from rl.learner.ranks.division import Alone, Ranks, place
from rl.methods.inputs import Row
from rl.methods.options import PartError
from rl.methods.recipe import Recipe
from rl.methods.streams import needs
from rl.policy import lora
from rl.records import Trajectory


class Learner:
    """A model, its optimiser and, where a recipe needs them, a value head and a frozen reference model.

    Trains the parameters that require a gradient: every weight, or the adapters on a frozen model (`rl.policy.lora`).
    The model may have any precision; log-probabilities, losses and the optimiser's state are float32.
    `weights_changed` is True once an optimiser step was taken; callers may reset it.
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
        critic_lr: float | None = None,
        temperature: float = 1.0,
        recompute: bool = False,
        ranks: Ranks | None = None,
    ) -> None:
        """Build the optimiser and, for a `critic`, a value head on the model's last hidden state.

        Args:
            model: A causal language model; it is put in eval mode, since dropout would change the policy.
            lr: Learning rate.
            weight_decay: AdamW's weight decay.
            max_grad_norm: The gradient of an optimiser step is clipped to this norm.
            microbatch_tokens: Most tokens of one forward pass. The gradient does not depend on it, because every token
                carries its share of the whole optimiser step.
            epochs: Passes over the rows of an update.
            minibatches: Optimiser steps of one pass.
            critic: Whether to train a value head.
            critic_lr: Learning rate of the value head; None for `lr`.
            temperature: The sampler's; `values`, `reference` and `logprobs` score trajectories at it.
            recompute: Compute activations again in the backward pass to save memory.
            ranks: The processes that train the model together, all of which then make the same calls; None: this one.

        Raises:
            ValueError: `recompute` with a model whose blocks are not known.
        """
        if recompute and not can_recompute(model):
            kind = model.config.model_type  # type: ignore[union-attr]
            raise ValueError(f"--checkpoint-activations: the blocks of model type {kind!r} are not known; leave it out")
        self.ranks: Ranks = ranks or Alone()
        self.model: Any = model.eval()
        self.ranks.shard(self.model)
        self.temperature = temperature
        self.device = next(model.parameters()).device
        self.lr, self.max_grad_norm, self.microbatch_tokens = lr, max_grad_norm, microbatch_tokens
        self.epochs, self.minibatches, self.recompute = epochs, minibatches, recompute
        self.value_head: nn.Linear | None = None
        if critic:
            width = model.config.get_text_config().hidden_size  # type: ignore[union-attr,operator]
            # skip_init draws nothing from the global generator
            self.value_head = nn.utils.skip_init(nn.Linear, width, 1, device=self.device)
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)
            self.ranks.shard(self.value_head)
        self.weights_changed = False
        self.reference_model: Any = None
        self.has_adapters = bool(lora.adapter_layers(model))
        head = list(self.value_head.parameters()) if self.value_head else []
        weights = (weight for weight in self.model.parameters() if weight.requires_grad)
        self.optimizer = Float32AdamW(weights, lr=lr, weight_decay=weight_decay, head=head, head_lr=critic_lr)

    def parameters(self) -> list[nn.Parameter]:
        """Return all trained parameters, those of the value head last."""
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        return [*weights, *(self.value_head.parameters() if self.value_head else ())]

    @torch.enable_grad()  # an environment's file may have switched gradients off
    def update(self, rows: Sequence[Row], recipe: Recipe, *, scale: float = 1.0, seed: int = 0) -> dict[str, float]:
        """Take the optimiser steps of one update and return its metrics.

        They are those of `Diagnostics.means` and `rl.learner.noise`.

        Args:
            rows: All rows of the update, with advantages (`rl.learner.batch.build_rows`).
            recipe: The loss; each of its phases trains on its rows in its `passes`, of `minibatches` steps each.
            scale: Factor of the learning rate in this update.
            seed: Decides the order in which groups are split into minibatches.
        """
        diagnostics = Diagnostics()
        self.optimizer.sync_masters()
        self._scale = scale
        self.optimizer.scale_rates(scale)
        rng = np.random.default_rng(seed)
        for phase in recipe.phases(rows, self._row_logprobs):
            for _ in recipe.passes(MovableWeights(self.optimizer, diagnostics, self.ranks), self.epochs):
                for minibatch in split_minibatches(phase, self.minibatches, rng):
                    self._step(minibatch, recipe, diagnostics)
        num_groups = len({row.group for row in rows})
        return {**diagnostics.means(self.ranks), **gradient_noise(self.optimizer, num_groups / self.minibatches)}

    def freeze_reference(self) -> None:
        """Keep the current weights as the reference model: a copy, or with adapters the frozen model below them."""
        if self.has_adapters:
            self.reference_model = self.model
        elif self.reference_model is not None:
            self.reference_model.load_state_dict(self.model.state_dict())
        else:
            self.reference_model = self.ranks.copy(self.model).requires_grad_(False).eval()

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """Return critic values before each sampled token, as `[trajectory][turn][token]`.

        Raises `ValueError` without a critic.
        """
        if self.value_head is None:
            raise ValueError("the recipe reads values, but the learner was built without a critic")
        return self._score(self.model, trajectories, "value")

    def reference(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """Return the reference model's log-probability of each sampled token, as `[trajectory][turn][token]`.

        Raises `ValueError` before `freeze_reference`.
        """
        if self.reference_model is None:
            raise ValueError("the recipe reads a reference policy, but none was frozen")
        with lora.without_adapters(self.model) if self.has_adapters else nullcontext():
            return self._score(self.reference_model, trajectories, "logp")

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """Return the current model's log-probability of each sampled token, as `[trajectory][turn][token]`."""
        return self._score(self.model, trajectories, "logp")

    def hidden_states(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the current model's last hidden states (M, E) that predict the sampled tokens, row by row, float64.

        M is the number of tokens under the masks of `rows`, E the hidden size.
        """
        return of_rows(self.model, rows, self.device, self.microbatch_tokens)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of optimiser, value head and reference model; the model's weights are saved apart.

        The reference is None where it is the frozen model below adapters. With several ranks the tensors are whole, on
        the CPU, and the same as those of one process; the ranks but the first return no tensors.
        """
        return self.ranks.whole_state(
            {
                "optimizer": self.optimizer.state_dict(),
                "head": self.value_head.state_dict() if self.value_head else None,
                "reference": self._reference_state(),
            }
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`, which `state_dict` returned. Call `freeze_reference` before, if there was a reference.

        Raises `ValueError` if the optimiser's weights have other shapes.
        """
        self.optimizer.load_state_dict(self.ranks.part_of_optimizer(state["optimizer"], self.optimizer.masters))
        if self.value_head is not None:
            self._load(self.value_head, state["head"])
        if self.reference_model is not None and not self.has_adapters:
            self._load(self.reference_model, state["reference"])

    def close(self) -> None:
        """Do nothing: a learner starts no process."""

    def _reference_state(self) -> dict[str, Tensor] | None:
        return self.reference_model.state_dict() if self.reference_model and not self.has_adapters else None

    def _load(self, module: nn.Module, state: dict[str, Tensor]) -> None:
        own = module.state_dict()
        module.load_state_dict({name: self.ranks.part(value, own.get(name, value)) for name, value in state.items()})

    def _step(self, rows: Sequence[Row], recipe: Recipe, diagnostics: Diagnostics) -> None:
        """Take one optimiser step: compute the shares over all rows, then sum the gradients of micro-batches.

        Trajectories whose gradient is 0 by construction keep their share but are not computed.
        """
        if not rows:
            return
        table = Columns(rows, self.device)
        share = recipe.reduce(table.mask.float(), table.labels())  # (B, T)
        if share.shape != table.mask.shape:
            raise PartError(f"reduce returned shares of shape {tuple(share.shape)}, expected {tuple(table.mask.shape)}")
        streams = self._look_ahead(rows, table, share, recipe) if recipe.step else {}
        trainable = rows_with_gradient(rows, recipe)
        with torch.set_grad_enabled(bool(trainable)):
            indices = trainable or list(range(len(rows)))  # without any gradient, compute all rows for the metrics
            self.optimizer.zero_grad(set_to_none=True)
            gradient.accumulate(self, gradient.StepRows(rows, indices, share, streams), recipe, diagnostics)
        norm = torch.nn.utils.clip_grad_norm_(self.optimizer.masters, self.max_grad_norm)
        diagnostics.end_step(float(norm))
        if torch.isfinite(norm):
            self.weights_changed = True
            self.optimizer.step()

    def _look_ahead(self, rows: Sequence[Row], table: Columns, share: Tensor, recipe: Recipe) -> dict[str, Tensor]:
        """The streams (B, T) that the recipe's step parts compute from all rows of an optimiser step.

        Their number `rate`, if one gives it, becomes the factor of this step's learning rate. The current policy is
        computed, one forward pass more, only if a step part needs it.
        """
        with torch.no_grad():
            scores = {
                "logp": table.pad(lambda row: row.old)[table.mask],
                "entropy": share.new_zeros(int(table.mask.sum())),
            }
            if needs(recipe, "logp"):
                scores = self.score(self.model, rows)
            streams, rate = step_streams(step_tokens(table, scores, share), recipe)
        self.optimizer.scale_rates(self._scale * rate)
        return streams

    def _score(self, model: Any, trajectories: Sequence[Trajectory], name: str) -> list[list[tuple[float, ...]]]:
        """`name` of `forward` for each sampled token, as `[trajectory][turn][token]`, without gradients."""
        rows = [
            row
            for number, trajectory in enumerate(trajectories)
            for row in trajectory_rows(
                trajectory, np.zeros(trajectory.num_sampled), number=number, temperature=self.temperature
            )
        ]
        numbers = iter(self.score(model, rows)[name].tolist() if rows else ())
        return [[tuple(next(numbers) for _ in turn.completion.ids) for turn in t.turns] for t in trajectories]

    def _row_logprobs(self, rows: Sequence[Row]) -> list[np.ndarray]:
        """The current model's log-probabilities (M,) of each row; `Logprobs` of `rl.methods.parts.phases`."""
        logprobs = np.array(self.score(self.model, rows)["logp"].tolist())
        return np.split(logprobs, np.cumsum([int(row.mask.sum()) for row in rows])[:-1])

    def score(self, model: Any, rows: Sequence[Row]) -> dict[str, Tensor]:
        """Return `forward` for the sampled tokens (M,) of all `rows`, without gradients. All ranks must call it."""
        own = self.ranks.own(rows)
        pieces = split_microbatches([rows[i] for i in own], self.microbatch_tokens, whole_trajectories=False)
        num_spare = self.ranks.most(len(pieces)) - len(pieces)  # passes of others, which need this rank's weights
        with torch.no_grad():
            results = [self.forward(model, piece) for piece in pieces]
            like = results[0] if results else {}
            for _ in range(num_spare):
                like = self.forward(model, gradient.shortest(rows))
            tables = {name: place([result[name] for result in results], rows, own, like[name]) for name in like}
            return {name: self.ranks.total(table) for name, table in tables.items()}

    def forward(self, model: Any, rows: Sequence[Row], *, entropy_grad: bool = False) -> dict[str, Tensor]:
        """`logp`, `entropy`, `further` and, with a value head, `value` of every sampled token (M,), row by row."""
        scores = inside(model, score_tokens, rows, self.device, entropy_grad=entropy_grad, recompute=self.recompute)
        by_name = {"logp": scores.logp, "entropy": scores.entropy, **scores.further}
        if self.value_head is not None:
            by_name["value"] = self.value_head(scores.hidden.float()).squeeze(-1)
        return by_name
