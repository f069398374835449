"""Rivals made of what Hugging Face offers: `generate` once per turn, and training on whole rows without sharing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import GenerationConfig, LlamaForCausalLM

from benchmarks.support.floors import Llama, Optimizer
from rl.methods.inputs import Row
from rl.records import History


@torch.inference_mode()
def generate(
    model: LlamaForCausalLM, prompts: Sequence[Sequence[int]], lengths: Sequence[int]
) -> list[tuple[list[int], list[float]]]:
    """Replies of `lengths` tokens and their log-probabilities, by one left-padded `model.generate`.

    It runs until the longest is done, as it would if replies ended by themselves; the rest is cut off.
    """
    wide, device = max(map(len, prompts)), model.device
    ids, attention = np.zeros((len(prompts), wide), np.int64), np.zeros((len(prompts), wide), np.int64)
    for i, prompt in enumerate(prompts):
        ids[i, wide - len(prompt) :], attention[i, wide - len(prompt) :] = prompt, 1
    config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=max(lengths),
        pad_token_id=0,
        eos_token_id=model.config.vocab_size,  # never drawn: None would mean the model's own
        return_dict_in_generate=True,
        output_logits=True,
    )
    caller: Any = model
    ids_on, attention_on = torch.as_tensor(ids, device=device), torch.as_tensor(attention, device=device)
    found = caller.generate(ids_on, attention_mask=attention_on, generation_config=config)
    replies = found.sequences[:, wide:]
    logp = torch.stack(found.logits, 1).log_softmax(-1).gather(-1, replies[..., None]).squeeze(-1)
    rows = zip(replies.tolist(), logp.tolist(), lengths, strict=True)
    return [(reply[:length], logps[:length]) for reply, logps, length in rows]


def converse(model: LlamaForCausalLM, dialogues: Sequence[Any]) -> list[History]:
    """Play ragged dialogues turn by turn: all that are still running are one batch of `generate`."""
    histories = [History([], [], [], [], []) for _ in dialogues]
    for turn in range(max(len(dialogue.replies) for dialogue in dialogues)):
        live = [(d, h) for d, h in zip(dialogues, histories, strict=True) if turn < len(d.replies)]
        for dialogue, history in live:
            told = dialogue.observations[turn - 1] if turn else dialogue.prompt
            _extend(history, told, [0.0] * len(told), -1)
        lengths = [dialogue.replies[turn] for dialogue, _ in live]
        replies = generate(model, [history.ids for _, history in live], lengths)
        for (_, history), (ids, logprobs) in zip(live, replies, strict=True):
            _extend(history, ids, logprobs, turn)
    return histories


def _extend(history: History, ids: Sequence[int], logprobs: Sequence[float], turn: int) -> None:
    history.ids.extend(ids)
    history.sampled.extend([turn >= 0] * len(ids))
    history.logprobs.extend(logprobs)
    history.turn.extend([turn] * len(ids))


class RowTrainer:
    """GRPO's loss on whole rows: right-padded through the model's own forward, or packed through a hand-written one."""

    def __init__(self, model: LlamaForCausalLM, lr: float, *, packed: bool) -> None:
        self.model: Any = model
        self.model.model.embed_tokens.padding_idx = None  # it would drop the gradient of a pad token that was sampled
        self.device = model.device
        self.llama, self.optimizer = Llama(model), Optimizer(model, lr)
        self.logits = self._packed if packed else self._padded

    def step(self, rows: Sequence[Row]) -> float:
        """One optimiser step; every trajectory weighs the same. Returns the loss."""

        def column(parts: list[np.ndarray], dtype: Any = np.float32) -> Tensor:
            return torch.as_tensor(np.concatenate(parts).astype(dtype, copy=False), device=self.device)

        full = [np.concatenate([np.asarray(row.prefix, np.int64), row.ids]) for row in rows]
        before = [len(row.prefix) - 1 + np.nonzero(row.mask)[0] for row in rows]  # positions that predict
        target = column([row.ids[row.mask] for row in rows], np.int64)
        old, adv = column([row.old[row.mask] for row in rows]), column([row.adv[row.mask] for row in rows])
        share = column([np.full(n, 1 / (n * len(rows))) for n in (int(row.mask.sum()) for row in rows)])
        logp = self.logits(full, before).log_softmax(-1).gather(1, target[:, None]).squeeze(1)
        ratio = (logp - old).exp()
        loss = (torch.maximum(-ratio * adv, -ratio.clamp(0.8, 1.2) * adv) * share).sum()
        self.optimizer.step(loss)
        return float(loss.detach())

    def _padded(self, full: list[np.ndarray], before: list[np.ndarray]) -> Tensor:
        """Logits (M, V) at the positions `before` sampled tokens."""
        ids = np.zeros((len(full), max(map(len, full))), np.int64)
        attention = np.zeros_like(ids)
        for i, tokens in enumerate(full):
            ids[i, : len(tokens)], attention[i, : len(tokens)] = tokens, 1
        row = np.repeat(np.arange(len(full)), [len(at) for at in before])
        ids_on, attention_on, row_on, at_on = (
            torch.as_tensor(array, device=self.device) for array in (ids, attention, row, np.concatenate(before))
        )
        hidden = self.model.model(input_ids=ids_on, attention_mask=attention_on, use_cache=False).last_hidden_state
        return self.model.lm_head(hidden[row_on, at_on])

    def _packed(self, full: list[np.ndarray], before: list[np.ndarray]) -> Tensor:
        """The same without padding, but for the attention itself."""
        llama, size = self.llama, np.array([len(tokens) for tokens in full])
        start, column = np.cumsum(size) - size, np.arange(size.max())
        inside = column < size[:, None]
        pad = torch.as_tensor(np.where(inside, start[:, None] + column, start[:, None]).ravel(), device=self.device)
        unpad = torch.as_tensor(np.nonzero(inside.ravel())[0], device=self.device)
        position = torch.as_tensor(np.nonzero(inside)[1], device=self.device)
        x = llama.embed(torch.as_tensor(np.concatenate(full), device=self.device))
        cos, sin = (table.index_select(0, position)[:, None] for table in (llama.cos, llama.sin))
        even = bool(inside.all())
        for layer in llama.layers():
            parts = llama.qkv(x, layer, cos, sin)
            blocks = (z if even else z.index_select(0, pad) for z in parts)
            q, k, v = (z.view(*inside.shape, llama.heads, -1).transpose(1, 2) for z in blocks)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2).flatten(0, 1)
            x = llama.rest(x, y if even else y.index_select(0, unpad), layer)
        at = np.concatenate([first + positions for first, positions in zip(start, before, strict=True)])
        return llama.logits(x.index_select(0, torch.as_tensor(at, device=self.device)))
