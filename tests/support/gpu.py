"""What tests of a GPU need."""

import pytest
import torch

GPU = "cuda"
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")]


def on_gpu(test):
    """Decorate a test that computes on a CUDA device."""
    for mark in needs_gpu:
        test = mark(test)
    return test
