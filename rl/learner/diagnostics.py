"""Metrics of an update that tell a healthy run from a failing one, and warnings about the latter."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from rl.learner.ranks.division import Alone, Ranks
from rl.methods.inputs import Tokens


class Diagnostics:
    """Running sums over the micro-batches and optimiser steps of one update; `means` turns them into metrics."""

    def __init__(self) -> None:
        self.sums: Tensor | None = None  # (6,), in the order of `add`
        self.max_gap = 0.0  # largest |log ratio| of the update
        self.first_max_gap = 0.0  # largest |log ratio| of the first optimiser step
        self.first: Tensor | None = None  # (sum of k3, tokens) of the first optimiser step: before any weight moved
        self.norms: list[float] = []

    def add(self, tokens: Tokens, loss: Tensor) -> None:
        """Add one micro-batch: its tokens (B, T) and its scalar loss."""
        with torch.no_grad():
            mask = tokens.mask
            gap = (tokens.logp - tokens.old).clamp(-20.0, 20.0) * mask
            ratio = gap.exp()
            count = mask.sum()
            outside = ((ratio - 1).abs() > 0.2) & mask
            error = loss.new_zeros(())
            if tokens.value is not None and tokens.returns is not None:
                error = ((tokens.value - tokens.returns) * mask).square().sum()
            sums = torch.stack([count, (tokens.entropy * mask).sum(), outside.sum(), (ratio * mask).sum(), loss, error])
            self.sums = sums if self.sums is None else self.sums + sums
            self.max_gap = max(self.max_gap, float(gap.abs().max()))
            if not self.norms:
                replayed = tokens.labels.replayed
                fresh = mask if replayed is None else mask & ~replayed[:, None]
                gap = (tokens.logp - tokens.sampler_logp).clamp(-20.0, 20.0) * fresh  # of sampler and trainer
                k3 = gap.exp() - 1 - gap
                first = torch.stack([k3.sum(), fresh.sum().to(k3.dtype)])
                self.first = first if self.first is None else self.first + first
                self.first_max_gap = max(self.first_max_gap, float(gap.abs().max()))

    def end_step(self, norm: float) -> None:
        """End an optimiser step whose gradient had this `norm` before clipping."""
        self.norms.append(norm)

    def means(self, ranks: Ranks | None = None) -> dict[str, float]:
        """Return the metrics of the update, over all `ranks` (None: this process), by their names in `docs/metrics.md`.

        Empty if no micro-batch was added.
        """
        if not self.norms:
            return {}
        ranks = ranks or Alone()
        sums = torch.zeros(6) if self.sums is None else self.sums  # a rank may have had none
        first_sums = torch.zeros(2) if self.first is None else self.first
        count, entropy, outside, ratio, loss, error = ranks.total(sums).tolist()
        tokens = max(count, 1.0)
        mismatch, first = ranks.total(first_sums).tolist()
        max_gap, first_max_gap = ranks.largest(
            torch.tensor([self.max_gap, self.first_max_gap], dtype=torch.float64)
        ).tolist()
        steps = max(len(self.norms), 1)
        metrics = {
            "entropy": entropy / tokens,
            "kl/sampler_trainer": mismatch / max(first, 1.0),
            "logp_gap/max": first_max_gap,
            "ratio/mean": ratio / tokens,
            "ratio/log_max": max_gap,
            "ratio/outside": outside / tokens,
            "loss": loss / steps,
            "grad_norm": sum(self.norms) / steps,
            "tokens/trained": count,
        }
        if error:
            metrics["value/error"] = error / tokens
        return metrics


def list_warnings(metrics: Mapping[str, float], lag: int, *, compares_members: bool = True) -> list[str]:
    """Return one line for each metric of an update that usually means trouble.

    `lag` is the number of updates between sampling and training; with 0 the samples are fresh. `compares_members` says
    whether the method learns by comparing the members of a group, so that equal rewards teach nothing.
    """
    lines = []
    gap = metrics.get("kl/sampler_trainer", 0.0)
    if not math.isfinite(metrics.get("grad_norm", 0.0)):
        lines.append("the gradient is not finite, the step was skipped: lower --lr")
    if gap > 1e-3 and lag == 0:
        lines.append(f"sampler and trainer disagree (KL {gap:.1e} on fresh samples): their forwards differ")
    is_imitation = metrics.get("episodes/demonstrated", 0.0) >= metrics.get("episodes/played", 1.0)  # no group compares
    if metrics.get("groups/zero_variance", 0.0) > 0.9 and not is_imitation:
        success = metrics.get("success/mean", 0.0)
        # Between the two, each task is solved always or never.
        why = "the members of a group behave alike (a higher --temperature varies them)"
        if success > 0.9:
            why = "most tasks are solved (take harder ones, or stop)"
        elif success < 0.1:
            why = "the tasks are too hard as yet"
        if compares_members:
            lines.append(f"{metrics['groups/zero_variance']:.0%} of groups have equal rewards and teach nothing: {why}")
        elif not 0.1 <= success <= 0.9:  # no method learns from rewards that are all alike
            lines.append(f"success is {success:.0%}: {why}")
    for key, what, flag in (
        ("truncated/tokens", "episodes", "--max-tokens"),
        ("replies/cut", "replies", "--turn-tokens"),
    ):
        if metrics.get(key, 0.0) > 0.5:
            lines.append(f"{metrics[key]:.0%} of {what} end because their tokens are used up: raise {flag}")
    given_up = metrics.get("groups/stale", 0.0) + metrics.get("groups/cancelled", 0.0)
    if given_up > 0.02 * metrics.get("groups/played", 0.0):
        lines.append(
            f"{given_up:.0f} groups were given up as too old, long ones first: raise --max-lag, or lower --lag"
        )
    if metrics.get("episodes/errored", 0.0) > 0.1 * max(metrics.get("episodes/played", 0.0), 1.0):
        lines.append(f"{metrics['episodes/errored']:.0f} episodes failed with an error and were left out")
    if metrics.get("episodes/policy_faults", 0.0) > 0.1 * max(metrics.get("episodes/played", 0.0), 1.0):
        count = metrics["episodes/policy_faults"]
        lines.append(f"{count:.0f} episodes ended by replies that make the environment fail, scored as failures")
    return lines
