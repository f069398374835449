"""The model's hidden states behind beginnings of replies.

Legend: N sequences, E hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rl.policy.decoder import CALL


def last_states(model: Any, sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the last hidden states (N, E), float32, behind the last tokens of `sequences`, none of them empty.

    They are of the weights that `model` has now. Raises `ValueError` for a model whose weights are divided.
    """
    if hasattr(model, CALL):
        raise ValueError("hidden states of beginnings are not computed for a model that is divided among processes")
    device, width = next(model.parameters()).device, max(map(len, sequences))
    ids, mask = np.zeros((len(sequences), width), np.int64), np.zeros((len(sequences), width), np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)], mask[row, : len(sequence)] = sequence, 1
    with torch.inference_mode():
        states = model.base_model(
            input_ids=torch.as_tensor(ids, device=device),
            attention_mask=torch.as_tensor(mask, device=device),
            use_cache=False,
        ).last_hidden_state
    last = torch.as_tensor([len(sequence) - 1 for sequence in sequences], device=device)
    return states[torch.arange(len(sequences), device=device), last].float().cpu().numpy()
