"""Factors of advantages that the groups of one update decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from rl.methods.estimators import clusters, reweighing, token_table, turn_table
from rl.methods.estimators.statistics import Floats
from rl.methods.estimators.tasks import hints, labels
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.options import AboveZero, NonNegative, Positive
from rl.methods.parts import needs
from rl.records import Group


@needs("ref")
def overconfident_errors(
    groups: Sequence[Group],
    credit: TokenAdvantages,
    *,
    alpha: NonNegative = 1.0,
    temperature: Positive = 1.0,
    confidence: Literal["mean", "sum"] = "mean",
    gate: Literal["softplus", "relu"] = "softplus",
    cap: Positive = 5.0,
) -> TokenAdvantages:
    """ACE (arXiv:2602.21420): negative advantages times `1 + alpha * min(softplus(c / temperature), cap)`.

    `c` is how much likelier the trajectory is for the sampling policy than for the reference, in nats, per token with
    `confidence="mean"`: errors that training itself has made likely are corrected most.
    """
    table = turn_table.from_groups(groups)
    gap = token_table.sampler_logprobs(groups) - token_table.read_stream(groups, "ref")
    shift = _per_trajectory(gap, table.lengths, confidence)
    factor = reweighing.error_factor(shift / temperature, alpha=alpha, gate=gate, cap=cap)
    return reweighing.multiply(credit, factor, negative_only=True)


def rare_successes(
    groups: Sequence[Group],
    credit: TokenAdvantages,
    *,
    alpha: NonNegative = 1.0,
    key: Literal["shape", "reply", "state"] = "shape",
    scope: Literal["successes", "all"] = "successes",
    norm: Literal["mean", "none"] = "mean",
) -> TokenAdvantages:
    """Uniqueness-aware RL (arXiv:2601.08763): advantages times `f^-alpha`, `f` members of the group with the same plan.

    Only successes are weighed, with `scope="all"` every member. `key` tells plans apart: by the tools that were called,
    in order, and the text of replies without its numbers ("shape"), by the whole text ("reply"), or by the states that
    the episode came through ("state"). `norm="mean"` divides by the mean weight in the group's scope, so that the step
    keeps its size.
    """
    weights = []
    for group in groups:
        labels = [clusters.plan_of(trajectory, key) for trajectory in group.trajectories]
        in_scope = np.array([scope == "all" or trajectory.success for trajectory in group.trajectories], dtype=np.bool_)
        weights.append(reweighing.rarity(labels, in_scope, alpha=alpha, normalised=norm == "mean"))
    return reweighing.multiply(credit, np.concatenate([*weights, np.zeros(0)]))


def novel_successes(
    groups: Sequence[Group], credit: TokenAdvantages, *, bonus: NonNegative = 2.5, cap: NonNegative = 0.5
) -> TokenAdvantages:
    """XRPO (arXiv:2510.06672): successes gain `min(max(bonus * (1 - eta), 0), cap * A)` where they were unlikely.

    `eta = exp(s - mean of the group)`, with `s` a trajectory's mean log-probability per token when it was sampled.
    """
    table = turn_table.from_groups(groups)
    likelihood = _per_trajectory(token_table.sampler_logprobs(groups), table.lengths, "mean")
    success = np.array([trajectory.success for trajectory in turn_table.trajectories(groups)], dtype=np.bool_)
    return reweighing.sharpen(credit, likelihood, table.group, success, bonus=bonus, cap=cap)


def most_spread(groups: Sequence[Group], credit: TokenAdvantages, *, share: AboveZero = 0.5) -> TokenAdvantages:
    """D3S (arXiv:2509.22115): keep the `share` of the update's trajectories whose advantages vary most; others get 0.

    They are some of the smallest and some of the largest. A trajectory's advantage is the mean over its tokens.
    """
    flat = np.array([float(tokens.mean()) if len(tokens) else 0.0 for of_group in credit for tokens in of_group])
    is_kept = reweighing.most_spread(flat, max(1, round(share * len(flat))))
    return reweighing.multiply(credit, is_kept.astype(np.float64))


def uncertain_turns(groups: Sequence[Group], credit: TokenAdvantages, *, share: AboveZero = 0.8) -> TokenAdvantages:
    """DART-GUI (arXiv:2509.23866): keep the `share` of a group's turns that were least certain; others get 0.

    How uncertain a turn is, its mean negative log-probability per token estimates, as it was sampled.
    """
    result = []
    for group, of_group in zip(groups, credit, strict=True):
        turns = [turn.completion.logprobs for trajectory in group.trajectories for turn in trajectory.turns]
        surprise = np.array([-sum(logprobs) / len(logprobs) if logprobs else 0.0 for logprobs in turns])
        mask = np.repeat(reweighing.largest(surprise, share), [len(logprobs) for logprobs in turns])
        ends = np.cumsum([len(tokens) for tokens in of_group])[:-1]
        factors = np.split(mask, ends) if of_group else []
        result.append([tokens * factor for tokens, factor in zip(of_group, factors, strict=True)])
    return result


def contrasting_pairs(groups: Sequence[Group], credit: TokenAdvantages, *, share: AboveZero = 0.5) -> TokenAdvantages:
    """Shuffle-R1 (arXiv:2508.05612): keep the `share` of a group's pairs that differ most; others get 0.

    The member with the largest advantage is paired with that of the smallest, the next largest with the next smallest,
    and so on. The one in the middle of an odd number is left out.
    """
    weights = []
    for of_group in credit:
        flat = np.array([float(tokens.mean()) if len(tokens) else 0.0 for tokens in of_group])
        weights.append(reweighing.contrasting_pairs(flat, share).astype(np.float64))
    return reweighing.multiply(credit, np.concatenate([*weights, np.zeros(0)]))


def surprise(
    groups: Sequence[Group], credit: TokenAdvantages, *, alpha: NonNegative = 0.4, kappa: Positive = 2.0
) -> TokenAdvantages:
    """MSSR (arXiv:2512.18215): add `min(-alpha * p log p, |A| / kappa)` to each token's advantage, `p` its probability.

    With `kappa` above 1 no advantage changes its sign; a negative one shrinks.
    """
    logp = token_table.sampler_logprobs(groups)
    flat = np.concatenate([tokens for of_group in credit for tokens in of_group]) if len(logp) else np.zeros(0)
    advantages = flat + np.minimum(-alpha * np.exp(logp) * logp, np.abs(flat) / kappa)
    return token_table.nest(groups, advantages)


def by_hint(groups: Sequence[Group], credit: TokenAdvantages) -> TokenAdvantages:
    """ADHint: weigh members by how much a hint helps their group, `strategy=hinted`'s difficulty after the fact.

    With `gap` the failure rate of unaided members less that of those that were given a hint, an unaided success weighs
    `1 + gap` and an unaided failure `1 - gap`, at least 0; those with a hint the reverse.
    """
    weights = []
    for group, of_group in zip(groups, credit, strict=True):
        flat = np.array([float(tokens.mean()) if len(tokens) else 0.0 for tokens in of_group])
        is_guided = np.array([trajectory.guided > 0 for trajectory in group.trajectories], dtype=np.bool_)
        success = np.array([float(trajectory.success) for trajectory in group.trajectories])
        weights.append(hints.posterior_factors(flat, success, is_guided))
    return reweighing.multiply(credit, np.concatenate([*weights, np.zeros(0)]))


def calm(groups: Sequence[Group], credit: TokenAdvantages) -> TokenAdvantages:
    """ETTRL (arXiv:2508.11356): advantages times `2 - H / mean(H)`, at least 0, so that sure members count more.

    `H` estimates a member's mean entropy per token, by the log-probabilities of what was sampled; its mean is the
    group's.
    """
    table = turn_table.from_groups(groups)
    entropy = -_per_trajectory(token_table.sampler_logprobs(groups), table.lengths, "mean")
    factors = np.ones(len(entropy))
    for number in range(len(groups)):
        rows = table.group == number
        factors[rows] = labels.calmness(entropy[rows])
    return reweighing.multiply(credit, factors)


def _per_trajectory(per_token: Floats, lengths: np.ndarray, over: str) -> Floats:
    """Sums or means (B,) of numbers (M,) over each trajectory's tokens; 0 without tokens."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    total: Floats = np.bincount(owner, per_token, minlength=len(lengths)).astype(np.float64)
    return total / np.maximum(lengths, 1) if over == "mean" else total


def unforced(groups: Sequence[Group], credit: TokenAdvantages) -> TokenAdvantages:
    """Advantage 0 on tokens that a strategy chose instead of sampling them (stream `forced`, see `look_ahead`).

    They have no probability of having been sampled, which ratios and policy gradients take them to have.
    """
    result = []
    for group, members in zip(groups, credit, strict=True):
        parts = []
        for trajectory, one in zip(group.trajectories, members, strict=True):
            marks = [turn.streams.get("forced", (0.0,) * len(turn.completion.ids)) for turn in trajectory.turns]
            parts.append(np.where(np.array([mark > 0 for turn in marks for mark in turn], np.bool_), 0.0, one))
        result.append(parts)
    return result
