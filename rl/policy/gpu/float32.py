"""Products of float32 matrices without the shorter mantissa that a run asks for on a GPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.RLock()  # it is a setting of the whole process


@contextmanager
def whole_float32() -> Iterator[None]:
    """Context in which a GPU multiplies float32 matrices in float32, not in TF32, whose mantissa has 10 bits.

    Trials that compare two ways to compute a model need it: by TF32 they differ by a thousandth.
    """
    matmul = torch.backends.cuda.matmul
    with _lock:
        before, matmul.fp32_precision = matmul.fp32_precision, "ieee"
        try:
            yield
        finally:
            matmul.fp32_precision = before


def is_tf32() -> bool:
    """Whether a GPU multiplies float32 matrices in TF32."""
    return torch.backends.cuda.matmul.fp32_precision == "tf32"
