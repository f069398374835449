"""The learning rate's multiplier: `(update, total) -> float`, for `update` in `0 .. total - 1`."""

from __future__ import annotations

from math import cos, pi

from rl.methods.options import Natural, Share


def constant(update: int, total: int, *, warmup: Natural = 0) -> float:
    """1, after a linear rise over the first `warmup` updates.

    `update` counts from 0; `total` is not read.
    """
    return _warmup_factor(update, warmup)


def linear(update: int, total: int, *, warmup: Natural = 0, floor: Share = 0.0) -> float:
    """From 1 down to `floor` in a straight line, reached when all updates are done.

    `update` counts from 0 to `total - 1`. A linear rise over the first `warmup` updates comes before.
    """
    return _warmup_factor(update, warmup) * (floor + (1 - floor) * (1 - _progress(update, total, warmup)))


def cosine(update: int, total: int, *, warmup: Natural = 0, floor: Share = 0.0) -> float:
    """From 1 down to `floor` along half a cosine, reached when all updates are done.

    `update` counts from 0 to `total - 1`. A linear rise over the first `warmup` updates comes before.
    """
    decay = (1 - floor) * 0.5 * (1 + cos(pi * _progress(update, total, warmup)))
    return _warmup_factor(update, warmup) * (floor + decay)


def _warmup_factor(update: int, warmup: int) -> float:
    return min(1.0, (update + 1) / (warmup + 1))


def _progress(update: int, total: int, warmup: int) -> float:
    return min(1.0, max(0.0, (update - warmup) / max(1, total - warmup)))
