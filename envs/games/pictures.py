"""Small pictures without a library for images: coloured shapes in a grid of cells, written as PNG."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

Cell = tuple[str, str]  # a colour and a shape

COLOURS: Mapping[str, tuple[int, int, int]] = MappingProxyType(
    {"red": (214, 39, 40), "green": (44, 160, 44), "blue": (31, 79, 217), "yellow": (240, 200, 0)}
)
BACKGROUND, MARGIN = 255, 0.12  # margin: share of a cell's side that stays free on every side


def draw(cells: Sequence[Cell | None], columns: int, pixels: int, *, light: int = 100) -> np.ndarray:
    """Return a picture (H, W, 3) of cells, row by row, each `pixels` wide and high; None is an empty cell.

    `light` is the brightness of all colours in per cent.
    """
    rows = len(cells) // columns
    picture = np.full((rows * pixels, columns * pixels, 3), BACKGROUND, np.uint8)
    masks = _masks(pixels)
    for number, cell in enumerate(cells):
        if cell is not None:
            row, column = divmod(number, columns)
            part = picture[row * pixels : (row + 1) * pixels, column * pixels : (column + 1) * pixels]
            part[masks[cell[1]]] = COLOURS[cell[0]]
    return (picture * (light / 100)).astype(np.uint8)


def png_url(picture: np.ndarray) -> str:
    """Return a picture (H, W, 3) as the data URL of a PNG file (RFC 2083: 8 bits, RGB, no filter)."""
    height, width, _ = picture.shape
    lines = b"".join(b"\0" + line.tobytes() for line in picture)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    chunks = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    ]
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


def _masks(pixels: int) -> dict[str, np.ndarray]:
    """Where each shape covers its cell, (pixels, pixels), by name."""
    side = (np.arange(pixels) + 0.5) / pixels * 2 - 1
    y, x = side[:, None] / (1 - 2 * MARGIN), side[None, :] / (1 - 2 * MARGIN)
    inside = (abs(x) <= 1) & (abs(y) <= 1)
    return {
        "circle": x**2 + y**2 <= 1,
        "square": inside & (abs(x) <= 0.85) & (abs(y) <= 0.85),
        "triangle": inside & (abs(x) <= (y + 1) / 2),
        "cross": inside & ((abs(x) <= 0.3) | (abs(y) <= 0.3)),
    }


SHAPES = tuple(_masks(2))
