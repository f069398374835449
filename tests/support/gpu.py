"""What tests of a GPU need."""

import pytest
import torch

from rl.policy.gpu.float32 import whole_float32

GPU = "cuda"
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")]


@pytest.fixture
def in_whole_float32():
    """Compute float32 in float32, not in TF32."""
    with whole_float32():
        yield


def on_gpu(test):
    """Decorate a test that computes on a CUDA device."""
    for mark in needs_gpu:
        test = mark(test)
    return test
