"""The keyed sampling of `rl.policy.sampling` inside vLLM, in place of vLLM's own sampler.

vLLM's seeded sampler counts draws, so an interrupted reply would continue differently. Here a logits processor samples
each token and leaves vLLM one finite logit to choose. It keeps the token and its log-probabilities until the engine
takes them after the step. It needs only what vLLM tells every worker about a request, so it works in another process,
and in several at once.

Importing this module imports vLLM, which `rl.policy.vllm.launch` prepares the process for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from rl.policy.sampling import likeliest_rows, sample_rows
from rl.policy.vllm.requests import EXTRA_ARG, SampledToken
from rl.records import SamplingParams


class BatchRow(NamedTuple):
    """A request in vLLM's batch; `output` is vLLM's own list of its sampled tokens, which grows."""

    key: int
    params: SamplingParams
    prompt_length: int
    output: list[int]


class KeyedSampler(LogitsProcessor):
    """Samples for all rows of a batch; `samples` are those since the engine last took them, by request key."""

    def __init__(self, config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self.rows: dict[int, BatchRow] = {}
        self.samples: dict[int, SampledToken] = {}

    def is_argmax_invariant(self) -> bool:
        """Tell vLLM that the likeliest token may change: a sampled token is rarely the most likely one."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Take over from vLLM which requests join the batch, leave it or change their row."""
        process_dict_updates(self.rows, batch_update, _make_row)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Sample a token per row of logits (N, V); return logits that are finite for this token alone."""
        rows = [self.rows[number] for number in range(len(logits))]
        positions = np.array([row.prompt_length + len(row.output) for row in rows])
        params = [row.params for row in rows]
        samples = sample_rows(logits, params, positions)
        tokens_of_rows = map(SampledToken, *samples, likeliest_rows(logits, params))
        self.samples.update(zip((row.key for row in rows), tokens_of_rows, strict=True))
        tokens = torch.as_tensor(samples[0], device=logits.device)[:, None]
        return logits.fill_(-torch.inf).scatter_(1, tokens, 0.0)


def _make_row(params: Any, prompt: list[int] | None, output: list[int]) -> BatchRow:
    key, sampling_params = params.extra_args[EXTRA_ARG]
    return BatchRow(key, sampling_params, len(prompt or ()), output)
