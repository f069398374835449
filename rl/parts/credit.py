"""How much each sampled token earns: `(groups, recipe) -> credit`.

Credit nests group > trajectory > (T,) float64 array over the sampled tokens of all turns, in order. Statistics run over
all groups of the optimiser step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rl.options import NonNegative, Share
from rl.parts import needs, returns, statistics
from rl.parts.statistics import Bools, Floats
from rl.records import Group, Trajectory

if TYPE_CHECKING:
    from rl.recipe import Recipe

Credit = list[list[np.ndarray]]


def outcome(groups: Sequence[Group], recipe: Recipe, *, whiten: bool = False) -> Credit:
    """One advantage per trajectory, on each of its tokens: the reward against `recipe.baseline`, by `recipe.scale`.

    `whiten` then standardises over all sampled tokens, as REINFORCE++-baseline does (arXiv:2501.03262).
    """
    rewards = np.array([reward for group in groups for reward in group.rewards], dtype=np.float64)
    group = np.repeat(np.arange(len(groups)), [len(group.trajectories) for group in groups])
    lengths = np.array([trajectory.num_sampled for trajectory in _trajectories(groups)], dtype=np.int64)
    centred = rewards - recipe.baseline(rewards, group, lengths)
    tokens = np.repeat(recipe.scale(centred, rewards, group), lengths)
    return _nested(groups, statistics.whiten(tokens) if whiten else tokens)


@needs("ref", when="kl")
def reward_to_go(
    groups: Sequence[Group],
    recipe: Recipe,
    *,
    gamma: Share = 1.0,
    kl: NonNegative = 0.0,
    whiten: bool = True,
    reset_at_gap: bool = False,
) -> Credit:
    """REINFORCE++ (arXiv:2501.03262): rewards from this token on, standardised over all sampled tokens.

    A turn's reward lies on its last token; what shaping added to the return lies on the last of all. `gamma` discounts
    per token. `kl` takes `kl * (log sampler - log reference)` from each token's reward. `reset_at_gap` keeps rewards
    from crossing an observation: the shipped form, blind to what earlier turns led to.
    """
    mask = _mask(groups)
    rewards = _token_rewards(groups)
    if kl:
        turns = (turn for trajectory in _trajectories(groups) for turn in trajectory.turns)
        sampler = np.array([logprob for turn in turns for logprob in turn.completion.logprobs])
        rewards = rewards - kl * (sampler - _stream(groups, "ref"))
    earned = returns.reward_to_go(_spread(rewards, mask), mask, gamma=gamma, reset_at_gap=reset_at_gap)[mask]
    return _nested(groups, statistics.whiten(earned) if whiten else earned)


@needs("value")
def gae(
    groups: Sequence[Group], recipe: Recipe, *, gamma: Share = 1.0, lam: Share = 1.0, whiten: bool = True
) -> Credit:
    """PPO: generalised advantage estimation over sampled tokens, jumping over observations (arXiv:1506.02438).

    Reads the stream `value` and fills `returns`, the critic's target. Rewards lie as in `reward_to_go`. An episode that
    a limit cut short is not bootstrapped: it has value 0 after its last token, like one that ended.
    """
    mask = _mask(groups)
    rewards, values = _spread(_token_rewards(groups), mask), _spread(_stream(groups, "value"), mask)
    advantages, targets = returns.generalised_advantages(rewards, values, mask, gamma=gamma, lam=lam)
    targets_left = iter(targets[mask].tolist())
    for trajectory in _trajectories(groups):
        for turn in trajectory.turns:
            turn.streams["returns"] = tuple(next(targets_left) for _ in turn.completion.ids)
    tokens = advantages[mask]
    return _nested(groups, statistics.whiten(tokens) if whiten else tokens)


def _trajectories(groups: Sequence[Group]) -> Iterator[Trajectory]:
    for group in groups:
        yield from group.trajectories


def _mask(groups: Sequence[Group]) -> Bools:
    """(B, T), True on sampled tokens, with one hole before each turn that had something to read."""
    rows = []
    for trajectory in _trajectories(groups):
        spans = (([False] if turn.context else []) + [True] * len(turn.completion.ids) for turn in trajectory.turns)
        rows.append([sampled for span in spans for sampled in span])
    mask = np.zeros((len(rows), max(map(len, rows), default=0)), dtype=np.bool_)
    for row, sampled in zip(mask, rows, strict=True):
        row[: len(sampled)] = sampled
    return mask


def _spread(tokens: Floats, mask: Bools) -> Floats:
    """Write a flat array over all sampled tokens to its places in (B, T)."""
    table = np.zeros(mask.shape)
    table[mask] = tokens
    return table


def _token_rewards(groups: Sequence[Group]) -> Floats:
    """Flat, over all sampled tokens. The rewards of a trajectory add up to its entry of `group.rewards`."""
    rows = []
    for group in groups:
        for trajectory, reward in zip(group.trajectories, group.rewards, strict=True):
            row = np.zeros(trajectory.num_sampled)
            ends = np.cumsum([len(turn.completion.ids) for turn in trajectory.turns])
            if row.size:
                # A turn without tokens pays the token before it, or the first one.
                np.add.at(row, np.maximum(ends - 1, 0), [turn.reward for turn in trajectory.turns])
                row[-1] += reward - trajectory.reward
            rows.append(row)
    return np.concatenate(rows) if rows else np.zeros(0)


def _stream(groups: Sequence[Group], name: str) -> Floats:
    """A stream, flat over all sampled tokens. Raises `ValueError` when no score part has filled it."""
    turns = [turn for trajectory in _trajectories(groups) for turn in trajectory.turns]
    if missing := sum(name not in turn.streams for turn in turns):
        raise ValueError(f"credit reads the stream {name!r}, which {missing} of {len(turns)} turns lack")
    return np.array([x for turn in turns for x in turn.streams[name]], dtype=np.float64)


def _nested(groups: Sequence[Group], tokens: Floats) -> Credit:
    """Cut a flat array over all sampled tokens into groups and trajectories."""
    ends = np.cumsum([trajectory.num_sampled for trajectory in _trajectories(groups)])
    pieces = iter(np.split(tokens, ends[:-1]))
    return [[next(pieces) for _ in group.trajectories] for group in groups]
