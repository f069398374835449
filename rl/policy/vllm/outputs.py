"""The new tokens of a step as vLLM's core tells them, without an object of text for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class CoreOutput(NamedTuple):
    """What a step brought a request.

    `logprobs` are vLLM's `LogprobsLists`, one row for each of `token_ids`: the sampled token first, then the likeliest
    ones, best first. They are None if the request asked for none. `prompt_length` and `num_cached_tokens` are numbers
    of tokens, the latter those that the prefix cache had, at a request's first output, else 0.
    """

    key: int
    token_ids: Sequence[int]
    logprobs: Any
    is_finished: bool
    prompt_length: int
    num_cached_tokens: int


class _Processed(NamedTuple):
    """What `LLMEngine.step` reads of a processed step."""

    request_outputs: list[CoreOutput]
    reqs_to_abort: list[str]


class TokenOutputs:
    """Takes the place of the `OutputProcessor` in vLLM's `LLMEngine`, for prompts of token ids.

    That one makes text, and a dictionary of log-probabilities, for each token of each request: 2.8 of 17.5 ms for a
    step of 256 sequences, with a toy model on one core. Ids of requests are keys in decimal digits.
    """

    def __init__(self) -> None:
        """Begin without requests."""
        self._keys: dict[str, int] = {}  # by the id that the core uses, which differs from the given one
        self._ids: dict[int, str] = {}
        self._prompt_lengths: dict[int, int] = {}

    def add_request(self, request: Any, *_: Any, **__: Any) -> None:
        """Take note of vLLM's `EngineCoreRequest`."""
        key = int(request.external_req_id or request.request_id)
        self._keys[request.request_id], self._ids[key] = key, request.request_id
        self._prompt_lengths[key] = len(request.prompt_token_ids)

    def abort_requests(self, request_ids: Iterable[str], internal: bool = False) -> list[str]:
        """Forget requests by the ids that were given for them; return those by which the core knows them."""
        assert not internal  # LLMEngine has no reason to name them by the core's ids
        ids = [self._ids[key] for key in map(int, request_ids) if key in self._ids]
        for one in ids:
            self._forget(one)
        return ids

    def process_outputs(self, engine_core_outputs: Iterable[Any], *_: Any, **__: Any) -> _Processed:
        """Return what `EngineCoreOutput`s say. Those of requests that were aborted are left out.

        Raises `RuntimeError` if vLLM gives a request up.
        """
        results = []
        for output in engine_core_outputs:
            key = self._keys.get(output.request_id)
            if key is None:
                continue
            tokens, is_finished, prefill = output.new_token_ids, output.finish_reason is not None, output.prefill_stats
            if is_finished and not tokens:
                raise RuntimeError(f"vLLM gave a request up ({output.finish_reason}, {output.stop_reason})")
            num_cached = prefill.num_cached_tokens or 0 if prefill else 0
            length = self._prompt_lengths[key]
            results.append(CoreOutput(key, tokens, output.new_logprobs, is_finished, length, num_cached))
            if is_finished:
                self._forget(output.request_id)
        return _Processed(results, [])

    def update_scheduler_stats(self, *_: Any) -> None:
        """See vLLM's `OutputProcessor`. Nothing is recorded."""

    def has_unfinished_requests(self) -> bool:
        """Return whether there are requests."""
        return bool(self._keys)

    def get_num_unfinished_requests(self) -> int:
        """Return the number of requests."""
        return len(self._keys)

    def _forget(self, request_id: str) -> None:
        key = self._keys.pop(request_id)
        del self._ids[key], self._prompt_lengths[key]
