"""Next-token logits for the live slots of a `SlotCache`: lean for covered families, the model's own forward otherwise.

Both keep a copy of the weights, so that sampling never sees a half-made update. Before a model is used, a short trial
compares them with what the model computes by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from rl.policy import lora
from rl.policy.cache import SlotCache
from rl.policy.copies import copied, own
from rl.policy.decoder import Decoder, Weights, supported

_TRIAL = 16  # tokens


class Work(NamedTuple):
    """What one step feeds: slots `0..n-1`, each its tokens from `cached` to `known`."""

    n: int
    start: np.ndarray  # (n,) first position to feed
    end: np.ndarray  # (n,) one past the last

    @classmethod
    def of(cls, cache: SlotCache, n: int) -> Work:
        """Everything that is known and not cached in the first `n` slots."""
        return cls(n, cache.cached[:n].copy(), cache.known[:n].copy())


class Forward(Protocol):
    """One model's way to compute a step."""

    layers: int
    kv_heads: int
    head_dim: int

    def refresh(self) -> None:
        """Take over changed weights."""
        ...

    def logits(self, cache: SlotCache, work: Work) -> Tensor:
        """Feed `work`, fill the cache, return the logits (n, V) after each slot's last token."""
        ...


def forward_for(model: nn.Module) -> Forward:
    """The fastest exact forward for `model`.

    Raise `ValueError` for a model that cannot be computed piece by piece from keys and values alone (recurrent layers,
    positions counted by the model itself): its log-probabilities would be silently wrong.
    """
    kind = text_config(model).model_type
    try:
        forward: Forward = LeanForward(model) if supported(model) else ModelForward(model)
        error = _trial(forward, model)
    except torch.OutOfMemoryError:
        raise  # of which the model is not the cause
    except Exception as fault:
        reason = (str(fault).strip() or type(fault).__name__).splitlines()[0]
        raise ValueError(f"model type {kind!r} cannot be sampled by the hf engine: {reason}") from fault
    single = next(model.parameters()).dtype in (torch.float32, torch.float64)
    if not error <= (1e-3 if single else 0.1):
        raise ValueError(
            f"model type {kind!r} cannot be sampled by the hf engine: its logits differ with a cache ({error:.1g})"
        )
    return forward


def longest(model: nn.Module) -> int:
    """How many tokens a sequence may have: as many as there are positions and as every layer attends to.

    Local attention (sliding windows, chunks) equals full attention only within its window. Raise `ValueError` when the
    config names no limit.
    """
    config = text_config(model)
    names = ("max_position_embeddings", "sliding_window", "attention_chunk_size", "window_size")
    rope = getattr(config, "rope_parameters", None) or {}
    limits = [getattr(config, name, None) for name in names]
    limits.append(rope.get("original_max_position_embeddings") if rope.get("rope_type") == "longrope" else None)
    if not any(limits):
        raise ValueError(
            f"model type {config.model_type!r} cannot be sampled by the hf engine: its config has no {names[0]}"
        )
    return min(int(limit) for limit in limits if limit)


def text_config(model: nn.Module) -> Any:
    """The part of a model's config that is about text."""
    config: Any = model.config
    return config.get_text_config()


def _trial(forward: Forward, model: nn.Module) -> float:
    """The largest error of two short sequences fed in pieces, against whole ones, in units of the logits' deviation."""
    parameter = next(model.parameters())
    device, dtype = parameter.device, parameter.dtype
    shape: dict[str, int] = {"layers": forward.layers, "kv_heads": forward.kv_heads, "head_dim": forward.head_dim}
    cache = SlotCache(**shape, slots=2, context=_TRIAL, device=device, dtype=dtype)
    cache.reserve(2, _TRIAL)
    cache.ids[:] = np.random.default_rng(0).integers(text_config(model).vocab_size, size=cache.ids.shape)
    training = model.training
    with torch.no_grad():
        own = model.eval()(input_ids=torch.as_tensor(cache.ids, device=device), use_cache=False).logits.float()
        model.train(training)
        error, rounding = 0.0, 2 * torch.finfo(dtype).eps * own.abs().max()  # of what both say, which may be far from 0
        for ends in ((6, 4), (7, 5), (12, 6), (13, _TRIAL)):  # many tokens each, one each, both kinds
            cache.known[:] = ends
            wanted = torch.stack([own[slot, end - 1] for slot, end in enumerate(ends)])
            gap = (forward.logits(cache, Work.of(cache, 2)).float() - wanted).abs().max()
            gap = (gap - rounding).clamp(min=0)
            error = max(error, float(gap / own.std())) if gap.isfinite() else torch.inf
    return error


class _CachedAttention:
    """Attention of packed new tokens over the slots' caches.

    The last token of every slot goes through one contiguous slice of the cache; the others (a prompt, an observation)
    through a padded batch of the slots that have them.
    """

    def __init__(self, cache: SlotCache, work: Work) -> None:
        device = cache.kv.device
        counts = work.end - work.start
        self.kv, self.n = cache.kv, work.n
        slot = np.repeat(np.arange(work.n), counts)
        position = np.arange(len(slot)) - np.repeat(np.cumsum(counts) - counts - work.start, counts)
        last = np.cumsum(counts) - 1
        self.slot, self.position = torch.as_tensor(slot, device=device), torch.as_tensor(position, device=device)
        self.ids = torch.as_tensor(cache.ids[slot, position], device=device)
        self.last = torch.as_tensor(last, device=device)
        self.longest = int(work.end.max())
        ends = torch.as_tensor(work.end, device=device)
        self.bias = None
        if int(work.end.min()) != self.longest:
            late = torch.arange(self.longest, device=device) >= ends[:, None]
            self.bias = torch.zeros(late.shape, device=device, dtype=cache.kv.dtype).masked_fill_(late, -torch.inf)[
                :, None, None
            ]
        long = np.nonzero(counts > 1)[0]
        self.long = torch.as_tensor(long, device=device) if len(long) else None
        if len(long):
            rest = counts[long] - 1
            width = np.arange(rest.max())
            valid = width < rest[:, None]
            first = (last[long] - rest)[:, None]
            self.padded = torch.as_tensor(np.where(valid, first + width, first), device=device)  # (m, Q) packed index
            self.valid = torch.as_tensor(valid, device=device)
            self.inside = self.padded[self.valid]
            self.reach = int((work.end[long] - 1).max())
            at = torch.as_tensor(work.start[long][:, None] + np.where(valid, width, 0), device=device)
            self.seen = (torch.arange(self.reach, device=device) <= at[:, :, None])[:, None]  # (m, 1, Q, reach)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self.kv[layer, 0], self.kv[layer, 1]
        keys[self.slot, :, self.position] = k
        values[self.slot, :, self.position] = v
        heads, dim = q.shape[1:]
        kv_heads = k.shape[1]
        single = q if len(q) == self.n else q.index_select(0, self.last)
        grouped = single.reshape(self.n, kv_heads, heads // kv_heads, dim) * dim**-0.5
        scores = grouped @ keys[: self.n, :, : self.longest].transpose(-1, -2)
        if self.bias is not None:
            scores = scores + self.bias
        y = (scores.softmax(-1) @ values[: self.n, :, : self.longest]).reshape(self.n, heads * dim)
        if self.long is None:
            return y
        queries = q[self.padded].transpose(1, 2)  # (m, H, Q, D)
        z = nn.functional.scaled_dot_product_attention(
            queries,
            keys[:, :, : self.reach].index_select(0, self.long),
            values[:, :, : self.reach].index_select(0, self.long),
            attn_mask=self.seen,
            enable_gqa=heads != kv_heads,
        )
        packed = y.new_empty(len(q), heads * dim)
        packed[self.inside] = z.transpose(1, 2).flatten(2)[self.valid]
        packed[self.last] = y
        return packed


class LeanForward:
    """`rl.policy.decoder` over a slot cache."""

    def __init__(self, model: nn.Module) -> None:
        """Take the first copy of the weights."""
        self.decoder = Decoder(model)
        self.layers = text_config(model).num_hidden_layers
        self.kv_heads, self.head_dim = self.decoder.kv_heads, self.decoder.head_dim
        self.refresh()

    def refresh(self) -> None:
        """Copy the weights that may change; frozen ones, as below adapters, are read where they are.

        What is copied anyway is fused, and so is what is small.
        """
        named = self.decoder.model.named_parameters()
        trained = any(weight.requires_grad for name, weight in named if not lora.of_adapters(name))
        with torch.no_grad():
            live = self.decoder.weights(fused=trained or not self.decoder.wide)
            embed = own(live.embed)
            head = embed if live.head is live.embed else own(live.head)
            self.weights = Weights(embed, tuple(map(own, live.layers)), own(live.norm), head)

    def logits(self, cache: SlotCache, work: Work) -> Tensor:
        """See `Forward.logits`."""
        attend = _CachedAttention(cache, work)
        x = self.decoder.hidden(self.weights, attend.ids, attend.position, attend, attend.longest)
        cache.cached[: work.n] = work.end
        return nn.functional.linear(x if len(x) == work.n else x.index_select(0, attend.last), self.weights.head)


class _SlotView(Cache):
    """A Hugging Face cache that stores into the slots being fed and shows them, padded to the longest."""

    def __init__(self, cache: SlotCache, slots: Tensor, positions: Tensor, valid: Tensor, reach: int) -> None:
        self.kv, self.slots, self.reach = cache.kv, slots, reach
        self.where = slots[:, None].expand_as(positions)[valid], positions[valid]
        self.valid = valid
        self.layers: list[Any] = []  # asked for by mask building; the mask is given, so it is empty

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        slot, position = self.where
        for half, states in enumerate((key_states, value_states)):
            self.kv[layer_idx, half][slot, :, position] = states.transpose(1, 2)[self.valid].to(self.kv.dtype)
        rows = self.kv[layer_idx][:, self.slots, :, : self.reach]
        return rows[0], rows[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0

    def get_mask_sizes(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        return self.reach, 0


class ModelForward:
    """Any decoder-only Hugging Face model with ordinary attention, through its own forward and a 4-D mask."""

    def __init__(self, model: nn.Module) -> None:
        """Copy the model; the cache's geometry is read from its config."""
        config = text_config(model)
        self.source = model
        self.model: Any = copied(model)
        self.layers = config.num_hidden_layers
        self.kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        self.head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    def refresh(self) -> None:
        """Copy the weights that may change."""
        mine, theirs = self.model.state_dict(), self.source.state_dict()
        if mine.keys() != theirs.keys():  # adapters came or went
            self.model = copied(self.source)
            return
        for name, value in theirs.items():
            if mine[name].data_ptr() != value.data_ptr():
                mine[name].copy_(value)

    def logits(self, cache: SlotCache, work: Work) -> Tensor:
        """See `Forward.logits`. Slots that feed one token and slots that feed many are separate calls."""
        counts = work.end - work.start
        parts: dict[int, Tensor] = {}
        for rows in (np.nonzero(counts == 1)[0], np.nonzero(counts > 1)[0]):
            if len(rows):
                parts.update(zip(rows.tolist(), self._feed(cache, work, rows), strict=True))
        cache.cached[: work.n] = work.end
        return torch.stack([parts[row] for row in range(work.n)])

    def _feed(self, cache: SlotCache, work: Work, rows: np.ndarray) -> Tensor:
        device = cache.kv.device
        start, counts = work.start[rows], (work.end - work.start)[rows]
        valid = np.arange(counts.max()) < counts[:, None]
        positions = np.where(valid, start[:, None] + np.arange(counts.max()), start[:, None])
        ids = cache.ids[rows[:, None], positions]
        reach = int(work.end[rows].max())
        at = torch.as_tensor(positions, device=device)
        seen = torch.arange(reach, device=device) <= at[:, :, None]
        mask = torch.zeros(seen.shape, device=device, dtype=cache.kv.dtype).masked_fill_(
            ~seen, torch.finfo(cache.kv.dtype).min
        )
        view = _SlotView(cache, torch.as_tensor(rows, device=device), at, torch.as_tensor(valid, device=device), reach)
        wanted, column = np.unique(counts - 1, return_inverse=True)
        out = self.model(
            input_ids=torch.as_tensor(ids, device=device),
            attention_mask=mask[:, None],
            position_ids=at,
            past_key_values=view,
            use_cache=True,
            logits_to_keep=torch.as_tensor(wanted, device=device),
        )
        return out.logits[torch.arange(len(rows), device=device), torch.as_tensor(column, device=device)]
