"""Requests to an engine of vLLM and what it returns: plain types that all its processes share."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rl.records import SamplingParams

EXTRA_ARG = "turnwise"  # the entry of vLLM's `extra_args` that holds a request's key and sampling parameters


class UnsupportedAdapters(ValueError):
    """vLLM cannot serve the model's adapters beside its weights."""


class EngineRequest(Protocol):
    """What the engine reads of a request: the prompt, the parameters, and the tokens `ids` sampled after the prompt."""

    prompt: tuple[int, ...]
    params: SamplingParams
    ids: list[int]


class RequestSnapshot(NamedTuple):
    """An `EngineRequest` as it was when it was sent to another process."""

    prompt: tuple[int, ...]
    params: SamplingParams
    ids: list[int]


class SampledToken(NamedTuple):
    """A sampled token, with its log-probability under the sampled distribution and under the model at temperature 1."""

    token: int
    logprob: float
    model_logprob: float


class StepOutput(NamedTuple):
    """A request's new token after one step; `is_finished` if vLLM has removed the request."""

    key: int
    sample: SampledToken
    is_finished: bool
