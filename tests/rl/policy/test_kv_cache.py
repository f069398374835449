"""The cache of the hf engine: which prefix of which slot a request is given."""

import numpy as np
import pytest
import torch

from rl.policy.kv_cache import MIN_SHARED, KVCache

LENGTH = 2 * MIN_SHARED + 8


def random_cache(rng, slots):
    """A cache whose slots share prefixes of all lengths, with keys that tell their slot and place."""
    cache = KVCache(
        layers=1, kv_heads=1, head_dim=1, slots=slots, context=64, device=torch.device("cpu"), dtype=torch.float32
    )
    cache.reserve(slots, LENGTH)
    base = rng.integers(0, 3, LENGTH)
    for slot in range(cache.rows):
        ids = base.copy()
        cut = int(rng.integers(0, LENGTH + 1))
        ids[cut:] = rng.integers(0, 3, LENGTH - cut)
        cache.write(slot, ids.tolist(), 0)
        cache.num_cached[slot] = rng.integers(0, LENGTH + 1) * (rng.random() < 0.8)
        cache.kv[:, :, slot, :, :LENGTH, 0] = 1000.0 * slot + torch.arange(LENGTH)
    return cache, base


def longest(cache, slot, ids):
    """The slot with the longest cached prefix of `ids`, the first of several, and its length; by trying them all."""

    def cached(other):
        equal = [mine == token for mine, token in zip(cache.ids[other], ids, strict=False)]
        return min(([*equal, False]).index(False), int(cache.num_cached[other]), len(ids))

    lengths = [cached(other) for other in range(cache.rows)]
    keep, best = lengths[slot], int(np.argmax(lengths))
    return (best, lengths[best]) if lengths[best] >= max(MIN_SHARED, keep + 1) else (slot, keep)


@pytest.mark.parametrize("seed", range(40))
def test_the_longest_prefix_is_copied_and_no_more(seed):
    rng = np.random.default_rng(seed)
    cache, base = random_cache(rng, 8)
    slot, length = int(rng.integers(cache.rows)), int(rng.integers(1, LENGTH + 1))
    ids = tuple(base[:length].tolist())
    source, expected = longest(cache, slot, ids)
    before = cache.kv.clone()
    keep = cache.common_prefix(slot, ids)
    assert cache.share_prefix(slot, ids) == expected
    changed = before.clone()
    changed[:, :, slot, :, keep:expected] = before[:, :, source, :, keep:expected]
    assert torch.equal(cache.kv, changed)


def test_a_cache_without_anything_in_it_gives_nothing():
    cache, base = random_cache(np.random.default_rng(0), 8)
    cache.invalidate()
    assert cache.share_prefix(3, tuple(base.tolist())) == 0
    assert cache.share_prefix(3, ()) == 0
