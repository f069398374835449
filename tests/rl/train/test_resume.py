"""A run that was killed, interrupted or damaged resumes and ends the same as one that was left alone, bit for bit."""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from rl.train.run_folder import RunFolder
from tests.support.runs import Child, Result, assert_same_run, flags, metrics, train, train_run, training_error, weights

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "one turn": ("Low", {}),
    "several turns": ("Talk", {}),
    "one turn, lagging": ("Low", {"lag": 2, "turn_tokens": 12}),
    "several turns, lagging": ("Talk", {"lag": 2, "turn_tokens": 12, "groups": 3}),
    "a critic": ("Talk", {"algo": "ppo"}),
    "a critic, lagging": ("Talk", {"algo": "ppo", "lag": 2, "turn_tokens": 12}),
    "a reference": ("Low", {"penalty": "kl_k2:coef=0.01"}),
    "a reference, lagging": ("Talk", {"penalty": "kl_k2:coef=0.01", "lag": 1}),
    "refilled groups, lagging": ("Talk", {"algo": "dapo", "lag": 3, "size": 2, "turn_tokens": 12}),
    "forks at uncertain replies, lagging": ("Talk", {"algo": "arpo", "lag": 2, "turn_tokens": 12}),
    "forks at every turn, lagging": ("Talk", {"algo": "portool", "lag": 2, "turn_tokens": 12, "groups": 3}),
    "forks of whole trees, lagging": ("Talk", {"algo": "tree_grpo", "lag": 3, "size": 6, "turn_tokens": 12}),
    "forks along a chain, lagging": ("Talk", {"algo": "tree_opo", "lag": 2, "turn_tokens": 12}),
    "forks where returns are high, lagging": ("Talk", {"algo": "mcts", "lag": 2, "turn_tokens": 12}),
    "spares in case, lagging": ("Talk", {"strategy": "redundant:spares=2,mode=ahead", "lag": 2, "turn_tokens": 12}),
    "seats in turn, lagging": (
        "multi/PlanPath-v0",
        {"lag": 2, "turn_tokens": 12, "env_arg": "style=short", "max_tokens": 200},
    ),
    "trees of turns, lagging": (
        "multi/PlanPath-v0",
        {"algo": "at_grpo", "lag": 1, "turn_tokens": 12, "env_arg": "style=short", "max_tokens": 200, "size": 2},
    ),
    "calls of sub-agents, lagging": (
        "Talk",
        {"algo": "m_grpo", "agent": "team:rounds=2", "lag": 1, "turn_tokens": 12, "groups": 1, "size": 2},
    ),
    "roles in phases": ("Talk", {"algo": "seeupo_agents", "agent": "team:rounds=1", "groups": 1, "size": 2}),
    "seats together, lagging": ("multi/IteratedDilemma-v0", {"lag": 1, "turn_tokens": 12, "env_arg": "style=short"}),
    "several steps": ("Talk", {"epochs": 2, "minibatches": 2, "sampler": "skip_solved:solved=0.5"}),
}
UPDATES = 6
HALFWAY = ("rl.train.run_folder:RunFolder", "write_rollouts", 5)  # two updates after the last checkpoint before it


@cache
def _home() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def whole_run(name: str = "one turn", updates: int = UPDATES) -> Path:
    """Return the folder of the same run without an interruption."""
    env, settings = RUNS[name]
    out = Path(_home().name) / f"{name} {updates}"
    return out if out.exists() else train_run(*flags(env, updates=updates, **settings), out=out)


def kill_run(out: Path, die: tuple[str, str, int], name: str = "one turn", save_every: int = 2) -> None:
    """Start that run in `out` and kill it."""
    env, settings = RUNS[name]
    words = flags(env, updates=UPDATES, save_every=save_every, **settings)
    result = Child(*words, "--out", str(out), log=out.with_suffix(".log"), die=die).wait()
    assert result.code == -signal.SIGKILL, result.out


def resume(out: Path, *more: str) -> Result:
    result = train("--resume", "--out", str(out), *more)
    assert result.code == 0, result.err
    return result


@pytest.mark.parametrize("name", RUNS)
def test_a_killed_run_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill_run(out, HALFWAY, name)
    assert len(metrics(out)) == 4
    assert "resuming after update 4" in resume(out).out
    assert_same_run(out, whole_run(name))


MOMENTS = [
    ("rl.train.model", "save_pretrained", 1),  # nothing is there yet
    ("rl.train.run_folder:RunFolder", "write_rollouts", 1),
    ("rl.learner.learner:Learner", "update", 4),
    ("rl.train.run_folder:RunFolder", "log", 4),
    ("rl.train.model", "save_pretrained", 2),  # a checkpoint is written: before its model,
    ("rl.train.run_folder", "write_state", 2),  # before the trainer's state,
    ("rl.train.run_folder", "sync", 19),  # while it is flushed,
    ("pathlib:Path", "rename", 2),  # before it gets its name,
    ("pathlib:Path", "symlink_to", 2),  # before `latest` is made
    ("pathlib:Path", "rename", 4),  # the oldest one is about to go,
    ("shutil", "rmtree", 1),  # and has not gone
    ("rl.train.run_folder:RunFolder", "write_summary", 1),
]


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: "{}.{} {}".format(*moment))
def test_there_is_no_wrong_moment_to_be_killed(moment: tuple[str, str, int], tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill_run(out, moment)
    resume(out)
    assert_same_run(out, whole_run())
    remaining = {path.name for path in (out / "checkpoints").iterdir()}
    assert remaining == {"latest", "update-000004", "update-000006"} or remaining == {
        "latest",
        "update-000000",
        "update-000006",
    }


@pytest.mark.slow
def test_six_kills_at_random_moments_leave_no_trace(tmp_path: Path) -> None:
    out, rng, killings = tmp_path / "run", random.Random(0), 0
    env, settings = RUNS["several turns"]
    words = flags(env, updates=40, save_every=1, **settings)
    arguments: tuple[str, ...] = (*words, "--out", str(out))
    for attempt in range(6):
        child = Child(*arguments, log=tmp_path / f"{attempt}.log")
        if not child.wait_for("resuming after" if attempt else "before training"):
            break
        time.sleep(rng.uniform(0.0, 0.25))
        child.signal(signal.SIGKILL)
        killings += child.wait().code == -signal.SIGKILL
        arguments = ("--resume", "--out", str(out))
    assert killings > 2
    resume(out)
    reference = train_run(*words, out=tmp_path / "whole")
    assert_same_run(out, reference)


@pytest.mark.parametrize("name", ["one turn", "several turns"])
def test_an_interrupted_run_ends_with_a_checkpoint_to_go_on_from(name: str, tmp_path: Path) -> None:
    env, settings = RUNS[name]
    out = tmp_path / "run"
    words = flags(env, updates=20, **settings)
    child = Child(*words, "--out", str(out), log=tmp_path / "log")
    assert child.wait_for("update  2/20")
    child.signal(signal.SIGINT)
    result = child.wait()
    assert result.code == 130
    assert "Traceback" not in result.out
    update = len(metrics(out))
    assert 2 <= update < 20
    assert f"stopped after update {update}; continue with --resume --out {out}" in result.out
    assert (out / "checkpoints" / "latest").resolve().name == f"update-{update:06d}"
    assert f"resuming after update {update}" in resume(out).out
    assert_same_run(out, whole_run(name, 20))


def test_a_finished_run_can_be_resumed_and_stays_what_it_is(tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole_run(), out, symlinks=True)
    result = resume(out)
    assert f"already at update {UPDATES}; --updates asks for {UPDATES}" in result.out
    assert_same_run(out, whole_run())
    before, after = (json.loads((run / "summary.json").read_text()) for run in (whole_run(), out))
    assert before == after


def test_a_finished_run_goes_on_to_more_updates(tmp_path: Path) -> None:
    words = flags("Talk")
    out = train_run(*words, "--updates", "3", out=tmp_path / "run")
    assert "schedule" not in resume(out, "--updates", "5").out
    longer = train_run(*words, "--updates", "5", out=tmp_path / "longer")
    assert_same_run(out, longer)
    assert (out / "config.toml").read_text() == (longer / "config.toml").read_text()
    assert json.loads((out / "summary.json").read_text())["updates"] == 5


def test_a_run_whose_rate_depends_on_its_length_says_how_far_it_jumps(tmp_path: Path) -> None:
    out = train_run(*flags("Talk", schedule="linear", updates=4), out=tmp_path / "run")
    assert (
        "note: the schedule linear depends on --updates: with 5 in place of 4, the learning rate goes on at 0.2 of --lr, "
        "not at 0; `constant`, or `over=N`, does not depend on it\n"
    ) in resume(out, "--updates", "5").out


@pytest.fixture
def largest() -> Iterator[Callable[[int], None]]:
    """A function that limits the size of files in bytes, as a disk quota does; 0 lifts the limit."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size if size > 0 else before[0], before[1]))

    yield limit
    limit(0)


@pytest.mark.parametrize("size", [20_000, 60_000], ids=["of the model", "of the trainer"])
def test_a_checkpoint_that_finds_no_room_ends_the_run_in_one_line_and_harms_nothing(
    size: int, largest: Callable[[int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    save = RunFolder.save_checkpoint

    def cramped(folder: RunFolder, update: int, *rest: Any) -> None:
        largest(size if update == 4 else 0)
        save(folder, update, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_checkpoint", cramped)
        message = training_error(*flags("Low", updates=UPDATES, save_every=2), "--out", str(out))
    largest(0)
    assert message == (
        f"{out}/checkpoints/update-000004: file too large; raise the limit of a file's size (ulimit -f) and continue with --resume --out {out}"
    )
    assert {path.name for path in (out / "checkpoints").iterdir()} == {"latest", "update-000000", "update-000002"}
    assert "resuming after update 2" in resume(out).out
    assert_same_run(out, whole_run())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full, the disk that is always full")
def test_a_full_disk_ends_the_run_in_one_line_and_it_goes_on_once_there_is_room(tmp_path: Path) -> None:
    out = tmp_path / "run"
    full = out / "rollouts" / "update-000005.jsonl"
    full.parent.mkdir(parents=True)
    full.symlink_to("/dev/full")
    message = training_error(*flags("Low", updates=UPDATES, save_every=2), "--out", str(out))
    assert message == f"{full}: no space left on device; make room and continue with --resume --out {out}"
    assert "resuming after update 4" in resume(out).out
    assert_same_run(out, whole_run())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("part", ["trainer/state.json", "model/model.safetensors", "model/config.json"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_still_good(part: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill_run(out, HALFWAY)
    cut(out / "checkpoints" / "update-000004" / part)
    message = training_error("--resume", "--out", str(out))
    assert message.startswith(f"checkpoint {out}/checkpoints/update-000004 cannot be used: ")
    assert message.endswith("; remove this folder to go on from update-000002")
    assert len(metrics(out)) == 4  # nothing was cut away in vain
    shutil.rmtree(out / "checkpoints" / "update-000004")
    assert "resuming after update 2" in resume(out).out
    assert_same_run(out, whole_run())


def test_a_checkpoint_without_parts_is_damaged_too(tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill_run(out, HALFWAY)
    checkpoint = out / "checkpoints" / "update-000004"
    (checkpoint / "trainer" / "state.json").write_bytes(b"")
    error = f"checkpoint {checkpoint} cannot be used: its trainer/state.json is damaged "
    assert training_error("--resume", "--out", str(out)).startswith(f"{error}(wrong SHA-256)")
    (checkpoint / "turnwise.sha256").unlink()
    assert training_error("--resume", "--out", str(out)).startswith(f"{error}(JSONDecodeError)")
    shutil.rmtree(checkpoint / "model")
    message = training_error("--resume", "--out", str(out))
    assert message.startswith(f"checkpoint {out}/checkpoints/update-000004 cannot be used: model ")


def test_a_checkpoint_that_could_run_code_is_not_read(tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill_run(out, HALFWAY)
    checkpoint = out / "checkpoints" / "update-000004"
    trainer = checkpoint / "trainer"
    shutil.rmtree(trainer)
    trainer.mkdir()
    (trainer / "state.pt").write_bytes(pickle.dumps(Bomb(str(tmp_path / "crater"))))
    message = training_error("--resume", "--out", str(out))
    assert message == (
        f"checkpoint {checkpoint} cannot be used: its state.pt is of version 0.1.0; --model {checkpoint} begins a new "
        "run with its weights"
    )
    assert not (tmp_path / "crater").exists()
    (checkpoint / "turnwise.sha256").unlink()  # version 0.1.0 wrote none
    assert train(*flags("Low", updates=1, model=checkpoint), "--out", str(tmp_path / "new")).code == 0


class Bomb(NamedTuple):
    """An object that makes a folder where it is unpickled."""

    folder: str

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.folder,)


def test_a_run_without_digests_goes_on_with_a_warning(tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill_run(out, HALFWAY)
    checkpoint, config = out / "checkpoints" / "update-000004", out / "config.toml"
    (checkpoint / "turnwise.sha256").unlink()
    config.write_text(config.read_text().partition("# sha256")[0])
    warnings = [line for line in resume(out).out.splitlines() if "no digest" in line]
    note = "has no digest, as in older versions; damage to it is not noticed"
    assert warnings == [f"{config} {note}", f"{checkpoint} {note}"]
    assert_same_run(out, whole_run())
    assert "no digest" not in resume(out).out


def test_a_link_that_leads_nowhere_and_what_kills_left_behind_do_no_harm(tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill_run(out, HALFWAY)
    home = out / "checkpoints"
    (home / "latest").unlink()
    (home / "latest").symlink_to("update-000099")
    (home / ".latest.partial").symlink_to("update-000098")
    for name in (".update-000006.partial", ".update-000000.gone"):
        (home / name / "model").mkdir(parents=True)
        (home / name / "model" / "model.safetensors").write_bytes(b"half")
    (out / ".summary.json.partial").write_text("{")
    with open(out / "metrics.jsonl", "a") as file:
        file.write('{"reward/mean": 0.25, "upd')
    assert "resuming after update 4" in resume(out).out
    assert_same_run(out, whole_run())
    assert {path.name for path in home.iterdir()} == {"latest", "update-000004", "update-000006"}


def test_going_back_to_an_older_checkpoint_by_hand_repeats_the_rest(tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill_run(out, HALFWAY)
    (out / "checkpoints" / "latest").unlink()
    (out / "checkpoints" / "latest").symlink_to("update-000002")
    assert "resuming after update 2" in resume(out).out
    assert_same_run(out, whole_run())


def test_a_resumed_run_of_a_new_model_ends_with_the_same_weights(tmp_path: Path) -> None:
    words = flags("Low", updates=3)
    words[words.index("--model") + 1] = "tiny"  # its weights never were in a file, those of the resumed run were
    whole = train_run(*words, out=tmp_path / "whole")
    halves = train_run(*words, "--updates", "1", out=tmp_path / "halves")
    resume(halves, "--updates", "3")
    assert_same_run(whole, halves)


def test_whoever_may_read_a_checkpoint_s_config_may_read_its_weights(tmp_path: Path) -> None:
    out = train_run(*flags("Low", updates=1), out=tmp_path / "run")
    modes = {path.stat().st_mode & 0o777 for path in (out / "checkpoints" / "latest").rglob("*") if path.is_file()}
    assert len(modes) == 1


def test_a_run_killed_before_its_first_checkpoint_begins_again(tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill_run(out, ("rl.train.model", "save_pretrained", 1))
    assert "no checkpoint was finished; starting from the beginning" in resume(out).out
    assert_same_run(out, whole_run())


def test_a_resumed_run_does_without_the_model_it_began_with(tmp_path: Path) -> None:
    model_folder = tmp_path / "model"
    words = flags("Low", updates=4)
    shutil.copytree(words[words.index("--model") + 1], model_folder)
    words[words.index("--model") + 1] = str(model_folder)
    out = tmp_path / "run"
    result = Child(*words, "--save-every", "2", "--out", str(out), log=tmp_path / "log", die=(*HALFWAY[:2], 4)).wait()
    assert result.code == -signal.SIGKILL
    shutil.rmtree(model_folder)
    resume(out)
    assert len(metrics(out)) == 4


def test_a_cold_start_from_the_cache_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path / "cache"))
    words = flags("Low", updates=2, cold_start=4, cold_start_until=0.1)
    one, two = train_run(*words, out=tmp_path / "one"), train_run(*words, out=tmp_path / "two")
    assert_same_run(one, two)
    assert len(list((tmp_path / "cache").rglob("*.safetensors"))) == 1
    plain = train_run(*flags("Low", updates=2), out=tmp_path / "plain")
    assert any((weights(one)[name] != weights(plain)[name]).any() for name in weights(one))
