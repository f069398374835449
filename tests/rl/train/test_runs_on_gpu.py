"""Runs, evaluations and checkpoints on a GPU."""

import pytest
import torch

from rl.evaluate import __main__ as evaluate
from tests.support.gpu import GPU, needs_gpu
from tests.support.runs import flags, metrics, train, train_run, weights

pytestmark = needs_gpu


@pytest.mark.parametrize(
    "more", [(), ("--dtype", "bfloat16"), ("--lora", "4"), ("--lag", "2", "--overlap")], ids=" ".join
)
def test_a_run_ends_with_a_model_that_can_be_evaluated_anywhere(tmp_path, more):
    out = train_run(*flags("Talk", *more, updates=3, device=GPU), out=tmp_path / "run")
    lines = metrics(out)
    assert len(lines) == 3 and all(line["tokens/trained"] > 0 and not line["episodes/errored"] for line in lines)
    assert all(torch.isfinite(weight).all() for weight in weights(out).values())
    for device in (GPU, "cpu"):
        words = [
            "--env",
            "games/GuessNumber-v0",
            "--env-arg",
            "style=short",
            "--policy",
            str(out),
            "--episodes",
            "2",
            "--device",
            device,
        ]
        assert evaluate.main([*words, "--max-tokens", "256"]) == 0


def test_a_stopped_run_goes_on_from_its_checkpoint(tmp_path):
    words = flags("Talk", "--save-every", "1", updates=2, device=GPU)
    out = train_run(*words, out=tmp_path / "run")
    result = train("--resume", "--out", str(out), "--updates", "4")
    assert result.code == 0, result.err
    assert [line["update"] for line in metrics(out)] == [1, 2, 3, 4]


@pytest.mark.parametrize("free", [None, 1000])
def test_the_memory_of_a_run_is_said_beforehand_and_a_warning_where_it_is_not_there(monkeypatch, free):
    if free is not None:
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (free, 2**36))
    result = train(*flags("Talk", "--dry-run", updates=1, device=GPU, max_tokens=128))
    assert result.code == 0 and "memory, about" in result.out, result
    assert ("warning: about" in result.out) is (free is not None)
