"""Checkpoints of large models are written while the run goes on, and hold what they would hold otherwise."""

from __future__ import annotations

import signal
import threading
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from rl.train import checkpoint, run_folder
from rl.train.run_folder import RunFolder
from rl.train.storage import checkpoint_writer
from rl.train.storage.checkpoint_writer import CheckpointWriter, copies_on_cpu, is_worth_copying
from tests.support.runs import Child, assert_same_run, flags, metrics, train, train_run, training_error

WORDS = flags("Talk", updates=6, save_every=2, lag=1, turn_tokens=12, eval_every=3)
LARGE = {"rl.train.storage.checkpoint_writer.ASYNC_BYTES": 1}


@cache
def _home() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def whole_run() -> Path:
    """The same run with its checkpoints written at once."""
    out = Path(_home().name) / "whole"
    return out if out.exists() else train_run(*WORDS, out=out)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_writer, "ASYNC_BYTES", 1)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("more", [(), ("--lora", "2")], ids=["all weights", "adapters"])
def test_updates_are_made_while_a_checkpoint_is_written(
    more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The writer waits inside the checkpoint of update 2 until update 4 is logged: its copy is that of update 2."""
    out, write, log, went_on = tmp_path / "run", run_folder.write_state, RunFolder.log, threading.Event()
    threads = []

    def slow_write(*arguments: Any) -> None:
        threads.append(threading.current_thread().name)
        assert len(threads) != 2 or went_on.wait(60)
        write(*arguments)

    def note(folder: RunFolder, values: dict[str, float]) -> None:
        log(folder, values)
        if values["update"] == 3:
            went_on.set()

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "write_state", slow_write)
        patch.setattr(RunFolder, "log", note)
        train_run(*WORDS, *more, out=out)
    assert len(threads) > 3 and all(name.startswith("checkpoint") for name in threads)
    whole = train_run(*WORDS, *more, out=tmp_path / "whole") if more else whole_run()
    assert_same_run(out, whole)
    assert (out / "checkpoints/best").readlink() == (whole / "checkpoints/best").readlink()
    for file in sorted(path.relative_to(whole) for path in (whole / "checkpoints").rglob("*.safetensors")):
        assert (out / file).read_bytes() == (whole / file).read_bytes(), file


@pytest.mark.parametrize(
    "moment",
    [("rl.train.run_folder", "write_state", 2), ("rl.train.run_folder", "sync", 19), ("pathlib:Path", "rename", 2)],
    ids=str,
)
def test_a_kill_in_the_middle_of_writing_loses_nothing(moment: tuple[str, str, int], tmp_path: Path) -> None:
    out = tmp_path / "run"
    child = Child(*WORDS, "--out", str(out), log=tmp_path / "log", die=moment, constants=LARGE)
    assert child.wait().code == -signal.SIGKILL
    again = train("--resume", "--out", str(out))
    assert again.code == 0, again.err
    assert_same_run(out, whole_run())


def test_ctrl_c_waits_until_the_checkpoint_is_complete(tmp_path: Path) -> None:
    """The signal comes from the writer's own thread, in the middle of its second checkpoint."""
    out = tmp_path / "run"
    moment = ("rl.train.run_folder", "write_state", 2)
    child = Child(*WORDS, "--out", str(out), log=tmp_path / "log", die=moment, by=(signal.SIGINT,), constants=LARGE)
    result = child.wait()
    assert result.code == 130 and "Traceback" not in result.out, result.out
    update = len(metrics(out))
    assert update >= 2 and f"stopped after update {update}; continue with --resume" in result.out
    assert (out / "checkpoints" / "latest").resolve().name == f"update-{update:06d}"
    assert not list((out / "checkpoints").glob(".*partial"))
    assert train("--resume", "--out", str(out)).code == 0
    assert_same_run(out, whole_run())


@pytest.mark.usefixtures("large")
def test_a_disk_that_is_full_meanwhile_ends_the_run_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write, calls = run_folder.write_state, []

    def full(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        write(*arguments)

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "write_state", full)
        message = training_error(*WORDS, "--out", out)
    assert message.startswith(f"{out}/checkpoints/update-000002: no space left on device; make room and continue with")
    assert train("--resume", "--out", str(out)).code == 0
    assert_same_run(out, whole_run())


def test_a_copy_is_made_of_what_is_large_where_there_is_memory_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_writer, "ASYNC_BYTES", 800)
    weight = torch.ones(10, 10)
    monkeypatch.setattr(checkpoint_writer, "available_bytes", lambda: 2000.0)
    assert is_worth_copying({"a": weight, "b": weight}) and not is_worth_copying({"a": weight})
    monkeypatch.setattr(checkpoint_writer, "available_bytes", lambda: 1500.0)
    assert not is_worth_copying({"a": weight, "b": weight})
    monkeypatch.undo()
    assert 2**20 < checkpoint_writer.available_bytes() < 2**60
    copies = copies_on_cpu({"a": weight, "tied": weight, "part": weight[1]})
    assert copies["a"] is copies["tied"] and copies["a"].data_ptr() != weight.data_ptr()
    weight.zero_()
    assert copies["a"].sum() == 100 and copies["part"].sum() == 10


def test_an_exception_of_the_writer_is_raised_once() -> None:
    writer = CheckpointWriter()

    def fail() -> None:
        raise ValueError("no")

    writer.submit(fail)
    with pytest.raises(ValueError, match="no"):
        writer.wait()
    writer.wait()
    writer.submit(fail)
    writer.close()
    with pytest.raises(ValueError, match="no"):
        writer.check()


def test_the_state_is_read_into_the_memory_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "device" not in checkpoint.RunFolder.load_state.__annotations__
    run = RunFolder(whole_run())
    state = run.load_state()
    assert state is not None and all(
        value.device.type == "cpu" for one in state["learner"]["optimizer"]["state"].values() for value in one.values()
    )
