"""The parts of a run around its updates: evaluations, checks of the environment, and Ctrl-C before the first update."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from rl.policy.batching import BatchingEngine
from rl.train.imitation import Demonstrations
from tests.support.runs import Child, assert_same_run, flags, train, train_run

WARM = {"cold_start": 4, "cold_start_until": 0.1}
RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "after a cold start": WARM,
    "with a reference, lagging": {**WARM, "penalty": "kl_k2:coef=0.01", "lag": 1},
    "with adapters": {**WARM, "lora": 2},
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path / "cache"))


def summary(out: Path) -> dict[str, Any]:
    """Return summary.json without timings."""
    run_summary = json.loads((out / "summary.json").read_text())
    return {key: value for key, value in run_summary.items() if key not in ("wall_s", "tokens_per_s")}


def interrupt_at(monkeypatch: pytest.MonkeyPatch, place: str, *words: str) -> tuple[int, str, str]:
    """Run a command with Ctrl-C in the middle of the function at `place`; return its exit code and output."""

    async def evaluate(*_: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(60)

    def imitate(*_: Any, **__: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(place, evaluate if place.endswith("greedily") else imitate)
        return train(*words)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_interrupted_in_its_first_evaluation_goes_on_from_there(name, tmp_path, monkeypatch):
    if "lora" in RUNS[name]:
        pytest.importorskip("peft")
    words, out = flags("Low", updates=3, **RUNS[name]), tmp_path / "run"
    whole = train_run(*words, out=tmp_path / "whole")  # whose cold start the other one finds in the cache
    code, output, err = interrupt_at(monkeypatch, "rl.train.validation.play_greedily", *words, "--out", str(out))
    assert (code, err) == (130, "")
    assert output.endswith(f"stopped after update 0; continue with --resume --out {out}\n")
    assert (out / "checkpoints" / "latest").resolve().name == "update-000000"
    result = train("--resume", "--out", str(out))
    assert result.code == 0, result.err
    assert "resuming after update 0" in result.out and "held-out greedy success before training" in result.out
    assert "cold start" not in result.out
    assert_same_run(out, whole)
    assert summary(out) == summary(whole) and summary(out)["success_before"] is not None


def test_a_run_killed_in_its_first_update_still_knows_what_it_began_with(tmp_path):
    words, out = flags("Low", updates=3), tmp_path / "run"
    whole = train_run(*words, out=tmp_path / "whole")
    die = ("rl.train.run_folder:RunFolder", "write_rollouts", 1)
    assert Child(*words, "--out", str(out), log=tmp_path / "log", die=die).wait().code == -signal.SIGKILL
    assert train("--resume", "--out", str(out)).code == 0
    assert_same_run(out, whole)
    assert summary(out) == summary(whole) and summary(out)["success_before"] is not None


def test_the_first_evaluation_is_not_made_again_after_an_update(tmp_path):
    out = train_run(*flags("Low", updates=2), out=tmp_path / "run")
    result = train("--resume", "--out", str(out), "--updates", "3")
    assert result.code == 0 and "before training" not in result.out
    assert summary(out)["success_before"] is not None


def test_a_run_interrupted_in_its_last_evaluation_says_how_to_go_on(tmp_path, monkeypatch):
    words, out = flags("Low", updates=2), tmp_path / "run"
    train_run(*words, out=out)
    code, output, _ = interrupt_at(monkeypatch, "rl.train.validation.play_greedily", "--resume", "--out", str(out))
    assert code == 130 and output.endswith(f"stopped after update 2; continue with --resume --out {out}\n")


def test_a_run_interrupted_in_its_cold_start_says_to_start_again(tmp_path, monkeypatch):
    words, out = flags("Low", updates=2, **WARM), tmp_path / "run"
    code, output, err = interrupt_at(monkeypatch, "rl.train.cold_start.imitate", *words, "--out", str(out))
    assert (code, err) == (130, "")
    assert output.endswith(f"stopped before the first checkpoint; start from the beginning with --resume --out {out}\n")
    assert train("--resume", "--out", str(out)).code == 0
    assert_same_run(out, train_run(*words, out=tmp_path / "whole"))


def env_without(folder: Path, split: str) -> str:
    """Write an environment without tasks in `split`; return its spec."""
    folder.mkdir()
    source = "from tests.support.tasks import Low\n\n\nclass Lacking(Low):\n    def tasks(self, split):\n"
    (folder / "lacking.py").write_text(f"{source}        return [] if split == {split!r} else super().tasks(split)\n")
    return f"{folder}/lacking.py:Lacking"


@pytest.mark.parametrize(
    ("split", "without", "use"),
    [("val", "--cold-start 0", {"cold_start": 4}), ("test", "--eval-episodes 0", {"eval_episodes": 4})],
)
def test_only_splits_that_are_played_must_have_tasks(split, without, use, tmp_path):
    env = env_without(tmp_path / "env", split)
    words = [*flags(env, updates=1, **WARM), *without.split(), "--out", str(tmp_path / "run")]
    result = train(*words)
    assert result.code == 0, result.err
    failure = train(*flags(env, updates=1, **{**WARM, **use}), "--out", str(tmp_path / "other"))
    assert failure.code == 2
    assert failure.err.endswith(f"split '{split}' has no tasks; {without} does without\n")


def test_a_run_needs_training_tasks(tmp_path):
    result = train(*flags(env_without(tmp_path / "env", "train"), updates=1), "--out", str(tmp_path / "run"))
    assert result.code == 2 and result.err.endswith("split 'train' has no tasks\n")


def test_an_evaluation_never_waits_for_a_seat_and_has_an_hour_per_reply(tmp_path, monkeypatch):
    deadlines: list[float] = []
    waiting: list[int] = [0]
    most: list[int] = []
    sample = BatchingEngine.sample

    async def recorded_sample(self: Any, prompt: Any, params: Any, **more: Any) -> Any:
        if params.temperature:
            return await sample(self, prompt, params, **more)
        deadlines.append(params.deadline_s)
        waiting[0] += 1
        most.append(waiting[0])
        try:
            return await sample(self, prompt, params, **more)
        finally:
            waiting[0] -= 1

    monkeypatch.setattr(BatchingEngine, "sample", recorded_sample)
    out = train_run(*flags("Low", updates=0, groups=1, size=2, eval_episodes=8), out=tmp_path / "run")
    assert summary(out)["success_before"] is not None
    assert len(deadlines) >= 8 and set(deadlines) == {3600.0}
    assert max(most) == 2  # one group of two


def test_train_tasks_are_the_first_of_the_split_in_training_and_in_the_cold_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imitated: list[int] = []
    play = Demonstrations._play

    def note(self: Demonstrations, number: int) -> Any:
        imitated.append(self.indices[number])
        return play(self, number)

    monkeypatch.setattr(Demonstrations, "_play", note)
    words = flags("Low", updates=2, train_tasks=3, cold_start=20, cold_start_until=1.0)
    out = train_run(*words, out=tmp_path / "run")
    assert sorted(set(imitated)) == [0, 1, 2]
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["tasks/coverage"] == 1.0, "of three tasks"
    tasks = {
        episode["index"] for path in (out / "rollouts").glob("*.jsonl") for episode in map(json.loads, path.open())
    }
    assert tasks == {0, 1, 2}


def test_more_train_tasks_than_there_are_stop_the_run_before_it_begins(tmp_path: Path) -> None:
    code, _, err = train(*flags("Low", train_tasks=10_000), "--out", str(tmp_path / "run"))
    assert code == 2 and "--train-tasks 10000: " in err and "training tasks; lower it or leave it out" in err
    assert err.count("\n") == 1 and not (tmp_path / "run").exists()
