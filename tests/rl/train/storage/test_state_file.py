"""The trainer's state survives the disk exactly."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from rl.train.storage.state_file import STATE, TENSORS, StateSnapshot, read_state, write_state


def test_tensors_and_arrays_come_back_with_their_bits(tmp_path: Path) -> None:
    weight = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    state = {
        "state": {0: {"step": torch.tensor(3.0), "exp_avg": weight}, 1: {"exp_avg": weight.T}},
        "tied": [weight, weight],
        "part": weight[1],
        "empty": [torch.zeros(0), torch.zeros(0, 2)],
        "half": weight.bfloat16(),
        "array": np.arange(6, dtype=np.int64).reshape(2, 3)[:, ::-1],
        "betas": (0.9, 0.99),
    }
    write_state(tmp_path, StateSnapshot.of(state))
    result = read_state(tmp_path)
    assert result["state"].keys() == {0, 1} and result["betas"] == (0.9, 0.99)
    pairs = [(result["state"][0]["step"], torch.tensor(3.0)), (result["state"][0]["exp_avg"], weight)]
    pairs += [
        (result["state"][1]["exp_avg"], weight.T),
        (result["part"], weight[1]),
        (result["half"], weight.bfloat16()),
    ]
    pairs += [(one, weight) for one in result["tied"]] + list(zip(result["empty"], state["empty"], strict=True))
    assert all(mine.dtype == yours.dtype and torch.equal(mine, yours) for mine, yours in pairs)
    assert result["array"].dtype == np.int64 and result["array"].tolist() == [[2, 1, 0], [5, 4, 3]]
    assert {path.name for path in tmp_path.iterdir()} == {STATE, TENSORS}
    assert (tmp_path / TENSORS).stat().st_size < 1200  # a tied weight is stored once


def test_a_state_that_no_file_can_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="/answer: Fraction"):
        StateSnapshot.of({"answer": Fraction(1, 2)})
