"""Words about memory: what a run will need, and what to lower where that is more than there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from rl.cli import UserError
from rl.train.memory_estimate import Estimate, Work, estimate, shown


class Foresight:
    """The estimate for a model and what a run does with it; one that is `resumed` may not change everything."""

    def __init__(self, model: nn.Module, work: Work, *, resumed: bool) -> None:
        self.model, self.work, self.resumed = model, work, resumed
        self.estimate: Estimate = estimate(model, work)

    def told(self, free: int) -> Iterator[str]:
        """What is needed and, where no more than `free` bytes are there and these are too few, what lowers it."""
        yield self.estimate.words()
        if self.estimate.total > free:
            needed = f"about {shown(self.estimate.total)} are needed and {shown(free)} are free"
            yield f"warning: {needed}; totals of what lowers it: {advice(self.model, self.work, resumed=self.resumed)}"

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Turn running out of memory, before there is anything to resume, into a `UserError` that says what to do."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise UserError(self.spent(resumed=self.resumed)) from error

    def words(self, ended: Exception, death: Exception | None) -> str:
        """Why a run ended that can be resumed; where memory ran out, of an update or of the engine, what to do."""
        if isinstance(ended, torch.OutOfMemoryError):
            return self.spent()
        if death is not None and isinstance(death.__cause__, torch.OutOfMemoryError):
            return self.spent(sampling=True)
        return str(ended)

    def spent(self, *, resumed: bool = True, sampling: bool = False) -> str:
        """What to do after memory ran out, in an update or while tokens were drawn."""
        what = "out of memory while sampling, which needs" if sampling else "out of memory, of which an update needs"
        ways = advice(self.model, self.work, resumed=resumed, sampling=sampling)
        return f"{what} about {shown(_needed(self.estimate, sampling))} by the estimate; {ways}"


def advice(model: nn.Module, work: Work, *, resumed: bool = False, sampling: bool = False) -> str:
    """What to change, with the totals that it leads to; for a run that is to be `resumed`, what it may change first."""
    ways = savings(model, work, sampling=sampling)
    if not ways:
        return f"{'in a new run ' if resumed else ''}lower --max-tokens, or take a smaller model"
    told = [f"{flag} ({shown(total)})" for flag, total, may in ways if may or not resumed]
    later = [f"{flag} ({shown(total)})" for flag, total, may in ways if resumed and not may]
    return ", ".join(told) + (f"{'; ' if told else ''}in a new run {', '.join(later)}" if later else "")


def savings(model: nn.Module, work: Work, *, sampling: bool = False) -> list[tuple[str, int, bool]]:
    """Flags that lower the estimate: each with the total it leads to, and whether a resumed run may take it.

    The estimate is that of an update, or of `sampling` between two of them.
    """
    half, shorter = max(work.microbatch_tokens // 2, 1), work.context // 2
    ways = [
        ("--checkpoint-activations", replace(work, recompute=True), True),
        (f"--microbatch-tokens {half}", replace(work, microbatch_tokens=half), True),
        ("--lora 16", replace(work, rank=work.rank or 16), False),
        ("--dtype bfloat16", replace(work, itemsize=2), False),
    ]
    if sampling and shorter > work.prompt:
        ways.append((f"--max-tokens {shorter}", replace(work, context=shorter), False))
    now = _needed(estimate(model, work), sampling)
    totals = [(flag, _needed(estimate(model, other), sampling), may) for flag, other, may in ways if other != work]
    return [way for way in totals if way[1] < now]


def _needed(estimate: Estimate, sampling: bool) -> int:
    """All of it, or what is there between two updates."""
    return (replace(estimate, gradients=0, activations=0, logits=0) if sampling else estimate).total


def free(device: torch.device) -> int | None:
    """Bytes that are free on a GPU; None on a CPU, which can swap."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else None
