"""Copying the trainer's weights to the engine, and checking that the engine computes with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rl.policy import lora
from rl.policy.gpu.float32 import is_tf32
from rl.policy.images.inputs import image_inputs
from rl.policy.images.trial import image_sequence, refusal
from rl.policy.model_config import text_config
from rl.policy.vllm.checkpoint_names import checkpoint_weights
from rl.policy.vllm.engine import VLLMEngine
from rl.policy.vllm.engine_client import VLLMEngineClient
from rl.policy.vllm.requests import as_snapshot
from rl.records import SamplingParams

PROBE_TOKENS = 8  # of each greedy reply
PROMPT_LENGTHS = (3, 33, 70)  # within one cache block, just beyond one, over several
# The largest difference of a log-probability, in nats, that rounding explains.
TOLERANCE = {torch.float32: 5e-4, torch.float16: 0.1, torch.bfloat16: 0.5}
TF32_TOLERANCE = TOLERANCE[torch.float16]  # a mantissa of 10 bits too


class StaleWeights(RuntimeError):
    """The engine's log-probabilities are not those of the trainer's model."""


@dataclass
class Probe:
    """A fixed prompt, with codes for images, and the greedy reply to it; an `EngineRequest`."""

    prompt: tuple[int, ...]
    params: SamplingParams = field(default_factory=lambda: SamplingParams(max_tokens=PROBE_TOKENS, temperature=0.0))
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)  # under the engine's model


def push_weights(engine: VLLMEngine | VLLMEngineClient, model: nn.Module) -> None:
    """Load the weights of `model` that the engine lacks: all, or only the adapters if it has their base weights.

    Raises `StaleWeights` if the engine serves fewer adapters than the model has, `ValueError` if vLLM does not know a
    weight's name.
    """
    if not engine.config.lora_rank:
        _load(engine, named_weights(model))
        return
    num_adapters = len(lora.adapter_layers(model))  # 0 in a cold start, which trains the base weights
    if not (num_adapters and engine.has_base_weights):
        engine.has_base_weights = False
        weights = lora.base_weights(model)
        _load(engine, checkpoint_weights(model, weights, weights.items()))
        engine.has_base_weights = num_adapters > 0
    if num_adapters and (num_loaded := engine.load_adapters(partial(lora.save, model, base=""))) != num_adapters:
        raise StaleWeights(f"vLLM serves {num_loaded} of {num_adapters} adapters: use --engine hf for this model")


def _load(engine: VLLMEngine | VLLMEngineClient, weights: Iterator[tuple[str, Tensor]]) -> None:
    """Load all weights. Shortens vLLM's error about an unknown name, which lists all that it knows."""
    try:
        engine.load_weights(weights)
    except ValueError as error:
        fact, listing, _ = str(error).partition(". The available parameters")
        if not listing:
            raise
        raise ValueError(f"{fact} of vLLM, where this family's weights have other names: use --engine hf") from error


def named_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield every weight by its name in a checkpoint, with adapters merged, and a tied output matrix under both names.

    vLLM keeps a packed copy of that matrix on a CPU: left out, as parameters and checkpoints leave it out, the copy
    would become stale. The model's own weights are not changed.
    """
    return checkpoint_weights(model, lora.base_weights(model), lora.merged_weights(model))


def check_weights(engine: VLLMEngine | VLLMEngineClient, model: nn.Module, dtype: torch.dtype) -> float:
    """Return the largest difference, in nats, between the log-probabilities of the engine and of the model's forward.

    Samples greedy replies to fixed prompts, one of them with images if the model reads these; the engine must have no
    other requests. `dtype` is the engine's precision.

    Raises `StaleWeights` if the difference is beyond rounding, or a token is not among the model's likeliest.
    """
    probes = make_probes(model, engine.context)
    _sample_replies(engine, model, probes)
    gap = max(_logprob_gap(model, probe) for probe in probes)
    tolerance = tolerance_of(model, dtype)
    if not gap <= tolerance:
        raise StaleWeights(
            f"after the weights were handed over, vLLM and the trainer disagree by {gap:.2g} nats on fixed prompts; "
            f"rounding explains {tolerance:g}: use --engine hf for this model"
        )
    return gap


def make_probes(model: nn.Module, context: int) -> list[Probe]:
    """Return the fixed prompts for a model of sequences of at most `context` tokens, without replies.

    The last one has images, if the model reads these and the context has room for them.
    """
    size = int(text_config(model).vocab_size)
    lengths = [length for length in PROMPT_LENGTHS if length + PROBE_TOKENS <= context] or [1]
    prompts = [tuple((7 * i + 3 * length) % size for i in range(length)) for length in lengths]
    if (images := image_inputs(model)) and not refusal(images):
        codes, _ = image_sequence(images, size)
        prompts += [tuple(codes.tolist())] if len(codes) + PROBE_TOKENS <= context else []
    return [Probe(prompt) for prompt in prompts]


def tolerance_of(model: nn.Module, dtype: torch.dtype) -> float:
    """Return the difference that rounding explains, in nats, between a model and an engine of precision `dtype`."""
    weight = next(model.parameters())
    return max(TOLERANCE[dtype], TOLERANCE[weight.dtype], TF32_TOLERANCE * (weight.is_cuda and is_tf32()))


def _sample_replies(engine: VLLMEngine | VLLMEngineClient, model: nn.Module, probes: Sequence[Probe]) -> None:
    images = image_inputs(model)
    by_key = {engine.add_request(as_snapshot(probe, images)): probe for probe in probes}
    open_keys = set(by_key)
    while open_keys:
        for key, sample, is_finished in engine.step():
            by_key[key].ids.append(sample.token)
            by_key[key].logprobs.append(sample.model_logprob)
            if is_finished:
                open_keys.discard(key)


def _logprob_gap(model: Any, probe: Probe) -> float:
    """The largest difference to the model's log-probabilities, or half the margin of a token that it prefers."""
    ids = torch.tensor([[*probe.prompt, *probe.ids]], device=next(model.parameters()).device)
    inputs = {"input_ids": ids}
    if images := image_inputs(model):
        plain_ids, more = images.resolve(ids)
        inputs = {"input_ids": plain_ids, "attention_mask": torch.ones_like(plain_ids), **more}
    with torch.no_grad():
        logits = model(**inputs, use_cache=False).logits[0, len(probe.prompt) - 1 : -1]
    logprobs = logits.float().log_softmax(-1)
    model_logprobs = logprobs.gather(1, ids[0, len(probe.prompt) :, None]).squeeze(1)
    engine_logprobs = torch.tensor(probe.logprobs, device=model_logprobs.device)
    difference = float((model_logprobs - engine_logprobs).abs().max())
    return max(difference, float((logprobs.max(-1).values - model_logprobs).max()) / 2)
