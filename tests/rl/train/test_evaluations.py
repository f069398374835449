"""`--eval-every`: evaluations on validation tasks during training, and the best checkpoint."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rl.cli import UserError
from rl.train.evaluations import Evaluation, _read
from tests.support.runs import Child, assert_same_run, flags, train, train_run, training_error

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "one turn": ("Low", {}),
    "several turns, lagging": ("Talk", {"lag": 2, "turn_tokens": 12}),
}
UPDATES = 6
HOME = TemporaryDirectory()


def command(name: str, **settings: Any) -> list[str]:
    env, own = RUNS[name]
    return flags(env, updates=UPDATES, save_every=4, **own, **settings)


def whole_run(name: str, **settings: Any) -> Path:
    """Return the folder of a run without an interruption, trained at most once."""
    out = Path(HOME.name) / f"{name} {settings}"
    return out if out.exists() else train_run(*command(name, **settings), out=out)


def evaluations(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]


def test_evaluating_changes_nothing_in_the_training() -> None:
    assert_same_run(whole_run("one turn", eval_every=2), whole_run("one turn"))


@pytest.mark.parametrize("name", RUNS)
def test_the_best_checkpoint_stays_and_is_the_one_with_the_highest_success(name: str) -> None:
    run = whole_run(name, eval_every=1)
    entries = evaluations(run)
    assert [(entry["update"], entry["split"]) for entry in entries] == [(n, "val") for n in range(1, UPDATES + 1)]
    best = max(entries, key=lambda entry: (entry["success"], -entry["update"]))
    folder = (run / "checkpoints" / "best").resolve()
    assert folder.name == f"update-{best['update']:06d}"
    assert load_file(folder / "model" / "model.safetensors")
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["best_update"], summary["best_success"]) == (best["update"], best["success"])


def test_loggers_get_the_evaluations() -> None:
    run = whole_run("one turn", eval_every=2)
    events = EventAccumulator(str(run / "tb"))
    events.Reload()
    expected = [(entry["update"], pytest.approx(entry["success"])) for entry in evaluations(run)]
    assert [(event.step, event.value) for event in events.Scalars("eval/success")] == expected


MOMENTS = [
    ("rl.train.evaluations:Evaluations", "_write", 2),  # played, not recorded
    ("rl.train.run_folder:RunFolder", "mark_best", 1),  # recorded, and the link is missing
    ("rl.train.run_folder:RunFolder", "write_rollouts", 6),  # two evaluations after the checkpoint
]


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: f"{moment[1]} {moment[2]}")
@pytest.mark.parametrize("name", RUNS)
def test_a_killed_run_has_the_evaluations_of_one_that_was_left_alone(name: str, moment: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    child = Child(*command(name, eval_every=1), "--out", str(out), log=tmp_path / "log", die=moment)
    assert child.wait().code == -signal.SIGKILL
    result = train("--resume", "--out", str(out))
    assert result.code == 0, result.err
    whole = whole_run(name, eval_every=1)
    assert evaluations(out) == evaluations(whole)
    assert (out / "checkpoints/best").readlink() == (whole / "checkpoints/best").readlink()
    assert_same_run(out, whole)


def test_an_evaluation_that_was_due_at_the_checkpoint_is_made_when_the_run_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole_run("one turn", eval_every=2), out, symlinks=True)
    entries = evaluations(out)
    (out / "evaluations.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries[:-1]))
    assert train("--resume", "--out", str(out)).code == 0
    assert evaluations(out) == entries


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--eval-every", "2", "--eval-episodes", "0"), "--eval-every: needs --eval-episodes above 0"),
        (("--eval-every", "-1"), "--eval-every -1: must be at least 0"),
        (
            ("--eval-every", "9", "--updates", "8"),
            "--eval-every 9: the run ends before, after 8 updates; lower --eval-every or raise --updates",
        ),
        (
            ("--eval-every", "201"),
            "--eval-every 201: the run ends before, after 200 updates (default); lower --eval-every or raise --updates",
        ),
    ],
)
def test_an_evaluation_that_cannot_be_made_is_refused(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    assert message in training_error(*flags("Low"), "--out", tmp_path / "run", *words)


@pytest.mark.parametrize(
    ("file", "words", "updates"),
    [
        ({"eval_every": 1000, "updates": 8}, (), "8 updates"),
        ({"eval_every": 100}, ("--updates", "8"), "8 updates"),
        ({"eval_every": 1000}, (), "200 updates (default)"),
    ],
)
def test_an_evaluation_of_a_file_that_comes_too_late_is_said_in_one_line(
    file: dict[str, int], words: tuple[str, ...], updates: str, tmp_path: Path
) -> None:
    config = tmp_path / "old.toml"
    config.write_text("".join(f"{name} = {value}\n" for name, value in file.items()))
    command = (*flags("Low"), "--config", config, "--dry-run", *words)
    result = train(*map(str, command))
    reason = f"the run ends before, after {updates}; lower --eval-every or raise --updates\n"
    assert result.code == 0, result.err
    assert result.out.count(f"warning: eval_every = {file['eval_every']} of the file: {reason}") == 1
    every = str(file["eval_every"])
    assert training_error(*command, "--eval-every", every) == f"--eval-every {every}: {reason.strip()}"


@pytest.mark.parametrize("text", ['{"update": 1}\n', "{", '["update"]\n', b"\xff\n".decode("latin-1")])
def test_a_damaged_file_of_evaluations_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "evaluations.jsonl"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=r"evaluations.jsonl line 1 is damaged"):
        _read(path)


def test_an_evaluation_counts_each_episode_once() -> None:
    from envs.types import Stop
    from rl.records import Completion, Trajectory, Turn

    turn = Turn((0,), Completion((0,), (0.0,), (0.0,), (0,)), reward=0.5)
    episodes = [Trajectory([turn, turn], Stop.TERMINATED, success=True), Trajectory([turn], Stop.TURN_LIMIT)]
    assert Evaluation.of(3, "val", episodes) == Evaluation(3, "val", 0.5, 0.75, 2)
