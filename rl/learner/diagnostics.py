"""What an update looked like from inside: numbers that tell a healthy run from a sick one, and words for the sick."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from rl.methods.inputs import Tokens


class Diagnostics:
    """Sums over micro-batches and optimiser steps, turned into means at the end."""

    def __init__(self) -> None:
        self.sums: Tensor | None = None
        self.largest = 0.0
        self.gap = 0.0  # the largest of the first optimiser step
        self.first: Tensor | None = None  # (sum of k3, tokens) of the first optimiser step: before any weight moved
        self.norms: list[float] = []

    def add(self, tokens: Tokens, loss: Tensor) -> None:
        """Take in one micro-batch."""
        with torch.no_grad():
            mask = tokens.mask
            gap = (tokens.logp - tokens.old).clamp(-20.0, 20.0) * mask
            ratio = gap.exp()
            k3 = (ratio - 1 - gap) * mask
            count = mask.sum()
            outside = ((ratio - 1).abs() > 0.2) & mask
            error = loss.new_zeros(())
            if tokens.value is not None and tokens.returns is not None:
                error = ((tokens.value - tokens.returns) * mask).square().sum()
            sums = torch.stack(
                [count, (tokens.entropy * mask).sum(), k3.sum(), outside.sum(), (ratio * mask).sum(), loss, error]
            )
            self.sums = sums if self.sums is None else self.sums + sums
            self.largest = max(self.largest, float(gap.abs().max()))
            if not self.norms:
                replayed = tokens.labels.replayed
                fresh = mask if replayed is None else mask & ~replayed[:, None]
                first = torch.stack([(k3 * fresh).sum(), fresh.sum().to(k3.dtype)])
                self.first = first if self.first is None else self.first + first
                self.gap = max(self.gap, float((gap * fresh).abs().max()))

    def step(self, norm: float) -> None:
        """An optimiser step was taken with this gradient norm, before clipping."""
        self.norms.append(norm)

    def means(self) -> dict[str, float]:
        """The metrics of the update, by the names of `docs/metrics.md`; empty when nothing was trained."""
        if self.sums is None or self.first is None:
            return {}
        count, entropy, _, outside, ratio, loss, error = self.sums.tolist()
        tokens = max(count, 1.0)
        mismatch, first = self.first.tolist()
        passes = max(len(self.norms), 1)
        found = {
            "entropy": entropy / tokens,
            "kl/sampler_trainer": mismatch / max(first, 1.0),
            "logp_gap/max": self.gap,
            "ratio/mean": ratio / tokens,
            "ratio/log_max": self.largest,
            "ratio/outside": outside / tokens,
            "loss": loss / passes,
            "grad_norm": sum(self.norms) / passes,
            "tokens/trained": count,
        }
        if error:
            found["value/error"] = error / tokens
        return found


def warnings(metrics: Mapping[str, float], lag: int) -> list[str]:
    """Plain words about metrics that usually mean trouble."""
    found = []
    gap = metrics.get("kl/sampler_trainer", 0.0)
    if not math.isfinite(metrics.get("grad_norm", 0.0)):
        found.append("the gradient is not finite, the step was skipped: lower --lr")
    if gap > 1e-3 and lag == 0:
        found.append(f"sampler and trainer disagree (KL {gap:.1e} on fresh samples): their forwards differ")
    if metrics.get("groups/zero_variance", 0.0) > 0.9:
        share = metrics["groups/zero_variance"]
        found.append(f"{share:.0%} of groups have equal rewards and teach nothing: the tasks are too easy or too hard")
    for key, what, flag in (
        ("truncated/tokens", "episodes", "--max-tokens"),
        ("replies/cut", "replies", "--turn-tokens"),
    ):
        if metrics.get(key, 0.0) > 0.5:
            found.append(f"{metrics[key]:.0%} of {what} end because their tokens are used up: raise {flag}")
    if metrics.get("episodes/errored", 0.0) > 0.1 * max(metrics.get("episodes/played", 0.0), 1.0):
        found.append(f"{metrics['episodes/errored']:.0f} episodes failed by a fault of ours and were left out")
    return found
