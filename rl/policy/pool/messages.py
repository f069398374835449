"""Messages between a run and its engines, as `rl.processes.framing` sends them.

What the run sends is handled in the order in which it was sent, so a request that is sent after `Load` is sampled with
the weights of that message. Every message of an engine names its `origin`: the run, and which of the engine's processes
it is from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agents.images import PlacedImage
from rl.records import Completion, SamplingParams

Origin = tuple[str, int]  # the run's id, and the number of the process, which no other one of the run has


class Weights(NamedTuple):
    """Weights to compute with.

    Attributes:
        number: Of the set of weights; a later one has a larger number.
        version: The policy version of their tokens.
        paths: Files that hold them, for `model_copy.load_weights`; in the engine's folder if they are no whole paths.
    """

    number: int
    version: int
    paths: tuple[str, ...]


class EngineOptions(NamedTuple):
    """What an engine opens with, as `rl.policy.registry.open_engine` takes it; `device` is that of its model."""

    name: str
    slots: int
    context: int | None
    devices: str
    dtype: str
    device: str


class Start(NamedTuple):
    """The first message: a model without weights (`model_copy.dump_structure`), its weights, and the engine's options.

    `beat_s` is the time between two signs of life of an engine that computes.
    """

    origin: Origin
    structure: bytes
    weights: Weights
    options: EngineOptions
    beat_s: float


class Load(NamedTuple):
    """Compute with these weights from the next token on; open requests continue behind the tokens that they have."""

    weights: Weights


class Relabel(NamedTuple):
    """Call the present weights by this policy version."""

    version: int


class Sample(NamedTuple):
    """Sample a reply, as `Policy.sample` says; the answer has the same number."""

    number: int
    prompt: tuple[int, ...]
    params: SamplingParams
    session: str
    resume_from: Completion | None
    images: Sequence[PlacedImage]


class Cancel(NamedTuple):
    """Nobody waits for the reply of this number any more."""

    number: int


class Release(NamedTuple):
    """Forget what is kept for a session."""

    session: str


class Dismissal(NamedTuple):
    """The run closes this process and goes on itself, or ends in order."""


class Ready(NamedTuple):
    """The engine has started, with the weights of this number; what it is, and its limits."""

    origin: Origin
    weights: int
    slots: int
    context: int
    description: str


class Loaded(NamedTuple):
    """The engine computes with the weights of this number."""

    origin: Origin
    weights: int


class Reply(NamedTuple):
    """The answer to a `Sample`."""

    origin: Origin
    number: int
    completion: Completion


class Refusal(NamedTuple):
    """The request of this number has failed, and the engine goes on; `is_invalid`: a `ValueError` about the request."""

    origin: Origin
    number: int
    text: str
    is_invalid: bool


class Broken(NamedTuple):
    """The engine cannot go on. `is_refused`: it never will with such a model or such options."""

    origin: Origin
    text: str
    is_refused: bool = False


class Beat(NamedTuple):
    """The engine has computed something since it last said so."""

    origin: Origin
