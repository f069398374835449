"""Products of float32 matrices without the shorter mantissa that a run asks for on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def whole_float32() -> Iterator[None]:
    """Context in which float32 matrices are multiplied in float32, not in TF32, whose mantissa has 10 bits.

    Trials that compare two ways to compute a model need it: by TF32 they differ by a thousandth.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
