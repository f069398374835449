"""Hand-written floors: what a careful engineer would write for one fixed shape of work, with nothing general in it.

They read the weights of a model shaped like the bundled one and assume what the engine must not: that prompts, replies
and observations are equally long, that a whole batch starts and ends together, and that nobody else wants to sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

Layer = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]  # norm, qkv, out, norm, gate and up, down


class Play(NamedTuple):
    """B sampled episodes of N tokens after the prompt, observations included."""

    ids: Tensor  # (B, N)
    sampled: Tensor  # (N,) bool, alike for all episodes
    logp: Tensor  # (B, N), 0 where not sampled


class Llama:
    """A forward of packed tokens in which every block is written out; attention is left to the floor that calls it."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        """Compute the rotary tables for the model's whole context."""
        config: Any = model.config
        self.model: Any = model
        self.heads, self.dim, self.eps = config.num_attention_heads, config.head_dim, config.rms_norm_eps
        self.device = next(model.parameters()).device
        half, length = self.dim // 2, config.max_position_embeddings
        with torch.no_grad():
            at = torch.arange(length, device=self.device)[None]
            cos, sin = (table[0] for table in self.model.model.rotary_emb(torch.zeros(1, device=self.device), at))
        self.cos, self.sin = cos, torch.cat([-sin[:, :half], sin[:, half:]], -1)

    def layers(self) -> list[Layer]:
        """The present weights with projections of the same input fused; differentiable."""
        return [
            (
                b.input_layernorm.weight,
                torch.cat([b.self_attn.q_proj.weight, b.self_attn.k_proj.weight, b.self_attn.v_proj.weight]),
                b.self_attn.o_proj.weight,
                b.post_attention_layernorm.weight,
                torch.cat([b.mlp.gate_proj.weight, b.mlp.up_proj.weight]),
                b.mlp.down_proj.weight,
            )
            for b in self.model.model.layers
        ]

    def embed(self, ids: Tensor) -> Tensor:
        """(N, E) of ids of any shape."""
        return F.embedding(ids.flatten(), self.model.model.embed_tokens.weight)

    def qkv(self, x: Tensor, layer: Layer, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, and values, (N, H, D) each, of hidden states (N, E)."""
        qkv = F.linear(F.rms_norm(x, x.shape[-1:], layer[0], self.eps), layer[1]).view(len(x), -1, self.dim)
        qk, v = qkv[:, : 2 * self.heads], qkv[:, 2 * self.heads :]
        qk = qk * cos + qk.roll(self.dim // 2, -1) * sin
        return qk[:, : self.heads], qk[:, self.heads :], v

    def rest(self, x: Tensor, y: Tensor, layer: Layer) -> Tensor:
        """The block after attention, whose result is `y` (N, E)."""
        x = x + F.linear(y, layer[2])
        gate, up = F.linear(F.rms_norm(x, x.shape[-1:], layer[3], self.eps), layer[4]).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, layer[5])

    def logits(self, x: Tensor) -> Tensor:
        """Of hidden states after the last block."""
        return F.linear(F.rms_norm(x, x.shape[-1:], self.model.model.norm.weight, self.eps), self.model.lm_head.weight)


class StaticSampler:
    """A preallocated key-value cache; each prompt runs once and is expanded to its group."""

    def __init__(self, model: LlamaForCausalLM, *, prompts: int, group: int, length: int) -> None:
        """Allocate for `prompts` x `group` episodes of `length` tokens, prompt included."""
        self.llama, self.group = Llama(model), group
        shape = (model.config.num_hidden_layers, 2, prompts * group, self.llama.heads, length, self.llama.dim)
        self.kv = torch.zeros(shape, device=self.llama.device)
        self.reload()

    def reload(self) -> None:
        """Take over changed weights."""
        with torch.no_grad():
            self.layers = self.llama.layers()

    def play(self, prompts: Tensor, tokens: int, observations: Sequence[Sequence[int]] = ()) -> Play:
        """Sample replies of `tokens` tokens to `prompts` (P, L), with one of `observations` between two of them."""
        with torch.inference_mode():
            played = self._play(prompts, tokens, observations)
        return Play(*(part.clone() for part in played))  # ordinary tensors, which training may read

    def _play(self, prompts: Tensor, tokens: int, observations: Sequence[Sequence[int]]) -> Play:
        at, count = prompts.shape[1], prompts.shape[0] * self.group
        logits = self._prefill(prompts)
        ids: list[Tensor] = []
        logps: list[Tensor] = []
        for told in [*observations, ()]:
            for i in range(tokens):
                if i:
                    logits = self._feed(ids[-1][:, None], at)
                    at += 1
                token, logp = sample(logits)
                ids.append(token)
                logps.append(logp)
            if told:
                block = torch.tensor(told, device=prompts.device).expand(count, -1)
                logits = self._feed(torch.cat([ids[-1][:, None], block], 1), at)
                at += 1 + len(told)
                ids += block.unbind(1)
                logps += [torch.zeros_like(logps[-1])] * len(told)
        sampled = [flag for told in [*observations, ()] for flag in [True] * tokens + [False] * len(told)]
        return Play(torch.stack(ids, 1), torch.tensor(sampled, device=prompts.device), torch.stack(logps, 1))

    def _prefill(self, prompts: Tensor) -> Tensor:
        """Logits (B, V) after the prompts, whose keys and values are then in the cache of every group member."""
        (size, length), llama = prompts.shape, self.llama
        x = llama.embed(prompts)
        cos, sin = (table[:length].repeat(size, 1)[:, None] for table in (llama.cos, llama.sin))
        for index, layer in enumerate(self.layers):
            q, k, v = (z.view(size, length, llama.heads, -1).transpose(1, 2) for z in llama.qkv(x, layer, cos, sin))
            for half, z in enumerate((k, v)):
                self.kv[index, half, :, :, :length] = z.repeat_interleave(self.group, 0)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = llama.rest(x, y.transpose(1, 2).flatten(2).flatten(0, 1), layer)
        return llama.logits(x.view(size, length, -1)[:, -1]).repeat_interleave(self.group, 0)

    def _feed(self, ids: Tensor, start: int) -> Tensor:
        """Logits (B, V) after `ids` (B, T), whose first token stands at position `start`."""
        (count, length), llama = ids.shape, self.llama
        end = start + length
        x = llama.embed(ids)
        cos, sin = llama.cos[start:end, None], llama.sin[start:end, None]
        mask = None
        if length > 1:
            cos, sin = cos.repeat(count, 1, 1), sin.repeat(count, 1, 1)
            mask = torch.ones(length, end, dtype=torch.bool, device=ids.device).tril_(start)
        for index, layer in enumerate(self.layers):
            q, k, v = (z.view(count, length, llama.heads, -1).transpose(1, 2) for z in llama.qkv(x, layer, cos, sin))
            self.kv[index, 0, :, :, start:end], self.kv[index, 1, :, :, start:end] = k, v
            keys, values = self.kv[index, 0, :, :, :end], self.kv[index, 1, :, :, :end]
            if mask is None:  # for a single query, plain products beat the fused kernel on a CPU
                y = ((q * llama.dim**-0.5) @ keys.transpose(-1, -2)).softmax(-1) @ values
            else:
                y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            x = llama.rest(x, y.transpose(1, 2).flatten(2).flatten(0, 1), layer)
        return llama.logits(x if length == 1 else x.view(count, length, -1)[:, -1])


def sample(logits: Tensor) -> tuple[Tensor, Tensor]:
    """A token (B,) per row and its log-probability, by inverting the cumulative distribution.

    `torch.multinomial` draws one random number per logit, which takes several times as long on a CPU.
    """
    logp = logits.log_softmax(-1)
    cumulative = logp.exp().cumsum(-1)
    target = torch.rand(len(logits), 1, device=logits.device) * cumulative[:, -1:]
    token = torch.searchsorted(cumulative, target).clamp_(max=logits.shape[-1] - 1)
    return token.squeeze(1), logp.gather(1, token).squeeze(1)


class Optimizer:
    """AdamW after clipping the norm at 1, as the learner takes its steps."""

    def __init__(self, model: LlamaForCausalLM, lr: float) -> None:
        self.parameters = list(model.parameters())
        self.adam = torch.optim.AdamW(self.parameters, lr=lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)

    def step(self, loss: Tensor) -> None:
        """One step down `loss`."""
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.adam.step()


class SharedPromptTrainer:
    """GRPO on equally shaped groups: each prompt runs once for its group, forward and backward."""

    def __init__(self, model: LlamaForCausalLM, lr: float) -> None:
        self.llama, self.optimizer = Llama(model), Optimizer(model, lr)

    def step(self, prompts: Tensor, play: Play, rewards: Tensor) -> float:
        """One optimiser step on `play`, with `rewards` (B,) standardised per group; returns the loss."""
        grouped = rewards.view(len(prompts), -1)
        spread = grouped.std(1, keepdim=True)
        centred = grouped - grouped.mean(1, keepdim=True)
        adv = torch.where(spread > 1e-6, centred / (spread + 1e-6), 0.0).view(-1, 1)
        ratio = (self.logp(prompts, play) - play.logp[:, play.sampled]).exp()
        loss = torch.maximum(-ratio * adv, -ratio.clamp(0.8, 1.2) * adv).mean()
        self.optimizer.step(loss)
        return float(loss.detach())

    def logp(self, prompts: Tensor, play: Play) -> Tensor:
        """Log-probabilities (B, M) of the sampled tokens."""
        llama, ids, (size, start) = self.llama, play.ids, prompts.shape
        count, length, split = len(ids), ids.shape[1] - 1, size * start  # the last token predicts nothing
        x = llama.embed(torch.cat([prompts.flatten(), ids[:, :-1].flatten()]))
        cos, sin = (
            torch.cat([table[:start].repeat(size, 1), table[start : start + length].repeat(count, 1)])[:, None]
            for table in (llama.cos, llama.sin)
        )
        mask = torch.ones(length, start + length, dtype=torch.bool, device=ids.device).tril_(start)
        for layer in llama.layers():
            parts = llama.qkv(x, layer, cos, sin)
            qp, kp, vp = (z[:split].view(size, start, llama.heads, -1).transpose(1, 2) for z in parts)
            qs, ks, vs = (z[split:].view(count, length, llama.heads, -1).transpose(1, 2) for z in parts)
            keys, values = (torch.cat([p.repeat_interleave(count // size, 0), s], 2) for p, s in ((kp, ks), (vp, vs)))
            yp = F.scaled_dot_product_attention(qp, kp, vp, is_causal=True)
            ys = F.scaled_dot_product_attention(qs, keys, values, attn_mask=mask)
            y = torch.cat([z.transpose(1, 2).flatten(2).flatten(0, 1) for z in (yp, ys)])
            x = llama.rest(x, y, layer)
        first = x[:split].view(size, start, -1)[:, -1].repeat_interleave(count // size, 0)
        hidden = torch.cat([first[:, None], x[split:].view(count, length, -1)], 1)[:, play.sampled]
        return llama.logits(hidden).log_softmax(-1).gather(-1, ids[:, play.sampled][..., None]).squeeze(-1)
