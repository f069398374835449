"""What `--resume` refuses: with a one-line error, and without a change in the run's folder."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import shutil
import signal
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from rl.cli import UserError
from rl.train.run_folder import RunFolder
from tests.support.runs import Child, assert_same_run, flags, metrics, train, train_run, training_error

UPDATES = 3


@cache
def _home() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def whole_run() -> Path:
    """Return the folder of a complete run."""
    out = Path(_home().name) / "whole"
    return out if out.exists() else train_run(*flags("Low", updates=UPDATES), out=out)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A copy of the complete run."""
    shutil.copytree(whole_run(), tmp_path / "run", symlinks=True)
    return tmp_path / "run"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def test_only_the_length_of_a_resumed_run_may_change(out: Path) -> None:
    again = ("--resume", "--out", str(out))
    hint = "; leave it as it was, or begin a new run"
    assert training_error(*again, "--lr", "0.02") == f"--lr cannot change in a resumed run from 0.01 to 0.02{hint}"
    assert training_error(*again, "--size", "8") == f"--size cannot change in a resumed run from 4 to 8{hint}"
    assert training_error(*again, "--algo", "rloo").startswith(
        "--algo cannot change in a resumed run from 'grpo' to 'rloo'"
    )
    assert training_error(*again, "--ratio", "turn").startswith(
        "--ratio cannot change in a resumed run from 'token' to 'turn'"
    )
    assert training_error(*again, "--penalty", "kl_k2").startswith(
        "--penalty cannot change in a resumed run from [] to ['kl_k2']"
    )
    assert training_error(*again, "--env-arg", "max_turns=2").startswith(
        "--env-arg cannot change in a resumed run from [] to "
    )
    assert (
        training_error(*again, "--config", "other.toml")
        == "--resume reads the run's own config.toml; leave out --config"
    )
    assert train(*again, "--lr", "0.01", "--size", "4", "--ratio", "token").code == 0
    assert_same_run(out, whole_run())


def test_code_that_has_changed_since_is_named(tmp_path: Path) -> None:
    game, method, out = tmp_path / "game.py", tmp_path / "method.py", tmp_path / "run"
    game.write_text("from tests.support.tasks import Low\n\n\nclass Mine(Low):\n    pass\n")
    method.write_text(
        "from rl.methods.parts import surrogate\nfrom rl.recipes import grpo\n\n\n"
        "def own(log_ratio, tokens):\n    return surrogate.clip(log_ratio, tokens)\n\n\nrecipe = grpo.recipe\n"
    )
    words = flags(f"{game}:Mine", "--algo", method, "--surrogate", f"{method}:own", updates=1)
    train_run(*words, out=out)
    again = ("--resume", "--out", str(out), "--updates")
    assert "other content" not in train(*again, "2").out
    for file in (game, method):
        file.write_text(file.read_text() + "# changed\n")
    result = train(*again, "3")
    assert result.code == 0, result.err
    for file in (game, method):
        line = f"warning: {file} has other content than when the run was last saved, and the run goes on with what it"
        assert result.out.count(line) == 1
    assert "other content" not in train(*again, "4").out


def test_success_before_and_after_is_measured_on_the_same_tasks(out: Path) -> None:
    message = training_error("--resume", "--out", str(out), "--updates", "4", "--eval-episodes", "2")
    assert message.startswith("--eval-episodes cannot change in a resumed run from 4 to 2; ")


def test_a_run_cannot_end_before_the_updates_it_has_made(out: Path) -> None:
    before = contents(out)
    message = training_error("--resume", "--out", str(out), "--updates", "1")
    assert message == "--updates 1: the run has made 3 already; ask for as many or more"
    assert contents(out) == before


def test_the_file_that_cannot_be_read_is_named_and_no_flag_that_was_not_given(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = out / "checkpoints" / "latest" / "trainer" / "state.safetensors"
    (out / "checkpoints" / "latest" / "turnwise.sha256").unlink()
    os.truncate(tensors, 100)
    assert "its trainer/state.safetensors is damaged" in training_error("--resume", "--out", out)

    read_bytes = Path.read_bytes

    def refuse(self: Path) -> bytes:
        if self.name == "config.toml":
            raise PermissionError(errno.EACCES, "Permission denied")
        return read_bytes(self)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert training_error("--resume", "--out", out) == f"{out / 'config.toml'}: permission denied"


def test_a_configuration_edited_between_times_is_refused(out: Path) -> None:
    config = out / "config.toml"
    text = config.read_text()
    config.write_text(text.replace("updates = 3", "updates = 4"))
    copy = out / "checkpoints" / "update-000003" / "trainer" / "config.toml"
    assert training_error("--resume", "--out", str(out)) == (
        f"{config}: it was changed after the run had written it (wrong SHA-256); settings are changed by flags; "
        f"{copy} is a copy of what it was"
    )
    config.write_text("")
    assert training_error("--resume", "--out", str(out)) == (
        f"{config}: names no env, so it is empty or was cut off; {copy} is a copy of what it was"
    )
    body, mark, _ = text.rpartition("# sha256")  # a file of an older version has no digest
    assert mark
    config.write_text(body.replace("lr = 0.01", "lr = 0.5"))
    assert training_error("--resume", "--out", str(out)).startswith(
        "--lr cannot change in a resumed run from 0.01 to 0.5; "
    )
    shutil.copy(copy, config)
    assert train("--resume", "--out", str(out)).code == 0


def test_there_must_be_a_run_to_resume(tmp_path: Path) -> None:
    out = tmp_path / "nothing"
    message = f"--resume: no run in {out} (it has no config.toml); leave out --resume to begin one"
    assert training_error("--resume", "--out", str(out)) == message
    assert training_error("--resume") == "--resume needs --out DIR, the folder of the run to continue"
    assert not out.exists()


@pytest.mark.parametrize("start", ["new", "resumed"])
def test_a_run_is_trained_by_one_process_at_a_time(start: str, out: Path, tmp_path: Path) -> None:
    if start == "new":
        shutil.rmtree(out)
        words: list[str] = flags("Low", updates=100_000)
    else:
        words = ["--resume", "--updates", "100000"]
    child = Child(*words, "--out", str(out), log=tmp_path / "log")
    assert child.wait_for("before training" if start == "new" else "resuming after")
    try:
        message = training_error("--resume", "--out", str(out))
        assert message.startswith(f"--out {out}: process {child.process.pid} on ")
        assert message.endswith(" is training this run; wait for its end, or stop it")
        assert train("--resume", "--out", str(out), "--updates", "100000", "--dry-run").code == 0  # it writes nothing
    finally:
        child.signal(signal.SIGKILL)
    assert child.wait().code == -signal.SIGKILL
    num_updates = RunFolder(out).num_updates()
    assert train("--resume", "--out", str(out), "--updates", str(num_updates + 1)).code == 0
    assert len(metrics(out)) == num_updates + 1


def _orphan(run: str, pipe: Connection) -> None:
    """Lock a run and fork a child that waits for a message to end."""
    RunFolder(Path(run)).lock()
    if os.fork() == 0:
        pipe.send("begun")
        pipe.recv()
        os._exit(0)
    signal.pause()


def test_a_child_that_outlives_a_killed_run_does_not_keep_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    here, there = context.Pipe()
    holder = context.Process(target=_orphan, args=(str(tmp_path), there))
    holder.start()
    assert here.poll(60) and here.recv() == "begun"
    with pytest.raises(UserError, match=f"process {holder.pid} on "):
        RunFolder(tmp_path).lock()
    holder.kill()
    holder.join(60)
    RunFolder(tmp_path).lock()
    here.send("end")


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_locks_is_no_hindrance(code: int, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*args: Any) -> None:
        raise OSError(code, "no locks")

    monkeypatch.setattr(fcntl, "lockf", none)
    assert train("--resume", "--out", str(out)).code == 0


@pytest.mark.parametrize("kind", [BlockingIOError, PermissionError])
def test_a_holder_that_left_no_name_is_another_process(
    kind: type[OSError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise kind

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.raises(UserError, match=r"^--out .*: another process is training this run; wait for its end"):
        RunFolder(tmp_path).lock()


def test_a_config_that_was_cut_off_is_no_fault_of_a_flag(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('env = "math/Ar')
    error = training_error("--resume", "--out", str(tmp_path))
    assert error.startswith(f"{tmp_path}/config.toml: is damaged or was cut off (")
    assert error.endswith("); begin a new run in another folder") and "--config" not in error
