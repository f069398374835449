"""What a model's own forward allows: packed tokens, and logits from hidden states. Found by trial.

Families differ in ways that their configs do not tell: some compute attention by code of their own, carry a state from
token to token or keep windows in the mask alone, and would mix packed sequences in silence. So every model computes a
few short sequences once in each way before it is used that way.

Legend: N packed tokens, M sampled tokens, E hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rl.learner.attention import can_replace_attention, packed_attention
from rl.learner.packing import Packing
from rl.methods.inputs import Row
from rl.policy.gpu.float32 import whole_float32
from rl.policy.images.inputs import image_inputs
from rl.policy.model_config import text_config

Head = Callable[[Tensor], Tensor]  # hidden states (M, E) to logits (M, V)

LARGEST_SHARE = 0.1  # error of packed hidden states, as a share of that which tokens of other sequences would make
# The same in standard deviations of the hidden states, for float32 and for lower precision.
LARGEST_ERROR, LARGEST_ROUNDING = 1e-4, 0.1
PACKABLE_LAYERS = {"full_attention", "sliding_attention"}


class Abilities(NamedTuple):
    """What was found for one model.

    Attributes:
        packs: Whether its blocks compute packed tokens as they compute each sequence alone.
        has_head: Whether its logits are a function of its last hidden states, `own_head`.
        has_plain_head: Whether that function is the product with the output matrix.
    """

    packs: bool
    has_head: bool
    has_plain_head: bool


_abilities: WeakKeyDictionary[nn.Module, Abilities] = WeakKeyDictionary()


def abilities(model: nn.Module) -> Abilities:
    """Return what the own forward of `model` allows; the first call for a model tries it, without gradients."""
    if model not in _abilities:
        training = model.training
        with torch.no_grad(), whole_float32():
            _abilities[model] = _try(model.eval())
        model.train(training)
    return _abilities[model]


def take_abilities(model: nn.Module, other: nn.Module) -> None:
    """Let what was found for another model of the same structure hold for `model`, which need not have weights yet."""
    _abilities[model] = abilities(other)


def may_pack(model: Any) -> bool:
    """Whether the class of `model` and its config do not rule packed tokens out; its weights are not looked at."""
    layers = set(getattr(text_config(model), "layer_types", None) or ())
    return layers <= PACKABLE_LAYERS and can_replace_attention(model)


def packed_states(model: Any, packing: Packing) -> Tensor:
    """Return the last hidden states (N, E) of packed tokens, computed by the model's own blocks."""
    ids, position = packing.ids[None], packing.position[None]
    if images := image_inputs(model):
        ids, _ = images.resolve(ids)
    with packed_attention(model):
        out = model.base_model(input_ids=ids, position_ids=position, use_cache=False, packing=packing)
    return out.last_hidden_state[0]


def own_head(model: Any) -> Head:
    """Return what the model does with its last hidden states (M, E), which is not the same in all families.

    It is the product with the output matrix, for some scaled, capped or with a bias. What computes it is the model's
    own forward, with blocks that return these states at once.
    """

    def logits(states: Tensor) -> Tensor:
        with _computed(model.base_model, states):
            ids = torch.zeros(1, len(states), dtype=torch.long, device=states.device)
            return model(input_ids=ids, use_cache=False).logits[0]

    return logits


@contextmanager
def _computed(blocks: Any, states: Tensor) -> Iterator[None]:
    """Context in which `blocks` return `states` whatever they are called with."""
    before = vars(blocks).get("forward")  # other libraries replace it too
    blocks.forward = lambda *_, **__: _Output(states[None])
    try:
        yield
    finally:
        del blocks.forward
        if before is not None:
            blocks.forward = before


class _Output:
    """The output of blocks: the last hidden states (1, M, E), and None for all else that families ask for."""

    def __init__(self, states: Tensor) -> None:
        self.last_hidden_state = states

    def __getitem__(self, index: int) -> Tensor:
        return (self.last_hidden_state,)[index]

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):  # protocols of Python
            raise AttributeError(name)


def _try(model: Any) -> Abilities:
    rows = _rows(text_config(model).vocab_size)
    device = next(model.parameters()).device
    try:
        states, logits = _plain(model, rows, device)
        error, own = (own_head(model)(states) - logits).float().abs().max(), logits.float().std()
        has_head = bool(error <= _largest_error(logits) * own)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # whatever another library's model raises: it is computed whole
        return Abilities(packs=False, has_head=False, has_plain_head=False)
    if not has_head:
        return Abilities(packs=False, has_head=False, has_plain_head=False)
    matrix = getattr(model.get_output_embeddings(), "weight", None)
    plain = None if matrix is None else (F.linear(states, matrix) - logits).float().abs().max()
    return Abilities(
        packs=_packs(model, rows, states, device),
        has_head=True,
        has_plain_head=plain is not None and bool(plain <= _largest_error(logits) * own),
    )


def _plain(model: Any, rows: list[Row], device: torch.device) -> tuple[Tensor, Tensor]:
    """Hidden states (M, E) and logits (M, V) of the sampled tokens of `rows`, each row computed alone."""
    states, logits = [], []
    for row in rows:
        ids = torch.as_tensor([[*row.prefix, *row.ids.tolist()]], device=device)
        places = torch.as_tensor(len(row.prefix) - 1 + np.flatnonzero(row.mask), device=device)
        states.append(model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0, places])
        logits.append(model(input_ids=ids, use_cache=False).logits[0, places])
    return torch.cat(states), torch.cat(logits)


def _packs(model: Any, rows: list[Row], states: Tensor, device: torch.device) -> bool:
    """Whether packed tokens get the hidden states (M, E) that they get alone."""
    if not may_pack(model):
        return False
    config = text_config(model)
    packing = Packing(rows, device)
    ids, position = packing.ids[None], packing.position[None]
    try:
        actual = packed_states(model, packing)[packing.predict]
        plain = model.base_model(input_ids=ids, position_ids=position, use_cache=False).last_hidden_state[0]
    except torch.OutOfMemoryError:
        raise
    except Exception:  # the family refuses
        return False
    layers = getattr(config, "layer_types", None)
    has_window = "sliding_attention" in layers if layers else bool(getattr(config, "sliding_window", None))
    if has_window and not any(packing.windows):
        return False  # it is in the mask alone
    error = (actual - states).float().abs().max()
    size, other = states.float().std(), (plain[packing.predict] - states).float().abs().max()
    return bool(error <= _largest_error(states) * size) and bool(error <= LARGEST_SHARE * other)


def _largest_error(x: Tensor) -> float:
    return LARGEST_ERROR if torch.finfo(x.dtype).bits >= 32 else LARGEST_ROUNDING


def _rows(vocabulary: int) -> list[Row]:
    """Two groups of two short rows with different lengths and random tokens."""
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for group, (prompt, sizes) in enumerate(((5, (6, 9)), (7, (4, 8)))):
        prefix = tuple(rng.integers(vocabulary, size=prompt).tolist())
        for size in sizes:
            ids, zeros = rng.integers(vocabulary, size=size), np.zeros(size, np.float32)
            turn = np.zeros(size, np.int64)
            rows.append(Row(prefix, ids, np.ones(size, np.bool_), zeros, zeros, turn, {}, len(rows), group))
    return rows
