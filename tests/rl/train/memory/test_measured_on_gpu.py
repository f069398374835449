"""The estimate against the most memory that updates took on a real GPU (`benchmarks.gpu`)."""

import json

import pytest
import torch

from benchmarks.gpu.shapes import SHAPES, WHOLE, model
from benchmarks.support.record import RESULTS
from rl.train.memory.estimate import estimate
from rl.train.memory.workload import Workload

MEASURED = {
    name: piece["peak_bytes"]
    for name, piece in json.loads((RESULTS / "gpu.json").read_text())["pieces"].items()
    if "peak_bytes" in piece
}
CONTEXT = WHOLE.prompt_tokens + WHOLE.reply_tokens


@pytest.mark.parametrize("piece", MEASURED)
def test_the_estimate_is_hardly_below_and_within_15_percent_above(piece):
    name = piece.removeprefix("train-")
    rank = SHAPES[name].rank
    net = model(name, torch.device("meta"), torch.bfloat16)
    how = {"itemsize": 2, "recompute": bool(rank), "rank": rank, "on_gpu": True}
    work = Workload(16 * CONTEXT, CONTEXT, WHOLE.prompt_tokens, WHOLE.group, **how)
    assert 0.99 <= estimate(net, work).total / MEASURED[piece] <= 1.15


def test_both_models_were_measured():
    assert {"train-1.5b", "train-7b-lora"} <= MEASURED.keys()
