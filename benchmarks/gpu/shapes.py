"""Models and batches of the GPU benchmark, and the operations that an update of them takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.support.dialogues import Dialogue, Size, words
from envs.types import Stop
from rl.cli import UserError
from rl.learner.batch import trajectory_rows
from rl.methods.inputs import Row
from rl.policy import lora
from rl.records import Completion, Trajectory, Turn
from rl.seeds import generator

PEAK_TFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0, "L40S": 362.0, "RTX 4090": 165.0}  # dense bfloat16


@dataclass(frozen=True)
class Shape:
    """A Qwen2 of random weights: its config, whether it ties its matrices, and the rank of adapters if it has any."""

    config: dict[str, int]
    vocab: int = 151_936
    tied: bool = True
    rank: int = 0


def _shape(hidden: int, layers: int, heads: int, keys: int, inner: int, **more: Any) -> Shape:
    config = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    return Shape({**config, "num_key_value_heads": keys, "intermediate_size": inner}, **more)


SHAPES = {
    "0.5b": _shape(896, 24, 14, 2, 4864),
    "1.5b": _shape(1536, 28, 12, 2, 8960),
    "7b-lora": _shape(3584, 28, 28, 4, 18944, vocab=152_064, tied=False, rank=16),
    "toy": _shape(64, 2, 2, 2, 96, vocab=512),
    "toy-lora": _shape(64, 2, 2, 2, 96, vocab=512, tied=False, rank=2),
}
WHOLE = Size(prompts=32, group=8, prompt_tokens=256, reply_tokens=512, turns=1)
QUICK = Size(prompts=2, group=2, prompt_tokens=40, reply_tokens=8, turns=1)


def model(name: str, device: torch.device, dtype: torch.dtype) -> Any:
    """Return a model of this shape with random weights and, if the shape says so, adapters."""
    from transformers import AutoModelForCausalLM, Qwen2Config

    shape = SHAPES[name]
    config = Qwen2Config(**shape.config, vocab_size=shape.vocab, tie_word_embeddings=shape.tied)
    with torch.device(device):
        net = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    if shape.rank:
        lora.attach(net, shape.rank, alpha=2 * shape.rank)
        net.to(device)
    return net


def dialogues(size: Size) -> list[Dialogue]:
    """Return one reply of full length for each episode; neighbours share a prompt."""
    rng = generator(0, "gpu")
    prompts = [words(rng, size.prompt_tokens) for _ in range(size.prompts)]
    return [Dialogue(prompt, (size.reply_tokens,)) for prompt in prompts for _ in range(size.group)]


def rows(size: Size) -> list[Row]:
    """Return rows that might have been sampled, a group to every prompt."""
    rng, found = generator(0, "rows"), []
    for number, dialogue in enumerate(dialogues(size)):
        count = size.reply_tokens
        likely = (-1.0,) * count
        reply = Completion(words(rng, count), likely, likely, (0,) * count)
        trajectory = Trajectory([Turn(dialogue.prompt, reply)], Stop.TERMINATED)
        advantages = np.full(count, rng.normal())
        found += trajectory_rows(trajectory, advantages, number=number, group=number // size.group)
    return found


def flops(net: nn.Module, size: Size) -> float:
    """Count the operations of a forward and a backward pass over all rows, shared prompts counted once.

    Six for a trained weight and token, four for a frozen one, whose own gradient is not computed, and those of causal
    attention (PaLM, arXiv:2204.02311, appendix B). Blocks that are computed again are not counted.
    """
    config: Any = net.config
    tokens = size.prompts * size.prompt_tokens + size.episodes * size.reply_tokens
    alone, whole = size.prompt_tokens**2 / 2, (size.prompt_tokens + size.reply_tokens) ** 2 / 2
    pairs = size.prompts * alone + size.episodes * (whole - alone)
    attention = 12 * config.num_hidden_layers * config.hidden_size * pairs
    return tokens * sum(weight.numel() * (6 if weight.requires_grad else 4) for weight in net.parameters()) + attention


def peak_tflops(name: str) -> float:
    """Return the dense peak in bfloat16 of the GPU with this name. Raises `UserError` if it is not known here."""
    for device, tflops in PEAK_TFLOPS.items():
        if device in name:
            return tflops
    raise UserError(f"{name}: its peak is not known here; name it with --peak-tflops (dense, bfloat16)")
