"""Weights and moments that were read from files lie where torch would have put them."""

import torch
from torch import nn

from rl.train.storage.alignment import ALIGNMENT, align, aligned


def shifted(count):
    """A tensor whose memory begins 8 bytes behind a multiple of `ALIGNMENT`, as in a mapped file."""
    return torch.arange(count + 2, dtype=torch.float32)[2:]


def test_a_tensor_is_copied_only_where_its_memory_begins_elsewhere():
    own = torch.zeros(5)
    assert aligned(own) is own
    moved = aligned(shifted(5))
    assert moved.data_ptr() % ALIGNMENT == 0 and moved.tolist() == [2.0, 3.0, 4.0, 5.0, 6.0]


def test_parameters_and_buffers_are_moved_and_stay_tied():
    one, other = nn.Linear(2, 3), nn.Linear(2, 3)
    other.weight = one.weight
    one.weight.data = shifted(6).view(3, 2)
    one.register_buffer("seen", shifted(4))
    module = nn.ModuleList([one, other])
    align(module)
    assert one.weight is other.weight and one.weight.flatten().tolist() == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert all(tensor.data_ptr() % ALIGNMENT == 0 for tensor in (*module.parameters(), *module.buffers()))
