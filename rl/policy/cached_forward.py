"""Next-token logits for the active slots of a `KVCache`.

`DecoderForward` computes them with `rl.policy.decoder`, `ModelForward` with the forward of any other model. Both use a
copy of the trained weights, so that sampling never sees a half-made update. Before a model is used, its cached forward
is compared with its plain forward on two short sequences.

Legend: N packed tokens, V vocabulary, H heads, D head size.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from rl.policy import lora
from rl.policy.decoder import Decoder, Weights, is_supported
from rl.policy.gpu.float32 import whole_float32
from rl.policy.images.inputs import image_inputs
from rl.policy.images.trial import image_trial_error
from rl.policy.kv_cache import KVCache
from rl.policy.model_config import text_config
from rl.policy.quantised.linear import is_quantised
from rl.policy.weight_copies import copy_model, copy_trainable

_TRIAL_TOKENS = 16


class StepInput(NamedTuple):
    """The tokens that one step computes: in each of slots `0..n-1`, those at positions `start` to `end`."""

    n: int
    start: np.ndarray  # (n,) first position to compute
    end: np.ndarray  # (n,) one past the last
    scored: np.ndarray | None = None  # (n,) after how many of them, the last ones, logits are wanted; None: after one

    @classmethod
    def pending(cls, cache: KVCache, n: int, scored: np.ndarray | None = None) -> StepInput:
        """Return all tokens of the first `n` slots (sequences) whose keys and values are not in `cache` yet."""
        return cls(n, cache.num_cached[:n].copy(), cache.num_tokens[:n].copy(), scored)


class CachedForward(Protocol):
    """How one model computes a step over a `KVCache`."""

    layers: int
    kv_heads: int
    head_dim: int

    def refresh(self) -> None:
        """Copy the weights that have changed from the model, so that the next step computes with them."""
        ...

    def logits(self, cache: KVCache, step: StepInput) -> Tensor:
        """Compute the tokens of `step`, fill the cache, return the logits (n, V) after each slot's last token.

        With `step.scored` they are (sum of it, V): those after the last tokens of each slot, slot by slot.
        """
        ...


def make_forward(model: nn.Module) -> CachedForward:
    """Return the fastest exact cached forward for `model`.

    Raises `ValueError` for weights that are not finite, and a model that cannot be computed in pieces from keys and
    values alone (recurrent layers, positions counted by the model itself): its log-probabilities would be wrong.
    """
    kind = text_config(model).model_type
    try:
        forward: CachedForward = DecoderForward(model) if is_supported(model) else ModelForward(model)
        with whole_float32():
            error = max(_trial_error(forward, model), image_trial_error(forward, model, StepInput))
    except torch.OutOfMemoryError:
        raise  # not the model's fault
    except Exception as fault:
        reason = (str(fault).strip() or type(fault).__name__).splitlines()[0]
        raise ValueError(f"model type {kind!r} cannot be sampled by the hf engine: {reason}") from fault
    single = next(model.parameters()).dtype in (torch.float32, torch.float64) and not is_quantised(model)
    if not error <= (1e-3 if single else 0.1):
        if not all(weight.isfinite().all() for weight in model.parameters()):
            name = getattr(model, "name_or_path", "") or "the model"
            raise ValueError(f"weights of {name} are not finite: a file is damaged, or training diverged; take others")
        reason = f"its logits differ with a cache ({error:.1g})"
        raise ValueError(f"model type {kind!r} cannot be sampled by the hf engine: {reason}")
    return forward


def _trial_error(forward: CachedForward, model: nn.Module) -> float:
    """The largest error of the logits of two short sequences computed in pieces, in standard deviations of the logits.

    The reference is the model's plain forward over whole sequences.
    """
    parameter = next(model.parameters())
    device, dtype = parameter.device, parameter.dtype
    shape: dict[str, int] = {"layers": forward.layers, "kv_heads": forward.kv_heads, "head_dim": forward.head_dim}
    cache = KVCache(**shape, slots=2, context=_TRIAL_TOKENS, device=device, dtype=dtype)
    cache.reserve(2, _TRIAL_TOKENS)
    cache.ids[:] = np.random.default_rng(0).integers(text_config(model).vocab_size, size=cache.ids.shape)
    training = model.training
    with torch.no_grad():
        plain = model.eval()(input_ids=torch.as_tensor(cache.ids, device=device), use_cache=False).logits.float()
        model.train(training)
        # rounding of both forwards, at the size of the logits, which may be far from 0
        error, rounding = 0.0, 2 * torch.finfo(dtype).eps * plain.abs().max()
        for ends in ((6, 4), (7, 5), (12, 6), (13, _TRIAL_TOKENS)):  # several tokens per slot, one, and both kinds
            cache.num_tokens[:] = ends
            expected = torch.stack([plain[slot, end - 1] for slot, end in enumerate(ends)])
            gap = (forward.logits(cache, StepInput.pending(cache, 2)).float() - expected).abs().max()
            gap = (gap - rounding).clamp(min=0)
            error = max(error, float(gap / plain.std())) if gap.isfinite() else torch.inf
    return error


class _CachedAttention:
    """Attention of packed new tokens over the slots' caches: an `AttentionFn` that also stores keys and values.

    The last token of every slot goes through one contiguous slice of the cache; the others (of a prompt or an
    observation) go through a padded batch of the slots that have them. In shapes, m is the number of the latter slots
    and Q the most tokens of one.
    """

    def __init__(self, cache: KVCache, step: StepInput) -> None:
        device = cache.kv.device
        counts = step.end - step.start
        self.kv, self.n = cache.kv, step.n
        slot = np.repeat(np.arange(step.n), counts)
        position = np.arange(len(slot)) - np.repeat(np.cumsum(counts) - counts - step.start, counts)
        last = np.cumsum(counts) - 1
        self.slot, self.position = torch.as_tensor(slot, device=device), torch.as_tensor(position, device=device)
        self.ids = torch.as_tensor(cache.ids[slot, position], device=device)
        self.last = torch.as_tensor(last, device=device)
        self.max_length = int(step.end.max())
        ends = torch.as_tensor(step.end, device=device)
        self.bias = None
        if int(step.end.min()) != self.max_length:
            beyond = torch.arange(self.max_length, device=device) >= ends[:, None]
            self.bias = torch.zeros(beyond.shape, device=device, dtype=cache.kv.dtype).masked_fill_(beyond, -torch.inf)[
                :, None, None
            ]
        long = np.nonzero(counts > 1)[0]
        self.long = torch.as_tensor(long, device=device) if len(long) else None
        if len(long):
            rest = counts[long] - 1
            width = np.arange(rest.max())
            valid = width < rest[:, None]
            first = (last[long] - rest)[:, None]
            self.pad_index = torch.as_tensor(np.where(valid, first + width, first), device=device)  # (m, Q) into packed
            # Places of the tokens in the packed ones and in the padded ones. Numbers, because a mask would let a GPU be
            # waited for in every layer.
            self.packed_index = torch.as_tensor((first + width)[valid], device=device)
            self.padded_index = torch.as_tensor(np.flatnonzero(valid), device=device)
            self.long_length = int((step.end[long] - 1).max())
            at = torch.as_tensor(step.start[long][:, None] + np.where(valid, width, 0), device=device)
            # (m, 1, Q, long_length): the keys that each token attends to
            self.visible = (torch.arange(self.long_length, device=device) <= at[:, :, None])[:, None]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self.kv[layer, 0], self.kv[layer, 1]
        keys[self.slot, :, self.position] = k
        values[self.slot, :, self.position] = v
        heads, dim = q.shape[1:]
        kv_heads = k.shape[1]
        single = q if q.shape[0] == self.n else q.index_select(0, self.last)
        query_groups = single.reshape(self.n, kv_heads, heads // kv_heads, dim) * dim**-0.5
        scores = query_groups @ keys[: self.n, :, : self.max_length].transpose(-1, -2)
        if self.bias is not None:
            scores = scores + self.bias
        y = (scores.softmax(-1) @ values[: self.n, :, : self.max_length]).reshape(self.n, heads * dim)
        if self.long is None:
            return y
        queries = q[self.pad_index].transpose(1, 2)  # (m, H, Q, D)
        z = nn.functional.scaled_dot_product_attention(
            queries,
            keys[:, :, : self.long_length].index_select(0, self.long),
            values[:, :, : self.long_length].index_select(0, self.long),
            attn_mask=self.visible,
            enable_gqa=heads != kv_heads,
        )
        out = y.new_empty(q.shape[0], heads * dim)
        out[self.packed_index] = z.transpose(1, 2).reshape(-1, heads * dim).index_select(0, self.padded_index)
        out[self.last] = y
        return out


class DecoderForward:
    """The packed forward of `rl.policy.decoder` over a slot cache."""

    def __init__(self, model: nn.Module) -> None:
        """Make the first copy of the weights."""
        self.decoder = Decoder(model)
        self.layers = text_config(model).num_hidden_layers
        self.kv_heads, self.head_dim = self.decoder.kv_heads, self.decoder.head_dim
        self.refresh()

    def refresh(self) -> None:
        """Copy the weights that are trained from the model; frozen ones, as below adapters, are shared with it.

        Projections are fused where their weights are copied anyway, or small.
        """
        named_parameters = self.decoder.model.named_parameters()
        trains_base = any(w.requires_grad for name, w in named_parameters if not lora.is_adapter_weight(name))
        with torch.no_grad():
            live = self.decoder.weights(fuse=trains_base or not self.decoder.is_wide)
            embed = copy_trainable(live.embed)
            head = embed if live.head is live.embed else copy_trainable(live.head)
            self.weights = Weights(embed, tuple(map(copy_trainable, live.layers)), copy_trainable(live.norm), head)

    def logits(self, cache: KVCache, step: StepInput) -> Tensor:
        """See `CachedForward`."""
        attention = _CachedAttention(cache, step)
        x = self.decoder.hidden_states(self.weights, attention.ids, attention.position, attention, attention.max_length)
        cache.num_cached[: step.n] = step.end
        rows = attention.last
        if step.scored is not None:
            rows = torch.as_tensor(_last_ones(np.cumsum(step.end - step.start), step.scored), device=x.device)
        return nn.functional.linear(x if x.shape[0] == step.n else x.index_select(0, rows), self.weights.head)


class _SlotView(Cache):
    """A Hugging Face cache over some slots: stores new keys and values in them, returns them padded to the longest."""

    def __init__(
        self, cache: KVCache, slots: np.ndarray, positions: np.ndarray, valid: np.ndarray, max_length: int
    ) -> None:
        device = cache.kv.device
        row, column = np.nonzero(valid)
        self.kv, self.slots, self.max_length = cache.kv, torch.as_tensor(slots, device=device), max_length
        # Where new tokens are in the batch, and where in the cache. Numbers, because a mask would let a GPU be waited
        # for in every layer.
        self.row, self.column = torch.as_tensor(row, device=device), torch.as_tensor(column, device=device)
        self.slot = torch.as_tensor(slots[row], device=device)
        self.position = torch.as_tensor(positions[row, column], device=device)
        self.layers: list[Any] = []  # read when a mask is built; the mask is passed in, so it is empty

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        for half, states in enumerate((key_states, value_states)):
            new = states[self.row, :, self.column].to(self.kv.dtype)
            self.kv[layer_idx, half][self.slot, :, self.position] = new
        rows = self.kv[layer_idx][:, self.slots, :, : self.max_length]
        return rows[0], rows[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0

    def get_mask_sizes(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        return self.max_length, 0


class ModelForward:
    """Any decoder-only Hugging Face model with ordinary attention, through its own forward and a 4-D mask."""

    def __init__(self, model: nn.Module) -> None:
        """Copy the model; the cache's geometry is read from its config."""
        config = text_config(model)
        self.source = model
        self.images = image_inputs(model)
        self.model: Any = copy_model(model)
        self.layers = config.num_hidden_layers
        self.kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        self.head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    def refresh(self) -> None:
        """Copy the weights that are trained from the model; frozen ones are shared with it."""
        own, source = self.model.state_dict(), self.source.state_dict()
        if own.keys() != source.keys():  # adapters were added or removed
            self.model = copy_model(self.source)
            return
        for name, value in source.items():
            if own[name].data_ptr() != value.data_ptr():
                own[name].copy_(value)

    def logits(self, cache: KVCache, step: StepInput) -> Tensor:
        """See `CachedForward`. Slots with one token and slots with several are computed in separate calls."""
        counts = step.end - step.start
        parts: dict[int, Tensor] = {}
        for rows in (np.nonzero(counts == 1)[0], np.nonzero(counts > 1)[0]):
            if len(rows):
                parts.update(zip(rows.tolist(), self._row_logits(cache, step, rows), strict=True))
        cache.num_cached[: step.n] = step.end
        return torch.cat([parts[row] for row in range(step.n)])

    def _row_logits(self, cache: KVCache, step: StepInput, rows: np.ndarray) -> tuple[Tensor, ...]:
        """Logits (scored, V) after the last tokens of each of the slots `rows`."""
        device = cache.kv.device
        start, counts = step.start[rows], (step.end - step.start)[rows]
        valid = np.arange(counts.max()) < counts[:, None]
        positions = np.where(valid, start[:, None] + np.arange(counts.max()), start[:, None])
        ids = cache.ids[rows[:, None], positions]
        max_length = int(step.end[rows].max())
        at = torch.as_tensor(positions, device=device)
        visible = torch.arange(max_length, device=device) <= at[:, :, None]
        mask = torch.zeros(visible.shape, device=device, dtype=cache.kv.dtype).masked_fill_(
            ~visible, torch.finfo(cache.kv.dtype).min
        )
        view = _SlotView(cache, rows, positions, valid, max_length)
        scored = np.ones_like(counts) if step.scored is None else step.scored[rows]
        columns, column = np.unique(_last_ones(counts, scored), return_inverse=True)
        inputs: dict[str, Tensor] = {"input_ids": torch.as_tensor(ids, device=device), "position_ids": at}
        if self.images is not None:
            first = [self.images.shift_before(cache.ids[row, :begin]) for row, begin in zip(rows, start, strict=True)]
            inputs = self.images.of_parts(ids, valid, start[:, None] + np.asarray(first)[:, None], device)
        out = self.model(
            **inputs,
            attention_mask=mask[:, None],
            past_key_values=view,
            use_cache=True,
            logits_to_keep=torch.as_tensor(columns, device=device),
        )
        row = torch.as_tensor(np.repeat(np.arange(len(rows)), scored), device=device)
        return out.logits[row, torch.as_tensor(column, device=device)].split(scored.tolist())


def _last_ones(ends: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The last `counts` (n,) numbers below each of `ends` (n,), one after the other."""
    return np.concatenate([np.arange(end - count, end) for end, count in zip(ends, counts, strict=True)])
