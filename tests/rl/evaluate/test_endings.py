"""How `rl.evaluate` ends after a lack of memory, a bug or Ctrl-C, and whether it closes the policy."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
import torch

from rl import cli
from rl.evaluate import __main__ as evaluate

WORDS = ["--env", "math/Arithmetic-v0", "--policy", "tiny", "--episodes", "2"]


def command(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[object, str, str]:
    """Run `rl.evaluate` and return the exit status, standard output and standard error."""
    with pytest.raises(SystemExit) as stop:
        cli.run(lambda: evaluate.main([*WORDS, *more]))
    return stop.value.code or 0, *capsys.readouterr()


def test_memory_that_runs_out_is_one_line_of_advice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nmore words")

    monkeypatch.setattr("rl.policy.hf.HFPolicy._sample_tokens", full)
    status, out, err = command(capsys, "--max-tokens", "64")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "out of memory while sampling, 256 sequences of 64 tokens at most; lower --max-tokens" in err


async def interrupt(*args: object) -> None:
    """Send Ctrl-C to this process while it plays."""
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(60)


def fault(*args: object) -> None:
    raise ValueError("an error")


@pytest.mark.parametrize(
    "place, how, code",
    [
        ("rl.evaluate.__main__.print_report", lambda report: None, 0),
        ("rl.evaluate.target.EvaluationTarget.tickets", fault, 2),
        ("rl.evaluate.__main__._play", fault, None),
        ("rl.evaluate.__main__._play", interrupt, 130),
    ],
    ids=["well", "by a mistake", "by a bug", "by Ctrl-C"],
)
def test_the_policy_is_closed_however_an_evaluation_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: str, how: object, code: int | None
) -> None:
    closed_policies: list[object] = []
    monkeypatch.setattr("rl.policy.hf.HFPolicy.close", lambda policy: closed_policies.append(policy))
    monkeypatch.setattr(place, how)
    if code is None:
        with pytest.raises(ValueError, match="an error"):
            evaluate.main(WORDS)
    else:
        assert command(capsys)[0] == code
    assert len(closed_policies) == 1
