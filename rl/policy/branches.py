"""Log-probabilities of continuations that branch off token histories: each history is computed once.

For gains of information, one history is asked at many places what it would say next. A branch attends to its history
up to the place it leaves it and to itself, which is what the whole sequence would have computed on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rl.policy.decoder import Decoder, supported
from rl.records import Branch

Ids = Sequence[int]


def logprobs(model: nn.Module, trunks: Sequence[Ids], branches: Sequence[Branch], *, budget: int) -> list[list[float]]:
    """One log-probability per scored token of every branch, at temperature 1, without gradients.

    At most `budget` tokens are computed in one forward pass, or one trunk with its branches where these are more.
    Raises `ValueError` for a branch that leaves its trunk before its first token or behind its last.
    """
    for branch in branches:
        if not 0 < branch.at <= len(trunks[branch.trunk]):
            raise ValueError(f"a branch at {branch.at} of a history of {len(trunks[branch.trunk])} tokens")
        if not 0 <= branch.scored <= len(branch.ids):
            raise ValueError(f"{branch.scored} scored tokens of a branch of {len(branch.ids)}")
    found: list[list[float]] = [[] for _ in branches]
    compute = _forest if supported(model) else _whole
    with torch.no_grad():
        for chosen in _parts(trunks, branches, budget):
            here = sorted({branches[i].trunk for i in chosen})
            place = {trunk: number for number, trunk in enumerate(here)}
            asked = [branches[i]._replace(trunk=place[branches[i].trunk]) for i in chosen]
            values = iter(compute(model, [trunks[trunk] for trunk in here], asked).tolist())
            for i, branch in zip(chosen, asked, strict=True):
                found[i] = [next(values) for _ in range(branch.scored)]
    return found


def _parts(trunks: Sequence[Ids], branches: Sequence[Branch], budget: int) -> Iterator[list[int]]:
    """Indices of branches, all those of a trunk together, within the budget."""
    of: dict[int, list[int]] = {}
    for i, branch in enumerate(branches):
        if branch.scored:
            of.setdefault(branch.trunk, []).append(i)
    part: list[int] = []
    used = 0
    for trunk, own in of.items():
        cost = len(trunks[trunk]) + sum(len(branches[i].ids) for i in own)
        if part and used + cost > budget:
            yield part
            part, used = [], 0
        part, used = part + own, used + cost
    if part:
        yield part


def _on_trunk(trunk: Ids, branch: Branch) -> bool:
    return tuple(trunk[branch.at : branch.at + len(branch.ids)]) == branch.ids


def _forest(model: Any, trunks: Sequence[Ids], branches: Sequence[Branch]) -> Tensor:
    """Every trunk once and every branch once."""
    device = next(model.parameters()).device
    layout = _Layout(trunks, branches, device)
    decoder = Decoder(model)
    weights = decoder.weights(fused=not decoder.wide)
    hidden = decoder.hidden(weights, layout.ids, layout.position, layout, layout.longest)
    logits = F.linear(hidden.index_select(0, layout.predict), weights.head).float()
    return logits.log_softmax(-1).gather(1, layout.target[:, None]).squeeze(1)


class _Layout:
    """Packed tokens, all trunks and then all branches trunk by trunk; an `Attend` of `rl.policy.decoder`."""

    def __init__(self, trunks: Sequence[Ids], branches: Sequence[Branch], device: torch.device) -> None:
        count = len(trunks)
        lengths = np.array([len(trunk) for trunk in trunks])
        starts = np.cumsum(lengths) - lengths
        grown = [[b for b in branches if b.trunk == t and not _on_trunk(trunks[t], b)] for t in range(count)]
        sizes = np.array([sum(len(b.ids) for b in own) for own in grown])
        offsets = lengths.sum() + np.cumsum(sizes) - sizes
        self.trunk_tokens, self.wide, self.tall = int(lengths.sum()), int(lengths.max()), int(sizes.max(initial=0))
        ids = [token for trunk in trunks for token in trunk]
        position = [np.arange(n) for n in lengths]
        at, own_branch = np.ones((count, self.tall), np.int64), np.full((count, self.tall), -1, np.int64)
        begins: dict[tuple[int, int, tuple[int, ...]], int] = {}  # where a branch's tokens stand among all
        for t, own in enumerate(grown):
            column = 0
            for number, branch in enumerate(own):
                size = len(branch.ids)
                begins[branch.trunk, branch.at, branch.ids] = int(offsets[t]) + column
                ids += branch.ids
                position.append(branch.at + np.arange(size))
                at[t, column : column + size], own_branch[t, column : column + size] = branch.at, number
                column += size
        places = np.concatenate(position)
        self.ids, self.position = torch.tensor(ids, device=device), torch.as_tensor(places, device=device)
        self.longest = int(places.max()) + 1
        self._pads(lengths, sizes, device)
        inside = np.arange(self.wide) < at[:, :, None]
        together = (own_branch[:, :, None] == own_branch[:, None, :]) & np.tri(self.tall, dtype=np.bool_)
        self.seen = torch.as_tensor(np.concatenate([inside, together], 2)[:, None], device=device)
        predict, target = list[int](), list[int]()
        for branch in branches:
            place = begins.get((branch.trunk, branch.at, branch.ids))
            trunk = int(starts[branch.trunk]) + branch.at
            first = trunk if place is None else place  # where its first token stands
            before = [trunk - 1, *range(first, first + len(branch.ids) - 1)]
            predict += before[len(branch.ids) - branch.scored :]
            target += branch.ids[len(branch.ids) - branch.scored :]
        self.predict, self.target = torch.tensor(predict, device=device), torch.tensor(target, device=device)

    def _pads(self, lengths: np.ndarray, sizes: np.ndarray, device: torch.device) -> None:
        self.in_trunk = torch.as_tensor(np.arange(self.wide) < lengths[:, None], device=device)
        self.in_branch = torch.as_tensor(np.arange(self.tall) < sizes[:, None], device=device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `rl.policy.decoder.Attend`."""
        n, gqa = self.trunk_tokens, q.shape[1] != k.shape[1]
        qt, kt, vt = (_padded(x[:n], self.in_trunk) for x in (q, k, v))
        out = [_packed(F.scaled_dot_product_attention(qt, kt, vt, is_causal=True, enable_gqa=gqa), self.in_trunk)]
        if self.tall:
            qb, kb, vb = (_padded(x[n:], self.in_branch) for x in (q, k, v))
            keys, values = torch.cat([kt, kb], 2), torch.cat([vt, vb], 2)
            y = F.scaled_dot_product_attention(qb, keys, values, attn_mask=self.seen, enable_gqa=gqa)
            out.append(_packed(y, self.in_branch))
        return torch.cat(out)


def _padded(x: Tensor, inside: Tensor) -> Tensor:
    """(N, H, D) -> (B, H, T, D)."""
    wide = x.new_zeros(*inside.shape, *x.shape[1:])
    wide[inside] = x
    return wide.transpose(1, 2)


def _packed(y: Tensor, inside: Tensor) -> Tensor:
    """(B, H, T, D) -> (N, H * D)."""
    return y.transpose(1, 2).flatten(2)[inside]


def _whole(model: Any, trunks: Sequence[Ids], branches: Sequence[Branch]) -> Tensor:
    """Every branch with all that stands before it, through the model's own forward; equal sequences once."""
    device = next(model.parameters()).device
    rows = list(dict.fromkeys((*trunks[b.trunk][: b.at], *b.ids) for b in branches))
    place = {row: i for i, row in enumerate(rows)}
    wide = max(map(len, rows))
    ids, attention = np.zeros((len(rows), wide), np.int64), np.zeros((len(rows), wide), np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)], attention[i, : len(row)] = row, 1
    logits = model(
        input_ids=torch.as_tensor(ids, device=device),
        attention_mask=torch.as_tensor(attention, device=device),
        use_cache=False,
    ).logits
    found = []
    for branch in branches:
        row = (*trunks[branch.trunk][: branch.at], *branch.ids)
        at = torch.arange(len(row) - branch.scored - 1, len(row) - 1, device=device)
        scores = logits[place[row], at].float().log_softmax(-1)
        target = torch.tensor(row[len(row) - branch.scored :], dtype=torch.long, device=device)
        found.append(scores.gather(1, target[:, None]).squeeze(1))
    return torch.cat(found)
