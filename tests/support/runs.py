"""Whole training runs of a model so small that one takes a second: here, or in a process that may be killed."""

from __future__ import annotations

import io
import itertools
import json
import multiprocessing
import os
import pkgutil
import signal
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file

from rl.cli import run
from rl.policy import tiny
from rl.policy.load import save
from rl.train.__main__ import main

TASKS = Path(__file__).with_name("tasks.py")
SMALL = ("--threads", "1", "--groups", "2", "--size", "4", "--turn-tokens", "6", "--eval-episodes", "4", "--lr", "0.01")


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@cache
def _home() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@cache
def small_model() -> str:
    """The folder of a model of one layer that ends about every tenth reply at each token."""
    folder = Path(_home().name) / "model"
    model, tokenizer = tiny.create(1, hidden=32, layers=1, heads=1, intermediate=32)
    with torch.no_grad():
        embedding = model.get_input_embeddings().weight
        embedding[:, 0] = 1.0
        embedding[tokenizer.eos_token_id, 0] = 1.6
    save(model, tokenizer, folder)
    return str(folder)


def flags(env: str = "Low", *more: object, **given: object) -> list[str]:
    """The words of a small run; `lag=2` for `--lag 2`."""
    options = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    source = env if "/" in env else f"{TASKS}:{env}"
    return ["--env", source, "--model", small_model(), *SMALL, *map(str, more), *options]


def train(*words: str) -> Ended:
    """`python -m rl.train` with these words, in this process."""
    out, err, threads = io.StringIO(), io.StringIO(), torch.get_num_threads()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            run(lambda: main(words))
        except SystemExit as left:
            return Ended(int(left.code or 0), out.getvalue(), err.getvalue())
        finally:
            torch.set_num_threads(threads)


def refused(*words: str) -> str:
    """What a command says that is refused, in one line."""
    ended = train(*words)
    assert (ended.code, ended.err.count("\n")) == (2, 1), ended
    assert "Traceback" not in ended.out + ended.err
    return ended.err.rstrip("\n").partition(": error: ")[2]


def trained(*words: str, out: Path) -> Path:
    """The folder of a run that went well."""
    ended = train(*words, "--out", str(out))
    assert ended.code == 0, ended.err
    return out


class Child:
    """The same in a process of its own, quick to start because it forks from one that has imported everything.

    `die=("rl.train.run_folder", "_sync", 3)` kills it in place of the third call of that function.
    """

    def __init__(self, *words: str, log: Path, die: tuple[str, str, int] | None = None) -> None:
        self.log = log
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.support.runs", "rl.train.session", "torch.utils.tensorboard"])
        self.process: ForkServerProcess = context.Process(target=_child, args=(words, str(log), die))
        self.process.start()

    def wait_for(self, text: str, timeout_s: float = 60.0) -> bool:
        """Wait until it has said `text`; False if it ended without."""
        ends = time.monotonic() + timeout_s
        while not (said := text in self.said()) and self.process.is_alive():
            assert time.monotonic() < ends, f"never said {text!r}: {self.said()}"
            time.sleep(0.002)
        return said or text in self.said()

    def said(self) -> str:
        """Its output so far."""
        return self.log.read_text() if self.log.exists() else ""

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has gone."""
        if self.process.is_alive() and self.process.pid:
            os.kill(self.process.pid, number)

    def ended(self) -> Ended:
        """Wait for its end."""
        self.process.join(60)
        assert self.process.exitcode is not None, f"still running: {self.said()}"
        return Ended(self.process.exitcode, self.said(), "")


def _child(words: tuple[str, ...], log: str, die: tuple[str, str, int] | None) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    if die:
        _deadly(*die)
    run(lambda: main(words))


def _deadly(place: str, name: str, call: int) -> None:
    owner, calls = pkgutil.resolve_name(place), itertools.count(1)
    original = getattr(owner, name)

    def deadly(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(owner, name, deadly)


def metrics(folder: Path) -> list[dict[str, Any]]:
    """`metrics.jsonl` without its clocks."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in lines]


def rollouts(folder: Path, update: int) -> list[dict[str, Any]]:
    """The trajectories of one update, without their clocks."""
    text = (folder / "rollouts" / f"update-{update:06d}.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        for turn in line["turns"]:
            del turn["sample_s"], turn["env_s"]
    return lines


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of the latest checkpoint, those of adapters where these are trained."""
    (file,) = (folder / "checkpoints" / "latest" / "model").glob("*.safetensors")
    return load_file(file)


def assert_same_run(one: Path, other: Path) -> None:
    """Bit for bit: metrics, rollouts, weights and the trainer's state."""
    assert metrics(one) == metrics(other)
    for update in range(1, 1 + len(metrics(one))):
        assert rollouts(one, update) == rollouts(other, update)
    mine, theirs = weights(one), weights(other)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    states = [torch.load(run / "checkpoints/latest/trainer/state.pt", weights_only=False) for run in (one, other)]
    _assert_same(states[0]["learner"], states[1]["learner"], "learner")


def _assert_same(one: Any, other: Any, where: str) -> None:
    """All tensors in it have the same bits: moments, float32 copies, a value head, a reference."""
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), where
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            _assert_same(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            _assert_same(mine, theirs, f"{where}/{number}")
    else:
        assert one == other, where
