"""Toy models whose logits differ by more than rounding, and reference log-probabilities of whole sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

VOCAB = 40
SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,  # so that logits differ by more than rounding
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
PACKED_FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"tie_word_embeddings": True},
    "mistral": {"sliding_window": None},
}
OTHER_FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {"num_key_value_heads": 4},
    "gemma3_text": {"sliding_window": 64},
    "mixtral": {"num_local_experts": 2},
}


def model(kind: str = "llama", seed: int = 0, **changes: Any) -> Any:
    """Return a model of the family `kind`, initialised from `seed`; `changes` replace settings of its config."""
    config = AutoConfig.for_model(
        kind, **{**SHAPE, **PACKED_FAMILIES.get(kind, OTHER_FAMILIES.get(kind, {})), **changes}
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return AutoModelForCausalLM.from_config(config).eval()


def perturb_weights(net: Any, seed: int, size: float = 0.1) -> None:
    """Add noise of standard deviation `size` to every weight, in place."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in net.parameters():
            weight += size * torch.randn(weight.shape, generator=noise)


def next_logits(net: Any, ids: Sequence[int]) -> Tensor:
    """Return the logits (T, V) after each of `ids` (T,), by the model's own forward over the whole sequence."""
    with torch.no_grad():
        return net(input_ids=torch.tensor([list(ids)], device=net.device), use_cache=False).logits[0].float()


def teacher_forced_logprobs(
    net: Any, prompt: Sequence[int], reply: Sequence[int], temperature: float = 1.0
) -> list[float]:
    """Return the log-probability of each token of `reply` after `prompt`, by the model's own forward."""
    logits = next_logits(net, [*prompt, *reply]).float().cpu()[len(prompt) - 1 : -1] / temperature
    return logits.log_softmax(-1).gather(1, torch.tensor(list(reply))[:, None]).squeeze(1).tolist()
