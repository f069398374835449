"""Our own draws inside vLLM: the same keyed draw as every other engine's, in place of vLLM's sampler.

vLLM's seeded sampler counts draws, so that a reply which was interrupted goes on differently. Here a processor of
logits draws each token by `rl.policy.draws` and leaves vLLM one finite logit to take. What it drew, with both
log-probabilities, it puts down in a ledger that the engine reads after the step.

Importing this imports vLLM, which `rl.policy.vllm.engine` prepares the process for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from rl.policy.draws import draw_each
from rl.policy.vllm.ledger import KEY, Entry, Ledger


def drawing(ledger: Ledger) -> type[LogitsProcessor]:
    """A class for vLLM to make its processor from, which shares `ledger` with the engine."""

    class Drawing(LogitsProcessor):
        """Draws for all rows of a batch."""

        def __init__(self, config: Any, device: torch.device, is_pin_memory: bool) -> None:
            self.keys: dict[int, int] = {}  # by row

        def is_argmax_invariant(self) -> bool:
            """See `LogitsProcessor`: what is drawn is rarely the largest."""
            return False

        def update_state(self, batch_update: Any) -> None:
            """Follow the requests through the rows of the batch."""
            process_dict_updates(self.keys, batch_update, lambda params, *_: params.extra_args[KEY])

        def apply(self, logits: torch.Tensor) -> torch.Tensor:
            """Draw a token per row (N, V), and leave it alone in its row."""
            keys = [self.keys[row] for row in range(len(logits))]
            asked = [ledger.asked[key] for key in keys]
            positions = np.array([len(one.prompt) + len(one.ids) for one in asked])
            drawn = draw_each(logits, [one.params for one in asked], positions)
            ledger.drawn.update(zip(keys, map(Entry, *drawn), strict=True))
            tokens = torch.as_tensor(drawn[0], device=logits.device)[:, None]
            return logits.fill_(-torch.inf).scatter_(1, tokens, 0.0)

    return Drawing
