"""Runs with `--trainers`: they train as one process does, go on after a death, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from tests.support.process_tree import children
from tests.support.runs import Child, flags, metrics, rollouts, train, train_run, training_error

SAME = "grad_norm", "loss", "entropy", "reward/mean", "tokens/trained", "kl/sampler_trainer"


def assert_alike(one: Path, other: Path, *, tolerance: float = 1e-4) -> None:
    """Check that two runs sampled the same tokens and have the same metrics but for rounding."""
    lines, others = metrics(one), metrics(other)
    assert len(lines) == len(others) > 0
    for line, second in zip(lines, others, strict=True):
        for name in SAME:
            if name in line:
                assert line[name] == pytest.approx(second[name], rel=tolerance, abs=1e-5), name
        pair = [rollouts(folder, line["update"]) for folder in (one, other)]
        ids = [[[turn["ids"] for turn in row["turns"]] for row in rows] for rows in pair]
        assert ids[0] == ids[1]


def weights(run: Path) -> dict[str, torch.Tensor]:
    """The weights of a run's last checkpoint."""
    return load_file(run / "checkpoints" / "latest" / "model" / "model.safetensors")


def ranks_of(pid: int) -> list[int]:
    """Process ids of the ranks that process `pid` has started."""
    return [child for child in children(pid) if b"trainers.line" in Path(f"/proc/{child}/cmdline").read_bytes()]


def when_gone(pids: list[int], timeout_s: float = 5.0) -> bool:
    """Whether all processes end within some seconds."""
    deadline = time.monotonic() + timeout_s
    while any(map(is_alive, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_two_trainers_train_as_one_and_the_checkpoint_goes_on_with_one(tmp_path: Path) -> None:
    words = flags("Talk", updates=2, algo="ppo", save_every=1)
    one = train_run(*words, out=tmp_path / "one")
    two = train_run(*words, "--trainers", "2", out=tmp_path / "two")
    assert_alike(one, two)
    for name, weight in weights(one).items():
        assert torch.allclose(weight, weights(two)[name], atol=2e-4), name  # the rate is 0.01
    AutoModelForCausalLM.from_pretrained(two / "checkpoints" / "latest" / "model")
    for run in (one, two):
        assert train("--resume", "--out", str(run), "--updates", "3", "--trainers", "1").code == 0
    assert_alike(one, two, tolerance=1e-3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--trainers", "3", "--trainer-shards", "2"), "--trainer-shards 2: must divide --trainers, which is 3"),
        (
            ("--trainers", "2", "--trainer-devices", "0"),
            "--trainer-devices 0: give one number for each of --trainers, which is 2",
        ),
        (("--trainer-devices", "0"), "--trainer-devices 0: the only trainer is on --device"),
        (("--trainers", "2", "--trainer-devices", "0;1"), "--trainer-devices 0;1: give one number for each"),
        (("--trainers", "2", "--trainer-devices", "0,1"), "--trainer-devices 0,1: the model is on the CPU"),
    ],
)
def test_what_does_not_fit_is_refused(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    assert training_error(*flags("Talk"), *words, "--out", tmp_path / "run").startswith(message)


def kill(rank: int) -> Callable[[list[int]], None]:
    return lambda pids: os.kill(pids[rank], signal.SIGKILL)


def stop(rank: int) -> Callable[[list[int]], None]:
    return lambda pids: os.kill(pids[rank], signal.SIGSTOP)


@pytest.mark.long
@pytest.mark.parametrize(
    ("harm", "word", "timeout_s"),
    [(kill(0), "SIGKILL", 60), (kill(1), "SIGKILL", 60), (stop(0), "", 10), (stop(1), "", 10)],
    ids=["first killed", "second killed", "first stopped", "second stopped"],
)
def test_a_run_goes_on_when_a_trainer_is_lost(
    harm: Callable[[list[int]], None], word: str, timeout_s: int, tmp_path: Path
) -> None:
    words = flags("Talk", updates=6, save_every=2, trainers=2)
    left_alone = train_run(*words, out=tmp_path / "alone")
    limit = {"rl.processes.timeout.DEFAULT_TIMEOUT_S": timeout_s}
    run = Child(*words, "--out", str(tmp_path / "harmed"), log=tmp_path / "log", constants=limit)
    assert run.wait_for("update 3/"), run.output()
    pids = ranks_of(run.process.pid or 0)
    assert len(pids) == 2
    harm(pids)
    start = time.monotonic()
    assert run.wait_for("starting again after update", timeout_s + 60)
    assert time.monotonic() - start < (2.5 if word else timeout_s + 5)
    assert run.wait().code == 0, run.output()
    assert word in run.output()
    assert_alike(left_alone, tmp_path / "harmed", tolerance=0)
    assert all(torch.equal(weight, weights(tmp_path / "harmed")[name]) for name, weight in weights(left_alone).items())
    assert when_gone(pids)


@pytest.mark.long
@pytest.mark.parametrize("counts", [(2, 2), (2, 4), (1, 2)])
def test_a_killed_run_is_resumed_bit_for_bit_by_as_many_trainers_and_else_to_rounding(
    counts: tuple[int, int], tmp_path: Path
) -> None:
    before, after = counts
    words = flags("Talk", updates=6, algo="ppo", save_every=1)
    left_alone = train_run(*words, "--trainers", str(after), out=tmp_path / "alone")
    own = {"rl.processes.shared_folder.SHARED_MEMORY": str(memory := tmp_path / "memory")}  # others may run beside
    memory.mkdir()
    out = ("--out", str(tmp_path / "run"))
    run = Child(*words, "--trainers", str(before), *out, log=tmp_path / "log", constants=own)
    assert run.wait_for("update 3/"), run.output()
    pids = ranks_of(run.process.pid or 0)
    run.signal(signal.SIGKILL)
    run.wait()
    assert len(pids) == (before if before > 1 else 0) and when_gone(pids)
    assert not [*memory.iterdir()]
    again = train("--resume", *out, "--trainers", str(after))
    assert again.code == 0, again.err
    assert_alike(left_alone, tmp_path / "run", tolerance=0 if before == after else 1e-3)
    if before == after:
        pairs = zip(weights(left_alone).values(), weights(tmp_path / "run").values(), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.long
def test_what_a_part_remembers_is_in_the_checkpoint(tmp_path: Path) -> None:
    words = flags("Talk", updates=4, save_every=1, algo="sfpo", passes="slow_fast:fast=2,window=2,threshold=0.01")
    one = train_run(*words, out=tmp_path / "one")
    train_run(*words, "--trainers", "2", "--updates", "2", out=tmp_path / "two")
    assert train("--resume", "--out", str(tmp_path / "two"), "--updates", "4").code == 0
    assert_alike(one, tmp_path / "two", tolerance=1e-3)


@pytest.mark.long
def test_adapters_and_a_reference_are_trained_by_several(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    words = flags("Talk", updates=2, lora=4, penalty="kl_k3:coef=0.1")
    one = train_run(*words, out=tmp_path / "one")
    two = train_run(*words, "--trainers", "2", out=tmp_path / "two")
    assert_alike(one, two)


def test_a_part_of_ones_own_that_raises_in_a_trainer_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from torch import distributed\nfrom rl.recipes import grpo\n\ndef mine(log_ratio, tokens):\n"
        "    if distributed.is_initialized():\n        {}['x']\n    return -tokens.adv * log_ratio.exp()\n\nrecipe = grpo.recipe.but(surrogate=mine)\n"
    )
    words = flags("Low", updates=2, eval_episodes=0, algo=file)
    message = training_error(*words, "--trainers", "2", "--out", tmp_path / "run")
    assert message.startswith(f"surrogate mine: raised KeyError: 'x' ({file}, line 6); the update was not made (")
