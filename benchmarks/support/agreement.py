"""Proof that rivals compute the same thing, against the model's own forward and against each other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from benchmarks.support.floors import Play
from rl.records import Group, History, Ticket, Trajectory

TOLERANCE = 1e-4  # nats for a log-probability, and the share of its largest entry for a gradient


class Disagreement(Exception):
    """Rivals do not compute the same thing, so that their times mean nothing."""


def agreed(**gaps: float) -> dict[str, float]:
    """Return the named gaps; raise `Disagreement` when one is above the tolerance."""
    for name, gap in gaps.items():
        if not gap <= TOLERANCE:
            raise Disagreement(f"{name} is off by {gap:.2g}, more than {TOLERANCE:g}")
    return gaps


@torch.no_grad()
def misfit(model: LlamaForCausalLM, played: Sequence[History]) -> float:
    """The largest gap between a recorded log-probability and what the model's own forward says of the token."""
    worst = 0.0
    for history in played:
        ids = torch.tensor(history.ids, device=model.device)
        logp = model(ids[None]).logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None]).squeeze(1)
        recorded = torch.tensor(history.logprobs[1:], device=model.device)
        gap = (logp - recorded)[torch.tensor(history.sampled[1:], device=model.device)].abs()
        worst = max(worst, float(gap.max()))
    return worst


def apart(one: nn.Module, other: nn.Module) -> float:
    """The largest gap between two models' gradients, as a share of the largest entry."""
    pairs = list(zip(one.parameters(), other.parameters(), strict=True))
    largest = max(float(a.grad.abs().max()) for a, _ in pairs if a.grad is not None)
    if not largest:
        raise Disagreement("the gradient is zero, which proves nothing")
    gaps = [float((a.grad - b.grad).abs().max()) for a, b in pairs if a.grad is not None and b.grad is not None]
    return max(gaps) / largest


def histories(trajectories: Sequence[Trajectory]) -> list[History]:
    """What the engine recorded; none of these episodes is ever rewritten."""
    return [next(trajectory.sequences()) for trajectory in trajectories]


def unrolled(prompts: Sequence[Sequence[int]], play: Play) -> list[History]:
    """What a floor recorded, `prompts` repeated for their groups."""
    group, start = len(play.ids) // len(prompts), len(prompts[0])
    sampled = [False] * start + play.sampled.tolist()
    found = []
    for i, (ids, logp) in enumerate(zip(play.ids.tolist(), play.logp.tolist(), strict=True)):
        found.append(History([*prompts[i // group], *ids], sampled, [0.0] * start + logp, [], []))
    return found


def rolled(trajectories: Sequence[Trajectory], start: int, device: torch.device) -> Play:
    """The engine's episodes, alike in shape, as a floor would have recorded them."""
    played = histories(trajectories)

    def block(rows: list[list]) -> Tensor:
        return torch.tensor([row[start:] for row in rows], device=device)

    sampled = torch.tensor(played[0].sampled[start:], device=device)
    return Play(block([h.ids for h in played]), sampled, block([h.logprobs for h in played]))


def grouped(trajectories: Sequence[Trajectory], size: int) -> list[Group]:
    """Consecutive trajectories as groups of `size`."""
    starts = range(0, len(trajectories), size)
    return [
        Group(Ticket(number, number, "train", number, size), list(trajectories[at : at + size]))
        for number, at in enumerate(starts)
    ]
