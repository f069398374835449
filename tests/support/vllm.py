"""vLLM for tests: models that its kernels take, and engines that are closed before the next one starts."""

import gc
import os
import random
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from tests.support.models import model

TALL = {"hidden_size": 128, "intermediate_size": 160, "head_dim": 32, "initializer_range": 0.15}
needs_vllm = [pytest.mark.vllm, pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")]


def tall(kind="llama", seed=0, **changes):
    """A toy model with heads as large as vLLM wants them."""
    return model(kind, seed, **{**TALL, **changes})


@contextmanager
def started(net, **how):
    """A `VLLMPolicy` over `net`."""
    from rl.policy.vllm.policy import VLLMPolicy

    gc.collect()
    gc.freeze()  # vLLM collects garbage seven times a start, among all that the libraries hold
    policy = VLLMPolicy(net, **how)
    try:
        yield policy
    finally:
        policy.close()


def assert_alike(found, wanted):
    """Many replies equal but for rounding, which may turn one draw at the border between two tokens, if any."""
    assert len(found) == len(wanted) > 3
    same = [(mine, other) for mine, other in zip(found, wanted, strict=True) if mine.ids == other.ids]
    assert len(same) >= len(found) - 1
    for mine, other in same:
        assert mine.finish == other.finish
        np.testing.assert_allclose(mine.logprobs, other.logprobs, atol=1e-4)


def surroundings():
    """What an engine in this process must leave as it was."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
    numbers = np.random.get_state()[1].tolist()  # noqa: NPY002
    luck = (random.getstate(), numbers, torch.get_rng_state().tolist())
    return (
        inherited,
        luck,
        torch.set_num_threads,
        torch.get_num_threads(),
        torch.get_default_dtype(),
        os.sched_getaffinity(0),
    )
