"""Pictures of products, drawn in the page; they say nothing that the texts do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.web.sites.html import Markup

_SHAPES = {  # of each category, on a square of 48 units
    "Lamps": "M14 22h20l-6-14h-8zM23 22h2v16h-2zM16 38h16v3H16z",
    "Chairs": "M14 6h20v18H14zM12 26h24v5H12zM13 31h3v13h-3zM32 31h3v13h-3z",
    "Desks": "M5 16h38v5H5zM8 21h4v22H8zM36 21h4v22h-4zM24 21h12v9H24z",
    "Shelves": "M10 5h28v3H10zM10 17h28v3H10zM10 29h28v3H10zM10 41h28v3H10zM10 5h3v39h-3zM35 5h3v39h-3z",
}
_COLOURS = {
    **{"Black": "#26282c", "White": "#cfd4dc", "Oak": "#b98a52"},
    **{"Green": "#3f8f5b", "Red": "#b83a35", "Blue": "#3563a8"},
}


def picture(product: Mapping[str, Any], size: str = "picture") -> Markup:
    """Return a drawing of a product in its first colour; `size` is a class of the style, "picture" or "large"."""
    colour = _COLOURS[next(iter(product["stock"]))]
    shape = f'<path fill="{colour}" d="{_SHAPES[product["category"]]}"/>'
    return Markup(
        f'<svg class="{size}" viewBox="0 0 48 48" aria-hidden="true"><rect width="48" height="48" rx="6" '
        f'fill="#eef1f5"/>{shape}</svg>'
    )
