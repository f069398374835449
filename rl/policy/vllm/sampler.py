"""Our own draws inside vLLM: the same keyed draw as every other engine's, in place of vLLM's sampler.

vLLM's seeded sampler counts draws, so that a reply which was interrupted goes on differently. Here a processor of
logits draws each token by `rl.policy.draws` and leaves vLLM one finite logit to take. What it drew, with both
log-probabilities, it keeps until the engine asks for it, after the step. It needs to be told nothing but what vLLM
tells every worker of a request, so that it works in another process, and in several at once.

Importing this imports vLLM, which `rl.policy.vllm.engine` prepares the process for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from rl.policy.draws import draw_each
from rl.policy.vllm.requests import KEY, Entry
from rl.records import SamplingParams


class Row(NamedTuple):
    """A request of the batch; `output` is vLLM's own list, which grows."""

    key: int
    params: SamplingParams
    prompt: int
    output: list[int]


class Drawing(LogitsProcessor):
    """Draws for all rows of a batch; `drawn` since it was last taken, by key."""

    def __init__(self, config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self.rows: dict[int, Row] = {}
        self.drawn: dict[int, Entry] = {}

    def is_argmax_invariant(self) -> bool:
        """See `LogitsProcessor`: what is drawn is rarely the largest."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Follow the requests through the rows of the batch."""
        process_dict_updates(self.rows, batch_update, _row)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Draw a token per row (N, V), and leave it alone in its row."""
        rows = [self.rows[number] for number in range(len(logits))]
        positions = np.array([row.prompt + len(row.output) for row in rows])
        drawn = draw_each(logits, [row.params for row in rows], positions)
        self.drawn.update(zip((row.key for row in rows), map(Entry, *drawn), strict=True))
        tokens = torch.as_tensor(drawn[0], device=logits.device)[:, None]
        return logits.fill_(-torch.inf).scatter_(1, tokens, 0.0)


def _row(params: Any, prompt: list[int] | None, output: list[int]) -> Row:
    key, how = params.extra_args[KEY]
    return Row(key, how, len(prompt or ()), output)
