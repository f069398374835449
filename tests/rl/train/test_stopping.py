"""A run that is told to stop, at whatever moment, ends cleanly and goes on bit for bit."""

from __future__ import annotations

import asyncio
import gc
import signal
import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from rl.cli import run, run_async
from sandboxes.source_files import load_source_file
from tests.support.runs import TASKS, Child, assert_same_run, flags, metrics, train, train_run, training_error

WORDS = flags("Talk", updates=5, lag=1, turn_tokens=12, cold_start=8, cold_start_until=1.0, save_every=3)
UPDATE, LOG = ("rl.train.loop:Loop", "_update"), ("rl.train.run_folder:RunFolder", "log")
MOMENTS = {
    "in the cold start": ("rl.learner.learner:Learner", "update", 2),
    "before training": ("rl.train.session:Session", "_make_loop", 1),
    "while groups are played": (*UPDATE, 2),
    "during an update": ("rl.train.scheduling.updater.batch", "build_rows", 2),
    "while it is logged": (*LOG, 4),
    "at the end": ("rl.train.session:Session", "_summarise", 1),
}


@cache
def _home() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path / "cache"))


def whole_run() -> Path:
    out = Path(_home().name) / "whole"
    return out if out.exists() else train_run(*WORDS, out=out)


def check_stop(out: Path, moment: tuple[str, str, int], *by: int) -> None:
    """Start a run that gets these signals at that moment; check its end, and that it goes on as if it had not."""
    result = Child(*WORDS, "--out", str(out), log=out.with_suffix(".log"), die=moment, by=by).wait()
    assert result.code == 128 + by[0], result.out
    assert "Traceback" not in result.out and "never awaited" not in result.out
    assert f"--resume --out {out}" in result.out
    again = train("--resume", "--out", str(out))
    assert again.code == 0, again.err
    assert_same_run(out, whole_run())


@pytest.mark.parametrize("moment", MOMENTS)
def test_sigterm_ends_a_run_cleanly_and_it_goes_on_bit_for_bit(moment: str, tmp_path: Path) -> None:
    check_stop(tmp_path / "run", MOMENTS[moment], signal.SIGTERM)


def test_sighup_does_so_too(tmp_path: Path) -> None:
    check_stop(tmp_path / "run", MOMENTS["while groups are played"], signal.SIGHUP)


def test_sigterm_between_checkpoints_leaves_one(tmp_path: Path) -> None:
    out = tmp_path / "run"
    child = Child(*WORDS, "--out", str(out), log=tmp_path / "log", die=(*UPDATE, 3), by=(signal.SIGTERM,))
    assert "stopped after update" in child.wait().out
    assert (out / "checkpoints" / "latest").resolve().name == f"update-{len(metrics(out)):06d}"
    assert len(metrics(out)) == 2


def test_a_second_signal_ends_the_run_at_once(tmp_path: Path) -> None:
    check_stop(tmp_path / "run", (*LOG, 5), signal.SIGTERM, signal.SIGTERM)


def test_checkpoints_are_also_written_by_time(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = flags("Low", updates=6, save_every=50)
    moment = ("rl.train.run_folder:RunFolder", "write_rollouts", 5)
    for minutes, update in (("0", 4), ("1000", 0)):
        out = tmp_path / minutes
        Child(*words, "--save-minutes", minutes, "--out", str(out), log=tmp_path / "log", die=moment).wait()
        assert (out / "checkpoints" / "latest").resolve().name == f"update-{update:06d}"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_command_that_waits_is_cancelled(number: int, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    ends = []

    async def wait() -> int:
        try:
            signal.raise_signal(number)
            await asyncio.sleep(60)
        finally:
            ends.append("cleaned up")
        return 0

    with pytest.raises(SystemExit) as exit:
        run(lambda: run_async(wait))
    assert (exit.value.code, ends) == (code, ["cleaned up"])
    assert "Traceback" not in capsys.readouterr().err


def test_ctrl_c_before_a_coroutine_begins_leaves_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        raise AssertionError("it was interrupted before")

    def interrupt(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio.Runner, "run", interrupt)
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        with pytest.raises(KeyboardInterrupt):
            run_async(work)
        gc.collect()  # of whatever other tests have left behind, too
    assert not [record for record in records if "never awaited" in str(record.message)]


def test_a_third_ctrl_c_leaves_no_tracebacks_of_what_was_still_running(caplog: pytest.LogCaptureFixture) -> None:
    async def wait(is_interrupted: bool) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            if is_interrupted:
                signal.raise_signal(signal.SIGINT)

    async def begin() -> None:
        tasks = [asyncio.ensure_future(wait(is_first)) for is_first in (True, False, False)]
        await asyncio.sleep(0.01)
        signal.raise_signal(signal.SIGINT)
        await asyncio.gather(*tasks)

    with pytest.raises(KeyboardInterrupt):
        run_async(begin)
    gc.collect()
    assert caplog.text == ""


def test_a_run_behind_its_cold_start_goes_on_without_an_oracle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = flags("Low", updates=1, cold_start=4, cold_start_until=0.0, eval_episodes=0)
    out = train_run(*words, out=tmp_path / "run")
    monkeypatch.delattr(load_source_file(str(TASKS)).Low, "oracle")
    assert "cold start: Low has no oracle policy" in training_error(*words, "--out", str(tmp_path / "new"))
    assert train("--resume", "--out", str(out), "--updates", "2").code == 0


def test_a_run_that_diverged_is_not_said_to_be_resumable(tmp_path: Path) -> None:
    sizes = {"updates": 2, "lr": 3e38, "schedule": "constant:warmup=0", "penalty": "entropy_bonus", "eval_episodes": 0}
    out = tmp_path / "run"
    line = training_error(*flags("Low", **sizes), "--out", str(out))
    assert line.endswith("the model's logits are not finite (training diverged; begin a new run with a lower --lr)")
    assert f"weights of {out}/checkpoints/" in training_error("--resume", "--out", str(out))
