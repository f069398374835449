"""Which kernels in Triton work on a device; torch's own operations serve elsewhere."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

log = logging.getLogger(__name__)
MIN_TOKENS = 1024  # with fewer, as in decoding, starting a kernel takes longer than what it saves


def softmax_kernels(logits_like: Tensor) -> Any:
    """Return the module `rl.policy.gpu.softmax` if it computes tensors of this device and precision, else None."""
    return _softmax(logits_like.device) if logits_like.is_cuda and logits_like.dtype != torch.float64 else None


def elementwise_kernels(x: Tensor) -> Any:
    """Return the module `rl.policy.gpu.elementwise` if it pays for a tensor x (N, ...), else None."""
    if not x.is_cuda or len(x) < MIN_TOKENS or x.dtype == torch.float64:
        return None
    return _elementwise(x.device)


def on_device_of(x: Tensor) -> AbstractContextManager[Any]:
    """Context in which kernels start on the GPU of `x`; Triton starts them on the current one."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


@cache
def _softmax(device: torch.device) -> Any:
    try:
        from rl.policy.gpu import softmax

        for dtype in (torch.bfloat16, torch.float32):
            logits, target = (
                torch.zeros(1, 2, dtype=dtype, device=device),
                torch.zeros(1, dtype=torch.int64, device=device),
            )
            logp, total, entropy = softmax.statistics(logits, target, None)
            softmax.write_gradient(logits, target, None, total, entropy, logp, None)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        return _missing("the softmax", error)
    return softmax


@cache
def _elementwise(device: torch.device) -> Any:
    try:
        from rl.policy.gpu import elementwise

        for dtype in (torch.bfloat16, torch.float32):
            x = torch.ones(1, 1, 2, dtype=dtype, device=device, requires_grad=True)
            with torch.enable_grad():
                total = elementwise.rotate(x, x.detach(), x.detach()).sum() + elementwise.gated_silu(x[0], x[0]).sum()
            torch.autograd.grad(total, x)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        return _missing("rotation and gates", error)
    return elementwise


def _missing(what: str, error: Exception) -> None:
    """Say once that torch's operations serve, because Triton is missing or cannot compile."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    log.warning("%s of a model in several kernels, because Triton does not work here: %s", what, lines[-1])
