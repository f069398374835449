"""vLLM for tests: models that its kernels support, and engines that are closed before the next one starts."""

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


def vllm_model(kind="llama", seed=0, **changes):
    """Return a toy model with heads of a size that vLLM's CPU kernels support."""
    return model(kind, seed, **{**TALL, **changes})


@contextmanager
def open_vllm(net, **options):
    """Context with a `VLLMPolicy` over `net`, closed at the end."""
    from rl.policy.vllm.policy import VLLMPolicy

    gc.collect()
    gc.freeze()  # vLLM collects garbage seven times during a start
    policy = VLLMPolicy(net, **options)
    try:
        yield policy
    finally:
        policy.close()


def assert_replies_match(replies, expected):
    """Assert that replies are equal up to rounding, which may change the tokens of at most one of them."""
    assert len(replies) == len(expected) > 3
    same = [(mine, other) for mine, other in zip(replies, expected, strict=True) if mine.ids == other.ids]
    assert len(same) >= len(replies) - 1
    for mine, other in same:
        assert mine.finish == other.finish
        np.testing.assert_allclose(mine.logprobs, other.logprobs, atol=1e-4)


def process_state():
    """Return the state of this process that starting an engine must not change."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
    numpy_state = np.random.get_state()[1].tolist()  # noqa: NPY002
    random_states = (random.getstate(), numpy_state, torch.get_rng_state().tolist())
    return (
        environment,
        random_states,
        torch.set_num_threads,
        torch.get_num_threads(),
        torch.get_default_dtype(),
        os.sched_getaffinity(0),
    )
