"""Samplers of arguments for the functions of small projects, by kind; short values, so that an issue can show them."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

_NOUNS = "ant bee cod dew elm fig hay oak pea rye sun yew barley cherry walnut"
NOUNS = tuple(_NOUNS.split())
LETTERS = "abcdefgh"

Sampler = Callable[[np.random.Generator], Any]


def _between(least: int, most: int) -> Sampler:
    return lambda rng: int(rng.integers(least, most + 1))


def _many(sample: Sampler, most: int) -> Sampler:
    return lambda rng: [sample(rng) for _ in range(int(rng.integers(most + 1)))]


def _tuple(*samplers: Sampler) -> Sampler:
    return lambda rng: tuple(sample(rng) for sample in samplers)


def _choice(*options: Any) -> Sampler:
    return lambda rng: options[int(rng.integers(len(options)))]


def _word(rng: np.random.Generator) -> str:
    return "".join(LETTERS[i] for i in rng.integers(len(LETTERS), size=int(rng.integers(1, 7))))


def _text(rng: np.random.Generator) -> str:
    """A few words, some repeated, some with capitals or punctuation."""
    words: list[str] = []
    for _ in range(int(rng.integers(1, 8))):
        word = NOUNS[int(rng.integers(len(NOUNS)))] if rng.random() < 0.7 or not words else words[-1].strip(".,!")
        word = word.capitalize() if rng.random() < 0.3 else word
        words.append(word + ("", "", "", ",", ".", "!")[int(rng.integers(6))])
    return " ".join(words)


def _span(rng: np.random.Generator) -> tuple[int, int]:
    start = int(rng.integers(0, 1300))
    return start, start + int(rng.integers(5, 139))


def _apart(rng: np.random.Generator) -> list[tuple[int, int]]:
    """Sorted spans that do not overlap."""
    edges = sorted({int(edge) for edge in rng.integers(300, 1300, size=2 * int(rng.integers(4)))})
    return [(edges[i], edges[i + 1]) for i in range(0, len(edges) - 1, 2)]


def _entry(rng: np.random.Generator) -> str:
    noun = NOUNS[int(rng.integers(4))]
    return f"{('in', 'out')[int(rng.integers(2))]} {noun} {int(rng.integers(1, 30))}"


def _rows(rng: np.random.Generator) -> list[str]:
    width = int(rng.integers(2, 6))
    return ["".join(".#"[int(i)] for i in rng.random(width) < 0.4) for _ in range(int(rng.integers(2, 5)))]


ARGUMENT_SAMPLERS: MappingProxyType[str, Sampler] = MappingProxyType(
    {
        "number": _between(-9, 20),
        "natural": _between(0, 40),
        "operand": _between(3, 12),
        "small": _between(1, 6),
        "large": _between(100, 9999),
        "numbers": _many(_between(-9, 20), 6),
        "some": lambda rng: [int(number) for number in rng.integers(-9, 20, size=int(rng.integers(2, 7)))],
        "word": _word,
        "noun": _choice(*NOUNS[:4]),
        "text": _text,
        "texts": _many(_text, 3),
        "items": _many(_tuple(_between(1, 60), _between(1, 9)), 4),
        "hour": _between(0, 23),
        "minute": _between(0, 59),
        "time": _between(0, 1439),
        "span": _span,
        "spans": _many(_span, 4),
        "apart": _apart,
        "point": _tuple(_between(-4, 6), _between(-4, 6)),
        "points": _many(_tuple(_between(-4, 6), _between(-4, 6)), 5),
        "compass": _choice(*"NESW"),
        "way": lambda rng: "".join("NESW"[i] for i in rng.integers(4, size=int(rng.integers(1, 7)))),
        "rows": _rows,
        "node": _between(1, 5),
        "edges": _many(_tuple(_between(1, 5), _between(1, 5)), 7),
        "entry": _entry,
        "entries": _many(_entry, 5),
        "digits": lambda rng: "".join(str(i) for i in rng.integers(10, size=int(rng.integers(2, 7)))),
    }
)
