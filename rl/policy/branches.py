"""Log-probabilities of continuations ("branches") of token histories ("trunks"), each trunk computed once.

Scores such as information gain ask many continuations at many places of one history. A branch attends to its trunk up
to the place where it leaves it and to itself, so its log-probabilities are those of the whole sequence on its own.

Legend: N packed tokens, S scored tokens, P trunks of a forward pass, H heads, D head size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rl.policy.decoder import Decoder, is_supported
from rl.records import Branch

Ids = Sequence[int]


def branch_logprobs(
    model: nn.Module, trunks: Sequence[Ids], branches: Sequence[Branch], *, max_tokens: int
) -> list[list[float]]:
    """Return the log-probabilities of the scored tokens of every branch, at temperature 1, without gradients.

    A branch stands for the tokens `ids` after the first `at` tokens of `trunks[trunk]`; its last `scored` tokens are
    scored. The result has one list per branch, in order. A forward pass computes at most `max_tokens` tokens, or one
    trunk with its branches where these are more. Raises `ValueError` for a branch that leaves its trunk before its
    first token or behind its last, or scores more tokens than it has.
    """
    for branch in branches:
        if not 0 < branch.at <= len(trunks[branch.trunk]):
            raise ValueError(f"a branch at {branch.at} of a history of {len(trunks[branch.trunk])} tokens")
        if not 0 <= branch.scored <= len(branch.ids):
            raise ValueError(f"{branch.scored} scored tokens of a branch of {len(branch.ids)}")
    logprobs: list[list[float]] = [[] for _ in branches]
    compute = _packed_logprobs if is_supported(model) else _sequence_logprobs
    with torch.no_grad():
        for indices in _split_by_tokens(trunks, branches, max_tokens):
            part_trunks = sorted({branches[i].trunk for i in indices})
            number = {trunk: n for n, trunk in enumerate(part_trunks)}
            part = [branches[i]._replace(trunk=number[branches[i].trunk]) for i in indices]
            values = iter(compute(model, [trunks[trunk] for trunk in part_trunks], part).tolist())
            for i, branch in zip(indices, part, strict=True):
                logprobs[i] = [next(values) for _ in range(branch.scored)]
    return logprobs


def _split_by_tokens(trunks: Sequence[Ids], branches: Sequence[Branch], max_tokens: int) -> Iterator[list[int]]:
    """Indices of branches in parts of at most `max_tokens`, all branches of a trunk in one part."""
    by_trunk: dict[int, list[int]] = {}
    for i, branch in enumerate(branches):
        if branch.scored:
            by_trunk.setdefault(branch.trunk, []).append(i)
    part: list[int] = []
    tokens = 0
    for trunk, indices in by_trunk.items():
        cost = len(trunks[trunk]) + sum(len(branches[i].ids) for i in indices)
        if part and tokens + cost > max_tokens:
            yield part
            part, tokens = [], 0
        part, tokens = part + indices, tokens + cost
    if part:
        yield part


def _follows_trunk(trunk: Ids, branch: Branch) -> bool:
    """Whether the branch is the trunk's own continuation, so that it costs no computation."""
    return tuple(trunk[branch.at : branch.at + len(branch.ids)]) == branch.ids


def _packed_logprobs(model: Any, trunks: Sequence[Ids], branches: Sequence[Branch]) -> Tensor:
    """Log-probabilities (S,) from one packed forward pass that computes every trunk and every branch once."""
    device = next(model.parameters()).device
    layout = _Layout(trunks, branches, device)
    decoder = Decoder(model)
    weights = decoder.weights(fuse=not decoder.is_wide)
    hidden = decoder.hidden_states(weights, layout.ids, layout.position, layout, layout.max_length)
    logits = F.linear(hidden.index_select(0, layout.predict), weights.head).float()
    return logits.log_softmax(-1).gather(1, layout.target[:, None]).squeeze(1)


class _Layout:
    """Packed tokens (N,), all trunks and then all branches trunk by trunk, and their attention (`AttentionFn`).

    `predict` (S,) indexes the packed tokens that predict the scored ones, which are `target` (S,).
    """

    def __init__(self, trunks: Sequence[Ids], branches: Sequence[Branch], device: torch.device) -> None:
        count = len(trunks)
        lengths = np.array([len(trunk) for trunk in trunks])
        starts = np.cumsum(lengths) - lengths
        members = [[b for b in branches if b.trunk == t and not _follows_trunk(trunks[t], b)] for t in range(count)]
        sizes = np.array([sum(len(b.ids) for b in own) for own in members])  # branch tokens of each trunk
        offsets = lengths.sum() + np.cumsum(sizes) - sizes
        self.trunk_tokens = int(lengths.sum())
        self.trunk_width, self.branch_width = int(lengths.max()), int(sizes.max(initial=0))
        ids = [token for trunk in trunks for token in trunk]
        position = [np.arange(n) for n in lengths]
        shape = (count, self.branch_width)
        at, branch_number = np.ones(shape, np.int64), np.full(shape, -1, np.int64)
        begins: dict[tuple[int, int, tuple[int, ...]], int] = {}  # packed index of a branch's first token
        for t, own in enumerate(members):
            column = 0
            for number, branch in enumerate(own):
                size = len(branch.ids)
                begins[branch.trunk, branch.at, branch.ids] = int(offsets[t]) + column
                ids += branch.ids
                position.append(branch.at + np.arange(size))
                at[t, column : column + size], branch_number[t, column : column + size] = branch.at, number
                column += size
        positions = np.concatenate(position)
        self.ids, self.position = torch.tensor(ids, device=device), torch.as_tensor(positions, device=device)
        self.max_length = int(positions.max()) + 1
        self._make_padding_masks(lengths, sizes, device)
        in_trunk = np.arange(self.trunk_width) < at[:, :, None]
        is_causal = np.tri(self.branch_width, dtype=np.bool_)
        same_branch = (branch_number[:, :, None] == branch_number[:, None, :]) & is_causal
        # (P, 1, branch width, trunk width + branch width): the keys that each branch token attends to
        self.visible = torch.as_tensor(np.concatenate([in_trunk, same_branch], 2)[:, None], device=device)
        predict, target = list[int](), list[int]()
        for branch in branches:
            place = begins.get((branch.trunk, branch.at, branch.ids))
            trunk_place = int(starts[branch.trunk]) + branch.at
            first = trunk_place if place is None else place  # packed index of the branch's first token
            before = [trunk_place - 1, *range(first, first + len(branch.ids) - 1)]
            predict += before[len(branch.ids) - branch.scored :]
            target += branch.ids[len(branch.ids) - branch.scored :]
        self.predict, self.target = torch.tensor(predict, device=device), torch.tensor(target, device=device)

    def _make_padding_masks(self, lengths: np.ndarray, sizes: np.ndarray, device: torch.device) -> None:
        self.in_trunk = torch.as_tensor(np.arange(self.trunk_width) < lengths[:, None], device=device)
        self.in_branch = torch.as_tensor(np.arange(self.branch_width) < sizes[:, None], device=device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `rl.policy.decoder.AttentionFn`."""
        n, gqa = self.trunk_tokens, q.shape[1] != k.shape[1]
        qt, kt, vt = (_pad(x[:n], self.in_trunk) for x in (q, k, v))
        out = [_pack(F.scaled_dot_product_attention(qt, kt, vt, is_causal=True, enable_gqa=gqa), self.in_trunk)]
        if self.branch_width:
            qb, kb, vb = (_pad(x[n:], self.in_branch) for x in (q, k, v))
            keys, values = torch.cat([kt, kb], 2), torch.cat([vt, vb], 2)
            y = F.scaled_dot_product_attention(qb, keys, values, attn_mask=self.visible, enable_gqa=gqa)
            out.append(_pack(y, self.in_branch))
        return torch.cat(out)


def _pad(x: Tensor, inside: Tensor) -> Tensor:
    """(N, H, D) -> (P, H, width, D), where `inside` (P, width) marks the places of the N tokens."""
    block = x.new_zeros(*inside.shape, *x.shape[1:])
    block[inside] = x
    return block.transpose(1, 2)


def _pack(y: Tensor, inside: Tensor) -> Tensor:
    """(P, H, width, D) -> (N, H * D)."""
    return y.transpose(1, 2).flatten(2)[inside]


def _sequence_logprobs(model: Any, trunks: Sequence[Ids], branches: Sequence[Branch]) -> Tensor:
    """Log-probabilities (S,) from the model's own forward over whole sequences; equal ones are computed once."""
    device = next(model.parameters()).device
    rows = list(dict.fromkeys((*trunks[b.trunk][: b.at], *b.ids) for b in branches))
    index = {row: i for i, row in enumerate(rows)}
    width = max(map(len, rows))
    ids, attention = np.zeros((len(rows), width), np.int64), np.zeros((len(rows), width), np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)], attention[i, : len(row)] = row, 1
    logits = model(
        input_ids=torch.as_tensor(ids, device=device),
        attention_mask=torch.as_tensor(attention, device=device),
        use_cache=False,
    ).logits
    parts = []
    for branch in branches:
        row = (*trunks[branch.trunk][: branch.at], *branch.ids)
        at = torch.arange(len(row) - branch.scored - 1, len(row) - 1, device=device)
        logprobs = logits[index[row], at].float().log_softmax(-1)
        target = torch.tensor(row[len(row) - branch.scored :], dtype=torch.long, device=device)
        parts.append(logprobs.gather(1, target[:, None]).squeeze(1))
    return torch.cat(parts)
