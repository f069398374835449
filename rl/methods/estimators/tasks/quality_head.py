"""A small network that predicts success from hidden states, and whom to keep of a group by its predictions.

Legend: N samples, E hidden size, W width of the network, G members of a group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rl.methods.estimators.statistics import Floats, Ints
from rl.seeds import generator

WIDTH, STEPS, RATE, DECAY = 32, 100, 0.01, 0.01
BETAS, EPS = (0.9, 0.999), 1e-8  # of Adam
HELD_OUT = 5  # every fifth sample sets the temperature, the others the weights
TEMPERATURES = np.geomspace(0.25, 8.0, 41)
LEAST, MOST = 1e-3, 1 - 1e-3  # predictions


class Head(NamedTuple):
    """Two layers on standardised features; the logit is divided by a temperature."""

    mean: Floats  # (E,)
    spread: Floats  # (E,)
    first: Floats  # (E + 1, W)
    second: Floats  # (W + 1,)
    temperature: float

    def predict(self, features: Floats) -> Floats:
        """The predicted probability of success (N,) of features (N, E)."""
        logits = _forward(self.first, self.second, _with_one((features - self.mean) / self.spread))[1]
        return np.clip(_sigmoid(logits / self.temperature), LEAST, MOST)


def fit(features: Floats, outcomes: Floats) -> Head:
    """Fit a head to features (N, E) and outcomes (N,) of 0 and 1 by logistic loss; a pure function of these.

    The temperature is the one of a grid that makes every fifth outcome likeliest, which the weights are not fitted to.
    """
    features = np.asarray(features, dtype=np.float64)
    mean, spread = features.mean(0), features.std(0) + 1e-6
    x, y = _with_one((features - mean) / spread), np.asarray(outcomes, dtype=np.float64)
    is_out = np.arange(len(y)) % HELD_OUT == HELD_OUT - 1
    rng, width = generator("quality head"), x.shape[1]
    weights = [rng.normal(0, width**-0.5, (width, WIDTH)), np.append(rng.normal(0, WIDTH**-0.5, WIDTH), 0.0)]
    moments = [[np.zeros_like(w), np.zeros_like(w)] for w in weights]
    for step in range(1, STEPS + 1):
        for w, moment, gradient in zip(weights, moments, _gradients(weights, x[~is_out], y[~is_out]), strict=True):
            for i, value in enumerate((gradient, gradient**2)):
                moment[i] = BETAS[i] * moment[i] + (1 - BETAS[i]) * value
            direction, size = (m / (1 - b**step) for m, b in zip(moment, BETAS, strict=True))
            w -= RATE * (direction / (np.sqrt(size) + EPS) + DECAY * w)
    logits = _forward(weights[0], weights[1], x[is_out])[1]
    losses = [np.logaddexp(0, np.where(y[is_out] > 0, -1, 1) * logits / t).sum() for t in TEMPERATURES]
    temperature = float(TEMPERATURES[int(np.argmin(losses))]) if is_out.any() else 1.0
    return Head(mean, spread, weights[0], weights[1], temperature)


def survival(predicted: Floats, *, keep: float = 0.5, balance: float = 0.5) -> Floats:
    """The chance (G,) of each member to be kept: `clip(p s+ + (1 - p) s-, 0.05, 1)`.

    With the mean prediction `m`, `s+ = keep * balance / m` and `s- = keep * (1 - balance) / (1 - m)`: a share `keep` of
    the group is kept, of which a share `balance` succeeds, where predictions are right and no chance is above 1.
    """
    mean = float(np.mean(predicted))
    chances: Floats = predicted * (keep * balance / mean) + (1 - predicted) * (keep * (1 - balance) / (1 - mean))
    return np.clip(chances, 0.05, 1.0)


def choose(chances: Floats, uniforms: Floats, count: int) -> Ints:
    """Draw `count` members (count,) by their chances (G,): of `u < chance`, repaired to the number by `u / chance`."""
    return np.sort(np.argsort(uniforms / chances, kind="stable")[:count])


def _gradients(weights: list[Floats], x: Floats, y: Floats) -> tuple[Floats, Floats]:
    units, logits = _forward(weights[0], weights[1], x)
    error = (_sigmoid(logits) - y) / max(len(y), 1)
    back = error[:, None] * weights[1][:-1] * (1 - units**2)
    return x.T @ back, _with_one(units).T @ error


def _forward(first: Floats, second: Floats, x: Floats) -> tuple[Floats, Floats]:
    units: Floats = np.tanh(x @ first)
    return units, _with_one(units) @ second


def _with_one(x: Floats) -> Floats:
    return np.column_stack([x, np.ones(len(x))])


def _sigmoid(x: Floats) -> Floats:
    return 0.5 * (1 + np.tanh(x / 2))
