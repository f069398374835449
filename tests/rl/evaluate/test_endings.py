"""How `rl.evaluate` ends where memory runs out, a bug shows or somebody presses Ctrl-C, and what it then gives back."""

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
    """The exit status, standard output, standard error."""
    with pytest.raises(SystemExit) as left:
        cli.run(lambda: evaluate.main([*WORDS, *more]))
    return left.value.code or 0, *capsys.readouterr()


def test_memory_that_runs_out_is_one_line_of_advice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nmore words")

    monkeypatch.setattr("rl.policy.hf.HFPolicy._draw", full)
    status, out, err = command(capsys, "--max-tokens", "64")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "out of memory while sampling, 256 sequences of 64 tokens at most; lower --max-tokens" in err


async def interrupted(*given: object) -> None:
    """Ctrl-C in the midst of playing."""
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(60)


def fault(*given: object) -> None:
    raise ValueError("an error")


@pytest.mark.parametrize(
    "place, how, code",
    [
        ("rl.evaluate.__main__.show", lambda report: None, 0),
        ("rl.evaluate.target.Subject.tickets", fault, 2),
        ("rl.evaluate.__main__._played", fault, None),
        ("rl.evaluate.__main__._played", interrupted, 130),
    ],
    ids=["well", "by a mistake", "by a bug", "by Ctrl-C"],
)
def test_the_policy_is_closed_however_an_evaluation_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: str, how: object, code: int | None
) -> None:
    closed: list[object] = []
    monkeypatch.setattr("rl.policy.hf.HFPolicy.close", lambda policy: closed.append(policy))
    monkeypatch.setattr(place, how)
    if code is None:
        with pytest.raises(ValueError, match="an error"):
            evaluate.main(WORDS)
    else:
        assert command(capsys)[0] == code
    assert len(closed) == 1
