"""Messages about memory: what a run needs, and which flags to change if that is more than there is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from rl.cli import UserError
from rl.learner.forward import can_recompute
from rl.train.memory.estimate import Estimate, estimate, size_text
from rl.train.memory.workload import Workload


class MemoryReport:
    """The memory estimate of a run, and the messages to print before it starts and after memory ran out."""

    def __init__(
        self, model: nn.Module, work: Workload, free: int | None, *, recompute: bool | None, is_resumed: bool
    ) -> None:
        """Estimate the memory that `work` takes with `model`.

        Args:
            model: Model that is trained.
            work: What the run does with it.
            free: Free bytes of the GPU before any model is there; None for a CPU, which can swap.
            recompute: Whether blocks are recomputed; None where an update needs more than there is otherwise. For a CPU
                that is all memory of the machine.
            is_resumed: A resumed run is advised to change fewer flags.
        """
        self.model, self.free, self.is_resumed = model, free, is_resumed
        self.recompute: bool = _needs_recomputing(model, work, free) if recompute is None else recompute
        self.work = replace(work, recompute=self.recompute)
        self.estimate: Estimate = estimate(model, self.work)

    def lines(self) -> Iterator[str]:
        """Yield the estimate and, if that is more than is free, a warning with the flags that lower it."""
        yield self.estimate.summary()
        if self.free is not None and self.estimate.total > self.free:
            comparison = f"about {size_text(self.estimate.total)} are needed and {size_text(self.free)} are free"
            ways = advice(self.model, self.work, is_resumed=self.is_resumed)
            yield f"warning: {comparison}; totals of what lowers it: {ways}"

    @contextmanager
    def explain_out_of_memory(self) -> Iterator[None]:
        """Turn running out of memory before the first update into a `UserError` with advice."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise UserError(self.out_of_memory_message(is_resumed=self.is_resumed)) from error

    def stop_reason(self, error: Exception, engine_failure: Exception | None) -> str:
        """Return why a run stopped that can be resumed, with advice if memory ran out in an update or the engine.

        `error` ended the run. `engine_failure` is the error that ended the sampling engine, None if it still works.
        """
        if isinstance(error, torch.OutOfMemoryError):
            return self.out_of_memory_message()
        if engine_failure is not None and isinstance(engine_failure.__cause__, torch.OutOfMemoryError):
            return self.out_of_memory_message(is_sampling=True)
        return str(error)

    def out_of_memory_message(self, *, is_resumed: bool = True, is_sampling: bool = False) -> str:
        """Return the message after memory ran out, in an update or with `is_sampling` while sampling.

        It says what is needed by the estimate and which flags to change; with `is_resumed`, first those that a resumed
        run may change.
        """
        phase = "sampling" if is_sampling else "an update"
        size = size_text(_needed_bytes(self.estimate, is_sampling))
        ways = advice(self.model, self.work, is_resumed=is_resumed, is_sampling=is_sampling)
        return f"out of memory: {phase} needs about {size} by the estimate; {ways}"


def advice(model: nn.Module, work: Workload, *, is_resumed: bool = False, is_sampling: bool = False) -> str:
    """Return the flags to change with the totals they lead to: `--lora 16 (1.5 GiB), --dtype bfloat16 (2.0 GiB)`.

    For a resumed run those that it may change come first, then `; in a new run` and the others. With `is_sampling` the
    totals are those needed between two updates. If no flag helps, it advises a shorter limit or a smaller model.
    """
    ways = savings(model, work, is_sampling=is_sampling)
    if not ways:
        return f"{'in a new run ' if is_resumed else ''}lower --max-tokens, or take a smaller model"
    now = [f"{flag} ({size_text(total)})" for flag, total, on_resume in ways if on_resume or not is_resumed]
    later = [f"{flag} ({size_text(total)})" for flag, total, on_resume in ways if is_resumed and not on_resume]
    return ", ".join(now) + (f"{'; ' if now else ''}in a new run {', '.join(later)}" if later else "")


def savings(model: nn.Module, work: Workload, *, is_sampling: bool = False) -> list[tuple[str, int, bool]]:
    """Return the flags that lower the memory needed in an update or, with `is_sampling`, between two updates.

    Each is a tuple of the flag with its value, the total bytes that it leads to, and whether a resumed run may set it.
    Empty if none helps.
    """
    half, shorter = max(work.microbatch_tokens // 2, 1), work.context // 2
    changes = [
        ("--checkpoint-activations", replace(work, recompute=True), True),
        (f"--microbatch-tokens {half}", replace(work, microbatch_tokens=half), True),
        ("--lora 16", replace(work, rank=work.rank or 16), False),
        ("--dtype bfloat16", replace(work, itemsize=2), False),
    ]
    if is_sampling and shorter > work.prompt:
        changes.append((f"--max-tokens {shorter}", replace(work, context=shorter), False))
    current = _needed_bytes(estimate(model, work), is_sampling)
    totals = [
        (flag, _needed_bytes(estimate(model, changed_work), is_sampling), on_resume)
        for flag, changed_work, on_resume in changes
        if changed_work != work
    ]
    return [way for way in totals if way[1] < current]


def _needs_recomputing(model: nn.Module, work: Workload, free: int | None) -> bool:
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if free is None else free
    return can_recompute(model) and estimate(model, work).total > limit


def free_bytes(device: torch.device) -> int | None:
    """Return the free bytes of a GPU, or None for a CPU, which can swap."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else None


def _needed_bytes(estimate: Estimate, is_sampling: bool) -> int:
    """The total or, for sampling, without what exists only during an update."""
    return (replace(estimate, gradients=0, activations=0, logits=0) if is_sampling else estimate).total
