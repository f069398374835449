"""Where Triton is missing or cannot compile, torch's operations serve, and a line says so."""

import sys

import pytest
import torch

from rl.policy.gpu import kernels


@pytest.mark.parametrize("load", [kernels._softmax, kernels._elementwise])
def test_without_triton_a_line_says_what_is_slower(monkeypatch, caplog, load):
    monkeypatch.setitem(sys.modules, "triton", None)
    for name in ("softmax", "elementwise"):
        monkeypatch.delitem(sys.modules, f"rl.policy.gpu.{name}", raising=False)
        monkeypatch.delattr(f"rl.policy.gpu.{name}", raising=False)
    assert load.__wrapped__(torch.device("cpu")) is None
    assert "Triton does not work here" in caplog.text and "triton" in caplog.text


def test_a_cpu_has_none():
    x = torch.zeros(2 * kernels.MIN_TOKENS, 4)
    assert kernels.softmax_kernels(x) is None and kernels.elementwise_kernels(x) is None
