"""Which beginning of a draft is kept, and the token behind it; the rules are those of `rl.records.Draft`.

Legend: T tokens of the draft, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl.policy.sampling import Alternatives, keyed_uniforms, likeliest_rows, sample_rows
from rl.records import Draft, SamplingParams
from rl.seeds import derive

_UINT64 = 2**64 - 1


class Verdict(NamedTuple):
    """The first `num_kept` tokens of a draft and one more, with what is recorded of each sampled token."""

    num_kept: int
    tokens: list[int]
    logprobs: list[float]
    model_logprobs: list[float]
    alternatives: list[Alternatives]


def verify(draft: Draft, ids: tuple[int, ...], logits: Tensor, params: SamplingParams, position: int) -> Verdict:
    """Return what the policy keeps of a draft, and the token that it says next.

    Args:
        draft: The rule and what it needs of each token.
        ids: (T,) the first tokens of the draft, as many as the reply has room for.
        logits: (T + 1, V) of the model before each of these tokens, and behind the last.
        params: Of the reply. The token behind what is kept depends on `params.seed`, unless it takes the place of one
            of a keyed draft.
        position: Of the draft's first token in its sequence.

    Raises `FloatingPointError` if a log-probability is not finite.
    """
    if draft.rule == "keyed":
        row_params = [*(replace(params, seed=seed) for seed in draft.seeds[: len(ids)]), params]
    else:
        row_params = [params] * (len(ids) + 1)
    positions = position + np.arange(len(ids) + 1)
    tokens, logprobs, model_logprobs = sample_rows(logits, row_params, positions)
    if draft.rule == "keyed":
        kept = next((t for t, token in enumerate(ids) if tokens[t] != token), len(ids))
    else:
        policy = (logits.float() / params.temperature).log_softmax(-1)
        kept = _num_kept(draft, ids, policy, params, position)
        column = torch.as_tensor(ids, device=logits.device)[:kept, None]
        logprobs[:kept] = policy[:kept].gather(1, column).squeeze(1).tolist()
        model_logprobs[:kept] = logits[:kept].float().log_softmax(-1).gather(1, column).squeeze(1).tolist()
        if draft.rule == "residual" and kept < len(ids):
            uniform = float(keyed_uniforms(np.array([params.seed & _UINT64], np.uint64), positions[kept : kept + 1])[0])
            token = residual_token(policy[kept], draft.alternatives[kept], uniform)
            tokens[kept], logprobs[kept] = token, float(policy[kept, token])
            model_logprobs[kept] = float(logits[kept].float().log_softmax(-1)[token])
    num = kept + 1
    return Verdict(
        num_kept=kept,
        tokens=[*ids[:kept], tokens[kept]],
        logprobs=logprobs[:num],
        model_logprobs=model_logprobs[:num],
        alternatives=likeliest_rows(logits[:num], [params] * num),
    )


def keep_probability(draft: Draft, t: int, logprob: float) -> float:
    """The probability with which token `t` of a draft is kept that has `logprob` under the policy; not for "keyed"."""
    if draft.rule == "residual" and draft.ids[t] not in dict(draft.alternatives[t]):
        return 0.0
    lenience = draft.lenience if draft.rule == "lenient" else 1.0
    return min(1.0, lenience * math.exp(min(logprob - draft.logprobs[t], 50.0)))


def _num_kept(draft: Draft, ids: tuple[int, ...], policy: Tensor, params: SamplingParams, position: int) -> int:
    """How many tokens of `ids` are kept before the first that is not; `policy` (T + 1, V) are log-probabilities."""
    seeds = np.full(len(ids), derive(params.seed, "keep") & _UINT64, np.uint64)
    draws = keyed_uniforms(seeds, position + np.arange(len(ids)))
    logprobs = policy[: len(ids)].gather(1, torch.as_tensor(ids, device=policy.device)[:, None]).squeeze(1).tolist()
    return next((t for t, one in enumerate(logprobs) if draws[t] >= keep_probability(draft, t, one)), len(ids))


def residual_token(policy: Tensor, alternatives: Alternatives, uniform: float) -> int:
    """Draw from what remains of the policy where a token that was sampled otherwise is not kept.

    `policy` (V,) are the policy's log-probabilities and `alternatives` the recorded tokens, which are kept with
    probability `min(1, p / q)`, while all others never are. So `max(p - q, 0)` remains of the former and all of `p` of
    the latter: whichever tokens are recorded, kept and drawn ones together have the policy's distribution.
    """
    rest = policy.double().exp()
    if alternatives:
        known_ids = torch.tensor([token for token, _ in alternatives], device=policy.device)
        old = torch.tensor([logprob for _, logprob in alternatives], device=policy.device, dtype=torch.float64).exp()
        rest[known_ids] = (rest[known_ids] - old).clamp_(min=0.0)
    if not float(rest.sum()) > 0:  # both distributions are equal to rounding
        rest = policy.double().exp()
    cumulative = rest.cumsum(-1)
    above = cumulative > uniform * cumulative[-1]
    return int(above.int().argmax()) if bool(above.any()) else int(rest.argmax())
