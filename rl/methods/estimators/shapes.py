"""Shape checks for arrays that enter an estimator: one call per function, never inside a loop."""

from __future__ import annotations

from typing import Any


def expect_shapes(**arrays: tuple[Any, str]) -> None:
    """Raise `ValueError` unless every array has the axes that its letters name, each letter one length throughout.

        expect_shapes(values=(values, "BT"), mask=(mask, "BT"), group=(group, "B"))

    Arrays may be NumPy arrays or tensors. The message names the array, its shape and the shape that was expected.
    """
    sizes: dict[str, int] = {}
    for name, (array, axes) in arrays.items():
        shape = array.shape
        if len(shape) != len(axes) or any(
            sizes.setdefault(axis, size) != size for axis, size in zip(axes, shape, strict=True)
        ):
            lengths = ", ".join(f"{axis}={sizes[axis]}" for axis in axes if axis in sizes)
            where = f" with {lengths}" if lengths else ""
            raise ValueError(f"{name} has shape {tuple(shape)}, expected ({', '.join(axes)}){where}")
