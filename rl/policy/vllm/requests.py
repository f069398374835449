"""Requests to an engine of vLLM and what it returns: plain types that all its processes share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rl.records import SamplingParams

if TYPE_CHECKING:
    from rl.policy.images.inputs import ImageInputs

BACKEND = "turnwise-file"  # the name by which vLLM finds `rl.policy.vllm.worker.FileWeightTransfer`
WORKER_EXTENSION = "rl.policy.vllm.worker.WorkerExtension"
EXTRA_ARG = "turnwise"  # the entry of vLLM's `extra_args` that holds a request's key and sampling parameters


class UnsupportedAdapters(ValueError):
    """vLLM cannot serve the model's adapters beside its weights."""


class EngineRequest(Protocol):
    """What the engine reads of a request: the prompt, the parameters, and the tokens `ids` sampled after the prompt."""

    prompt: tuple[int, ...]
    params: SamplingParams
    ids: list[int]


@dataclass(slots=True)
class RequestSnapshot:
    """An `EngineRequest` as it was when it was sent to another process.

    With `images`, data URLs, `prompt` has one placeholder for each, which vLLM expands by `expansion` tokens in all.
    """

    prompt: tuple[int, ...]
    params: SamplingParams
    ids: list[int]
    images: tuple[str, ...] = ()
    expansion: int = 0


def as_snapshot(request: EngineRequest, images: ImageInputs | None = None) -> RequestSnapshot:
    """Return a request as it is now. `images` turn codes in its prompt (`rl.policy.images.inputs`) into images."""
    if isinstance(request, RequestSnapshot):
        return replace(request, ids=list(request.ids))
    prompt, pictures = (request.prompt, ()) if images is None else images.pictures(request.prompt)
    return RequestSnapshot(prompt, request.params, list(request.ids), pictures, len(request.prompt) - len(prompt))


class SampledToken(NamedTuple):
    """A sampled token, with its log-probability under the sampled distribution and under the model at temperature 1.

    `alternatives` are the likeliest tokens in its place, if the request asks for them.
    """

    token: int
    logprob: float
    model_logprob: float
    alternatives: tuple[tuple[int, float], ...] = ()


class StepOutput(NamedTuple):
    """A request's new token after one step; `is_finished` if vLLM has removed the request."""

    key: int
    sample: SampledToken
    is_finished: bool


Columns = tuple[tuple[Any, ...], ...]  # keys, the four fields of samples, whether the request is finished


def as_columns(outputs: Sequence[StepOutput]) -> Columns:
    """Return the outputs of a step field by field: pickling 256 of them so takes a twentieth of the time."""
    if not outputs:
        return ()
    keys, samples, ends = zip(*outputs, strict=True)
    return keys, *zip(*samples, strict=True), ends


def from_columns(columns: Columns) -> list[StepOutput]:
    """Return the outputs of which these are the columns. Raises `TypeError` for anything that is not of a step."""
    if not isinstance(columns, tuple):
        raise TypeError(f"the answer to a step is a {type(columns).__name__}")
    if not columns:
        return []
    keys, *fields, ends = columns
    samples = (SampledToken(*one) for one in zip(*fields, strict=True))
    return [StepOutput(*one) for one in zip(keys, samples, ends, strict=True)]
