"""How many different policies a set of policies amounts to: effective channels of their outputs. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def effective_channels(embeddings: ArrayLike) -> float:
    """Compute K*, the exponential of the entropy of the Gram matrix's spectrum: from 1 (all alike) to n (orthogonal).

    `embeddings` is (n, d), one output per policy; rows are scaled to unit length. With `E E^T / n` uncentred, its
    eigenvalues p sum to 1 and K* = 2^H, H = -sum p log2 p. Raises `ValueError` for no rows or a row of zeros.
    """
    rows = _unit_rows(embeddings)
    # the same spectrum from the smaller of the two products
    gram = rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows
    shares = np.linalg.eigvalsh(gram) / len(rows)
    shares = shares[shares > 1e-12]
    return float(2.0 ** -(shares * np.log2(shares)).sum())


def conditioned_channels(embeddings: ArrayLike, correct: Sequence[bool], penalty: float = 0.5) -> float:
    """Compute K* of the correct outputs minus `penalty` times K* of the wrong ones; an empty side counts 0.

    Diversity that helps: different ways to be right, few ways to be wrong. Raises `ValueError` as
    `effective_channels` does, and for lengths that differ.
    """
    rows, right = _unit_rows(embeddings), np.asarray(correct, dtype=bool)
    if right.shape != (len(rows),):
        raise ValueError(f"{len(rows)} outputs but {right.size} verdicts")
    sides = [effective_channels(side) if len(side) else 0.0 for side in (rows[right], rows[~right])]
    return sides[0] - penalty * sides[1]


def channel_gains(embeddings: ArrayLike) -> list[float]:
    """Compute what each policy adds: K* of all minus K* of all but that one. Raises `ValueError` for fewer than two."""
    rows = _unit_rows(embeddings)
    if len(rows) < 2:
        raise ValueError("one output has nothing to be compared with")
    whole = effective_channels(rows)
    return [whole - effective_channels(np.delete(rows, i, axis=0)) for i in range(len(rows))]


def _unit_rows(embeddings: ArrayLike) -> np.ndarray:
    rows = np.asarray(embeddings, dtype=float)
    if rows.ndim != 2 or not len(rows):
        raise ValueError(f"embeddings must be (n, d) with n of at least 1, not {rows.shape}")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError("an embedding is zero or not finite: it points nowhere")
    return rows / lengths
