"""Calls a part of a recipe as the trainer does, and says in one line what is wrong with the part or its result."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from rl.methods.options import PartError
from rl.methods.results import describe, part_label

# How the trainer calls the parts of each slot.
ARGUMENTS = {
    "sampler": "history, rng",
    "allot": "history, indices, size, rng",
    "strategy": "runner, ticket",
    "verdict": "judge, group",
    "shape": "group",
    "keep": "group",
    "score": "scorer, groups",
    "credit": "groups, norm",
    "baseline": "rewards, group, lengths",
    "scale": "advantages, rewards, group",
    "reweigh": "groups, credit",
    "phases": "rows, logprobs",
    "passes": "weights, epochs",
    "step": "tokens",
    "ratio": "tokens",
    "surrogate": "log_ratio, tokens",
    "select": "tokens",
    "penalty": "tokens",
    "reduce": "mask, labels",
    "schedule": "update, total",
}
REAL = "fiu"  # kinds of NumPy types that are real numbers


class RecipeFault(ValueError):
    """A part of a recipe does not keep to its slot's contract. The message is one line.

    It names the slot, the part, what the part did and what is expected of it.
    """


class Place(NamedTuple):
    """A part and the slot that it fills."""

    slot: str
    part: Callable[..., Any]

    @property
    def label(self) -> str:
        """The slot and the part's name, such as "surrogate clip"."""
        return part_label(self.slot, self.part)

    def call(self, *args: Any) -> Any:
        """Call the part. Raises `RecipeFault` for other parameters than its slot's, and for any exception in it."""
        self.check_parameters(*args)
        try:
            return self.part(*args)
        except Exception as error:
            self.fail_with(error)

    def check_parameters(self, *args: Any) -> None:
        """Raise `RecipeFault` if the part cannot be called with `args`."""
        try:
            inspect.signature(self.part).bind(*args)
        except TypeError as error:
            self.fail(f"is called with ({ARGUMENTS[self.slot]}): {error}")
        except ValueError:
            pass  # a built-in function without a signature

    def fail_with(self, error: Exception) -> NoReturn:
        """Raise `RecipeFault` for an exception that was raised while the part was called."""
        if isinstance(error, RecipeFault):
            raise error
        if isinstance(error, PartError):
            self.fail(_one_line(error), error)
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{last.filename}, line {last.lineno}"
        self.fail(f"raised {type(error).__name__}: {_one_line(error)} ({where}) on toy episodes", error)

    def fail(self, reason: str, error: Exception | None = None) -> NoReturn:
        """Raise `RecipeFault` with this reason."""
        raise RecipeFault(f"{self.label}: {reason}") from error

    def expect_array(self, result: Any, length: int, what: str) -> None:
        """Raise `RecipeFault` unless `result` is an array (length,) of finite real numbers: one per `what`."""
        if not isinstance(result, np.ndarray) or result.shape != (length,):
            self.fail(f"returned {describe(result)}, expected an array of shape ({length},), one number per {what}")
        self._expect_finite(result)

    def expect_list(self, result: Any, length: int, what: str) -> None:
        """Raise `RecipeFault` unless `result` is a list or an array of `length` finite real numbers: one per `what`."""
        is_list = isinstance(result, (list, tuple, np.ndarray)) and np.ndim(np.array(result, dtype=object)) == 1
        if not is_list or len(result) != length:
            self.fail(f"returned {describe(result)}, expected a list of {length} numbers, one per {what}")
        self._expect_finite(np.asarray(result))

    def expect_unchanged(self, before: Any, after: Any, what: str) -> None:
        """Raise `RecipeFault` unless the part has left `what` as it was: `before` and `after` are equal."""
        if before != after:
            self.fail(f"changes {what} that it is given, which other parts read after it; work on a copy")

    def expect_same(self, result: Any, again: Any, what: str) -> None:
        """Raise `RecipeFault` unless two calls with equal generators and histories have given the same."""
        if repr(result) != repr(again):
            self.fail(
                f"gives {what} by chance: {result!r:.40}, then {again!r:.40}; draw from rng alone, to be repeatable"
            )

    def _expect_finite(self, result: np.ndarray) -> None:
        if result.dtype.kind not in REAL:
            self.fail(f"returned {describe(result)}, expected real numbers")
        if not np.isfinite(result).all():
            self.fail(f"returned {result[~np.isfinite(result)][0]} among its numbers, expected finite ones")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or "no message"
