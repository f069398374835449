"""Complete training runs of a very small model, in this process or in a child process that can be killed."""

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
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file

from rl.cli import run
from rl.policy import tiny
from rl.policy.pretrained import save_pretrained
from rl.rollout.jsonl import read_file
from rl.train.__main__ import main
from rl.train.storage.state_file import read_state

TASKS = Path(__file__).with_name("tasks.py")
PRELOAD = ["tests.support.runs", "rl.train.session", "torch.utils.tensorboard"]  # what child processes are forked with
SMALL = ("--threads", "1", "--groups", "2", "--size", "4", "--turn-tokens", "6", "--eval-episodes", "4", "--lr", "0.01")


class Result(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


@cache
def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@cache
def small_model() -> str:
    """Return the folder of a one-layer model that ends a reply with a probability of about 0.1 at each token."""
    folder = Path(_temporary_folder().name) / "model"
    model, tokenizer = tiny.create(1, hidden=32, layers=1, heads=1, intermediate=32)
    with torch.no_grad():
        embedding = model.get_input_embeddings().weight
        embedding[:, 0] = 1.0
        embedding[tokenizer.eos_token_id, 0] = 1.6
    save_pretrained(model, tokenizer, folder)
    return str(folder)


def flags(env: str = "Low", *more: object, **settings: object) -> list[str]:
    """Return the command line of a small run; `lag=2` becomes `--lag 2`."""
    options = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    source = env if "/" in env else f"{TASKS}:{env}"
    return ["--env", source, "--model", small_model(), *SMALL, *map(str, more), *options]


def train(*words: str) -> Result:
    """Run `python -m rl.train` with these arguments in this process."""
    out, err, threads = io.StringIO(), io.StringIO(), torch.get_num_threads()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            run(lambda: main(words))
        except SystemExit as exit:
            return Result(int(exit.code or 0), out.getvalue(), err.getvalue())
        finally:
            torch.set_num_threads(threads)


def training_error(*words: object) -> str:
    """Run a command that must fail with a one-line error; return the message without the program's name."""
    result = train(*map(str, words))
    assert (result.code, result.err.count("\n")) == (2, 1), result
    assert "Traceback" not in result.out + result.err
    return result.err.rstrip("\n").partition(": error: ")[2]


def train_run(*words: str, out: Path) -> Path:
    """Run a command that must succeed; return the run's folder."""
    result = train(*words, "--out", str(out))
    assert result.code == 0, result.err
    return out


class Child:
    """`python -m rl.train` in a child process, which starts fast because it is forked after all imports.

    `die=("rl.train.run_folder", "sync", 3)` kills it with SIGKILL instead of the third call of that function; `by` are
    other signals, which it sends itself before that call. `constants` are values that it replaces, by place.
    """

    def __init__(
        self,
        *words: str,
        log: Path,
        die: tuple[str, str, int] | None = None,
        by: tuple[int, ...] = (signal.SIGKILL,),
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        self.log = log
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOAD)
        self.process: ForkServerProcess = context.Process(
            target=_child, args=(words, str(log), die, by, constants or {})
        )
        self.process.start()

    def wait_for(self, text: str, timeout_s: float = 60.0) -> bool:
        """Wait until its output contains `text`; return False if it ended without that."""
        deadline = time.monotonic() + timeout_s
        while not (is_printed := text in self.output()) and self.process.is_alive():
            assert time.monotonic() < deadline, f"never printed {text!r}: {self.output()}"
            time.sleep(0.002)
        return is_printed or text in self.output()

    def output(self) -> str:
        """Return its output so far, standard error included."""
        return self.log.read_text() if self.log.exists() else ""

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.process.is_alive() and self.process.pid:
            os.kill(self.process.pid, number)

    def wait(self) -> Result:
        """Wait until it ends."""
        self.process.join(60)
        assert self.process.exitcode is not None, f"still running: {self.output()}"
        return Result(self.process.exitcode, self.output(), "")


def _child(
    words: tuple[str, ...],
    log: str,
    die: tuple[str, str, int] | None,
    by: tuple[int, ...],
    constants: Mapping[str, Any],
) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    for place, value in constants.items():
        owner, _, name = place.rpartition(".")
        setattr(pkgutil.resolve_name(owner), name, value)
    if die:
        _kill_at_call(*die, by)
    run(lambda: main(words))


def _kill_at_call(place: str, name: str, call: int, by: tuple[int, ...]) -> None:
    """Replace a function by one that sends the process signals before the call with this number."""
    owner, calls = pkgutil.resolve_name(place), itertools.count(1)
    original = getattr(owner, name)

    def patch(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == call:
            for number in by:
                os.kill(os.getpid(), number)
        return original(*args, **kwargs)

    setattr(owner, name, patch)


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Return `metrics.jsonl` without timings."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in lines]


def rollouts(folder: Path, update: int) -> list[dict[str, Any]]:
    """Return the trajectories of one update without timings."""
    path = folder / "rollouts" / f"update-{update:06d}.jsonl"
    content, fault = read_file(path if path.exists() else path.with_name(f"{path.name}.gz"))
    assert not fault
    lines = [json.loads(line) for line in content.decode().splitlines()]
    for line in lines:
        for turn in line["turns"]:
            del turn["sample_s"], turn["env_s"]
    return lines


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Return the weights in the latest checkpoint: the model's, or the adapters' with `--lora`, or those of all roles."""
    model = folder / "checkpoints" / "latest" / "model"
    files = {str(file.relative_to(model).parent): file for file in model.rglob("*.safetensors")}
    start = {role: "" if role == "." else f"{role}/" for role in files}
    return {start[role] + name: value for role, file in files.items() for name, value in load_file(file).items()}


def assert_same_run(one: Path, other: Path) -> None:
    """Check that metrics, rollouts, weights and the trainer's state are equal bit for bit."""
    assert metrics(one) == metrics(other)
    for update in range(1, 1 + len(metrics(one))):
        assert rollouts(one, update) == rollouts(other, update)
    mine, theirs = weights(one), weights(other)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    states = [read_state(run / "checkpoints/latest/trainer") for run in (one, other)]
    _assert_same(states[0]["learner"], states[1]["learner"], "learner")


def _assert_same(one: Any, other: Any, where: str) -> None:
    """Compare nested state dicts; `where` names the place in them."""
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
