"""Attention by spans of packed tokens: the layout on any machine, and FlashAttention's kernel on a GPU."""

import numpy as np
import pytest
import torch

from rl.learner.attention import attend
from rl.learner.packing import MIN_OPENING, Packing
from rl.methods.inputs import Row
from rl.policy.gpu.varlen import attend_spans, is_served
from tests.support.gpu import GPU, on_gpu
from tests.support.play import VOCAB

HEADS, KEY_HEADS, SIZE = 4, 2, 32
WINDOWS = [None, 1, 3, 40]
KINDS = ["ragged", "one row", "an opening"]


def row(rng, prefix, size):
    ones = np.ones(size, np.float32)
    ids, turn = rng.integers(VOCAB, size=size), np.zeros(size, np.int64)
    return Row(tuple(prefix), ids, ones > 0, ones, ones, turn, {}, trajectory=0, group=0)


def packing(kind, device="cpu"):
    """Rows of several lengths behind shared prefixes, a single row, or prefixes that begin with the same tokens."""
    rng = np.random.default_rng(0)
    prefixes = [rng.integers(VOCAB, size=size).tolist() for size in (7, 1, 30)]
    opening = rng.integers(VOCAB, size=MIN_OPENING + 3).tolist()
    rows = {
        "ragged": [(prefixes[i], size) for i, size in ((0, 5), (0, 1), (1, 12), (2, 33), (2, 2), (2, 9))],
        "one row": [(prefixes[0], 6)],
        "an opening": [([*opening, *prefixes[i % 3]], 3 + i) for i in range(6)],
    }
    return Packing([row(rng, *one) for one in rows[kind]], torch.device(device))


def tensors(packed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    device = packed.ids.device
    return [
        torch.randn(len(packed.ids), heads, SIZE, generator=generator).to(device, dtype).requires_grad_()
        for heads in (HEADS, KEY_HEADS, KEY_HEADS)
    ]


def attention_in_a_loop(q, k, v, q_starts, k_starts, q_most, k_most, *, scale, window_size):
    """What torch documents of `varlen_attn`, one sequence after the other; the last query attends to the last key."""
    outputs, (left, right) = [], window_size
    for begin, end, first, last in zip(q_starts[:-1], q_starts[1:], k_starts[:-1], k_starts[1:], strict=True):
        assert end - begin <= q_most and last - first <= k_most
        keys, values = (x[first:last].repeat_interleave(HEADS // KEY_HEADS, 1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q[begin:end], keys) * (SIZE**-0.5 if scale is None else scale)
        distance = torch.arange(last - first) - torch.arange(end - begin)[:, None] - (last - first) + (end - begin)
        visible = (distance <= right) & ((distance >= -left) if left >= 0 else True)
        outputs.append(torch.einsum("hqk,khd->qhd", scores.masked_fill(~visible, -torch.inf).softmax(-1), values))
    return torch.cat(outputs)


def gradients(outputs, inputs):
    weights = torch.linspace(-1, 1, outputs.numel(), device=outputs.device).view_as(outputs)
    return torch.autograd.grad((outputs.float() * weights).sum(), inputs)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_spans_hold_what_the_masks_let_through(kind, window):
    packed = packing(kind)
    inputs = tensors(packed)
    for scale in (None, 0.3):
        expected = attend(packed, *inputs, scale=scale, window=window)
        outputs = attend_spans(packed.spans, *inputs, scale=scale, window=window, attention=attention_in_a_loop)
        torch.testing.assert_close(outputs, expected, atol=1e-5, rtol=1e-4)
        for mine, other in zip(gradients(outputs, inputs), gradients(expected, inputs), strict=True):
            torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)


def test_a_cpu_has_no_such_kernel():
    q, _, v = tensors(packing("one row"), torch.bfloat16)
    assert not is_served(q, v)


@on_gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_rounds_what_the_masks_give_in_double_precision(kind, window, dtype):
    packed = packing(kind, GPU)
    inputs = tensors(packed, dtype)
    assert is_served(inputs[0], inputs[2])
    outputs = attend(packed, *inputs, window=window)
    assert outputs.dtype == dtype
    exact = [x.detach().double().requires_grad_() for x in inputs]
    assert not is_served(exact[0], exact[2])
    expected = attend(packed, *exact, window=window)
    pairs = [(outputs, expected), *zip(gradients(outputs, inputs), gradients(expected, exact), strict=True)]
    for mine, other in pairs:
        assert float((mine.detach().double() - other).norm()) <= 0.01 * float(other.norm()) + 1e-4
