"""What vLLM holds for us and what was drawn for it: the memory that our engine and our draws inside vLLM share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rl.records import SamplingParams

KEY = "turnwise"  # the name in vLLM's parameters under which a request says which entry of the ledger is its own


class Asked(Protocol):
    """A request as far as drawing its next token goes."""

    prompt: tuple[int, ...]
    params: SamplingParams
    ids: list[int]


class Entry(NamedTuple):
    """What was drawn last: the token, and its log-probability under what was sampled and under the model."""

    token: int
    behaviour: float
    model: float


@dataclass
class Ledger:
    """By key, the requests that vLLM holds and what was drawn for them in the last step."""

    asked: dict[int, Asked] = field(default_factory=dict)
    drawn: dict[int, Entry] = field(default_factory=dict)
