"""Named random streams: each depends only on the run's seed and on what it is used for."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

MAX_SEED = 2**63 - 1  # the largest seed that every random generator accepts


def derive(*parts: object) -> int:
    """Return a 63-bit seed from the text of `parts`, as in `derive(run_seed, "ticket", 17)`.

    Equal parts give equal seeds in every process, under any PYTHONHASHSEED.
    """
    digest = blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(*parts: object) -> np.random.Generator:
    """Return a new NumPy generator seeded by `derive(*parts)`: equal parts give equal numbers, from the first on."""
    return np.random.default_rng(derive(*parts))
