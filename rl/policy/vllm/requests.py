"""What is asked of an engine of vLLM and what it gives: the words that every process of it shares."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rl.records import SamplingParams

KEY = "turnwise"  # the name in vLLM's parameters under which a request carries its key and how it is drawn


class Unserved(ValueError):
    """The adapters of a model are none that vLLM can serve beside its weights."""


class Asked(Protocol):
    """A request as far as going on with it goes: `ids` have been drawn behind `prompt`."""

    prompt: tuple[int, ...]
    params: SamplingParams
    ids: list[int]


class Kept(NamedTuple):
    """A request as it stood when it was sent to another process."""

    prompt: tuple[int, ...]
    params: SamplingParams
    ids: list[int]


class Entry(NamedTuple):
    """What was drawn last: the token, and its log-probability under what was sampled and under the model."""

    token: int
    behaviour: float
    model: float


class Step(NamedTuple):
    """What a request was given in one step; `ended` when vLLM has let go of it."""

    key: int
    drawn: Entry
    ended: bool
