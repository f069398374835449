"""From the trainer's weights to the engine's, and the proof that they arrived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rl.policy import lora
from rl.policy.forward import text_config
from rl.policy.vllm.engine import Engine
from rl.policy.vllm.engine_client import RemoteEngine
from rl.records import SamplingParams

TOKENS = 8  # of each greedy reply
LENGTHS = (3, 33, 70)  # of the prompts: within one cache block, just beyond one, over several
# The largest difference of a log-probability, in nats, that rounding explains.
TOLERANCE = {torch.float32: 5e-4, torch.float16: 0.1, torch.bfloat16: 0.5}


class StaleWeights(RuntimeError):
    """The engine does not compute what the trainer does."""


@dataclass
class Probe:
    """A greedy reply to a fixed prompt."""

    prompt: tuple[int, ...]
    params: SamplingParams = field(default_factory=lambda: SamplingParams(max_tokens=TOKENS, temperature=0.0))
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


def give(engine: Engine | RemoteEngine, model: nn.Module) -> None:
    """Hand over what the engine has not: every weight, or adapters alone where it serves these beside frozen ones.

    Raises `StaleWeights` if it leaves adapters out.
    """
    if not engine.plan.rank:
        engine.load(weights(model))
        return
    wanted = len(lora.layers(model))  # none in a cold start, which trains the weights below
    if not (wanted and engine.based):
        engine.based = False
        engine.load(lora.plain(model).items())
        engine.based = wanted > 0
    if wanted and (served := engine.adapt(partial(lora.save, model, base=""))) != wanted:
        raise StaleWeights(f"vLLM serves {served} of {wanted} adapters: use --engine hf for this model")


def weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every weight by its name in a checkpoint, an output matrix that is tied to the embedding included.

    vLLM keeps a packed copy of that matrix on a CPU: left out, as parameters and checkpoints leave it out, it would
    stay as it was. What adapters add to a weight is in it; the trainer's own stays without.
    """
    return lora.merged(model)


def check(engine: Engine | RemoteEngine, model: nn.Module, dtype: torch.dtype) -> float:
    """The largest difference between the engine's log-probabilities and those of the model's own forward.

    Asks for greedy replies to fixed prompts; nothing else may be in the engine. Raises `StaleWeights` where a token
    differs or the difference is beyond rounding.
    """
    size = int(text_config(model).vocab_size)
    lengths = [length for length in LENGTHS if length + TOKENS <= engine.context] or [1]
    probes = [Probe(tuple((7 * i + 3 * length) % size for i in range(length))) for length in lengths]
    _reply(engine, probes)
    gap = max(_gap(model, probe) for probe in probes)
    allowed = max(TOLERANCE[dtype], TOLERANCE[next(model.parameters()).dtype])
    if not gap <= allowed:
        raise StaleWeights(
            f"after the weights were handed over, vLLM and the trainer disagree by {gap:.2g} nats on fixed prompts; "
            f"rounding explains {allowed:g}: use --engine hf for this model"
        )
    return gap


def _reply(engine: Engine | RemoteEngine, probes: Sequence[Probe]) -> None:
    by_key = {engine.add(probe): probe for probe in probes}
    left = set(by_key)
    while left:
        for key, drawn, ended in engine.step():
            by_key[key].ids.append(drawn.token)
            by_key[key].logprobs.append(drawn.model)
            if ended:
                left.discard(key)


def _gap(model: Any, probe: Probe) -> float:
    """How far the probe is from the model's own log-probabilities, and its tokens from the model's likeliest."""
    ids = torch.tensor([[*probe.prompt, *probe.ids]], device=next(model.parameters()).device)
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits[0, len(probe.prompt) - 1 : -1]
    logprobs = logits.float().log_softmax(-1)
    own = logprobs.gather(1, ids[0, len(probe.prompt) :, None]).squeeze(1)
    said = torch.tensor(probe.logprobs, device=own.device)
    return max(float((own - said).abs().max()), float((logprobs.max(-1).values - own).max()) / 2)
