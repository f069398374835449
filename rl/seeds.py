"""Seeds by name: every random stream of a run is a pure function of the run's seed and what the stream is for."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

LARGEST = 2**63 - 1  # seed that every generator takes


def derive(*parts: object) -> int:
    """A 63-bit seed from any printable parts; equal in every process, under any PYTHONHASHSEED."""
    digest = blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(*parts: object) -> np.random.Generator:
    """A NumPy generator of its own for the stream named by `parts`."""
    return np.random.default_rng(derive(*parts))
