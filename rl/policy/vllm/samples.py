"""What a request asks of vLLM's sampler and how its tokens are read, for each of the two ways of drawing them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from rl.policy.engine import LOGITS_NOT_FINITE
from rl.policy.vllm.outputs import CoreOutput
from rl.policy.vllm.requests import EXTRA_ARG, EngineRequest, SampledToken
from rl.records import SamplingParams
from rl.seeds import derive

_INT63 = 2**63 - 1  # the largest seed of vLLM


class Samples(Protocol):
    """Options of requests, and the tokens of a step."""

    def params(self, request: EngineRequest, key: int) -> dict[str, Any]:
        """Return the options of vLLM's `SamplingParams` that decide how a token is drawn."""

    def samples(self, outputs: Sequence[CoreOutput], requests: Mapping[int, EngineRequest]) -> list[list[SampledToken]]:
        """Return the new tokens of each of the `outputs` of a step."""


def limits(request: EngineRequest, context: int) -> dict[str, Any]:
    """Return the options of vLLM's `SamplingParams` that end a reply, in sequences of at most `context` tokens."""
    room = context - len(request.prompt) - len(request.ids)
    return {
        "max_tokens": min(request.params.max_tokens - len(request.ids), room),
        "stop_token_ids": list(request.params.stop),
        "ignore_eos": True,
        "detokenize": False,
    }


def native_options(request: EngineRequest, *, draws_by_position: bool = False) -> dict[str, Any]:
    """Return the options of vLLM's `SamplingParams` with which it draws by itself, as `NativeSamples` says."""
    how = request.params
    options = {"temperature": max(how.temperature, 0.0), "logprobs": how.alternatives}
    if how.temperature <= 0:
        return options
    is_continued = bool(request.ids) and not draws_by_position
    seed = derive(how.seed, "continued", len(request.ids)) if is_continued else how.seed
    return {**options, "seed": seed & _INT63, "top_p": how.top_p, "top_k": max(how.top_k, 0)}


class KeyedSamples:
    """Tokens that `rl.policy.vllm.sampler.KeyedSampler` draws: those of the hf engine, whoever else is in the batch."""

    def __init__(self, engine: Any) -> None:
        """Read the samples of this `LLMEngine`."""
        self._engine = engine

    def params(self, request: EngineRequest, key: int) -> dict[str, Any]:
        """See `Samples`."""
        # `KeyedSampler` leaves one token to choose
        return {"temperature": 0.0, "extra_args": {EXTRA_ARG: (key, request.params)}}

    def samples(self, outputs: Sequence[CoreOutput], requests: Mapping[int, EngineRequest]) -> list[list[SampledToken]]:
        """See `Samples`. Each of vLLM's workers must have drawn the same; else their caches would differ."""
        by_key, *others = self._engine.model_executor.collective_rpc("turnwise_take_samples")
        tokens = [sample.token for sample in by_key.values()]
        if any([sample.token for sample in other.values()] != tokens for other in others):
            raise RuntimeError("vLLM's workers sampled different tokens from the same logits")
        results = []
        for output in outputs:
            sample, tokens = by_key.get(output.key), list(output.token_ids)
            if sample is None or tokens != [sample.token]:
                raise RuntimeError(f"vLLM returned the tokens {tokens}, but {sample and sample.token} was sampled")
            results.append([sample])
        return results


class NativeSamples:
    """Tokens that vLLM draws by itself, with a seed for each reply.

    The same seed gives the same reply, up to rounding, as long as nothing interrupts it. A reply that goes on after an
    interruption gets another seed, because the first model runner counts draws from there: the same numbers again
    would make its tokens depend on each other. The second one draws by seed and position, so the seed can stay.
    """

    def __init__(self, engine: Any) -> None:
        """Read the samples of this `LLMEngine`."""
        self._draws_by_position = bool(getattr(engine.vllm_config, "use_v2_model_runner", False))

    def params(self, request: EngineRequest, key: int) -> dict[str, Any]:
        """See `Samples`."""
        return native_options(request, draws_by_position=self._draws_by_position)

    def samples(self, outputs: Sequence[CoreOutput], requests: Mapping[int, EngineRequest]) -> list[list[SampledToken]]:
        """See `Samples`. Raises `FloatingPointError` if a log-probability is not finite."""
        results = []
        for output in outputs:
            how = requests[output.key].params
            ids, rows = output.logprobs.logprob_token_ids, output.logprobs.logprobs
            one = []
            for place, token in enumerate(output.token_ids):
                if ids.item(place, 0) != token:
                    raise RuntimeError(f"vLLM returned the token {token} with the log-probability of another")
                likeliest = (
                    zip(ids[place, 1:].tolist(), rows[place, 1:].tolist(), strict=True) if how.alternatives else ()
                )
                one.append(sampled_token(token, rows.item(place, 0), likeliest, how))
            results.append(one)
        return results


def sampled_token(
    token: int, logprob: float, likeliest: Iterable[tuple[int, float]], how: SamplingParams
) -> SampledToken:
    """Return a token with vLLM's `logprob`, under the sampled distribution (for greedy, at temperature 1).

    That under the model is the same number at temperature 1 without cuts. vLLM tells one of both: elsewhere it is NaN.
    `likeliest` are tokens with their log-probabilities, among them the `how.alternatives` likeliest ones. Raises
    `FloatingPointError` if `logprob` is not finite.
    """
    if not math.isfinite(logprob):
        raise FloatingPointError(LOGITS_NOT_FINITE)
    alternatives = _best(likeliest, how.alternatives) if how.alternatives else ()
    if how.temperature <= 0:
        return SampledToken(token, 0.0, logprob, alternatives)
    is_whole = how.temperature == 1 and how.top_p >= 1 and how.top_k <= 0
    return SampledToken(token, logprob, logprob if is_whole else math.nan, alternatives)


def _best(pairs: Iterable[tuple[int, float]], count: int) -> tuple[tuple[int, float], ...]:
    """Return the `count` likeliest tokens, best first, of equal ones the lower."""
    best = sorted((-logprob, token) for token, logprob in dict(pairs).items())[:count]
    return tuple((token, -logprob) for logprob, token in best)
