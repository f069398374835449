"""The learning rate's multiplier: `(update, total) -> float`, for `update` in `0 .. total - 1`.

`total` is the number of updates that `--updates` asks for. It may grow when a run is resumed, and a run that ends with
its `--sampled-tokens` never gets there; so the default does not depend on it.
"""

from __future__ import annotations

from math import cos, pi

from rl.methods.options import Natural, Share


def constant(update: int, total: int, *, warmup: Natural = 0) -> float:
    """1, after a linear rise over the first `warmup` updates.

    `update` counts from 0; `total` is not read.
    """
    return _warmup_factor(update, warmup)


def linear(update: int, total: int, *, warmup: Natural = 0, floor: Share = 0.0, over: Natural = 0) -> float:
    """From 1 down to `floor` in a straight line, reached after `over` updates; 0 means all of the run.

    `update` counts from 0. A linear rise over the first `warmup` updates comes before. With `over=0` the rate depends
    on the length of the run: a run that is extended goes on at another rate than it ended with.
    """
    return _warmup_factor(update, warmup) * (floor + (1 - floor) * (1 - _progress(update, over or total, warmup)))


def cosine(update: int, total: int, *, warmup: Natural = 0, floor: Share = 0.0, over: Natural = 0) -> float:
    """From 1 down to `floor` along half a cosine, reached after `over` updates; 0 means all of the run.

    `update` counts from 0. A linear rise over the first `warmup` updates comes before. With `over=0` the rate depends
    on the length of the run: a run that is extended goes on at another rate than it ended with.
    """
    decay = (1 - floor) * 0.5 * (1 + cos(pi * _progress(update, over or total, warmup)))
    return _warmup_factor(update, warmup) * (floor + decay)


def _warmup_factor(update: int, warmup: int) -> float:
    return min(1.0, (update + 1) / (warmup + 1))


def _progress(update: int, total: int, warmup: int) -> float:
    return min(1.0, max(0.0, (update - warmup) / max(1, total - warmup)))
