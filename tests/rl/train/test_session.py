"""Around the updates of a run: its evaluations, what it asks of an environment, and Ctrl-C before the first update."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from rl.policy.batching import Batching
from tests.support.runs import Child, assert_same_run, flags, train, trained

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
    """What a run came to, without its clocks."""
    told = json.loads((out / "summary.json").read_text())
    return {key: value for key, value in told.items() if key not in ("wall_s", "tokens_per_s")}


def interrupted(monkeypatch: pytest.MonkeyPatch, place: str, *words: str) -> tuple[int, str, str]:
    """What comes of a Ctrl-C in the middle of the function at `place`."""

    async def evaluating(*_: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(60)

    def imitating(*_: Any, **__: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(place, evaluating if place.endswith("greedy") else imitating)
        return train(*words)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_interrupted_in_its_first_evaluation_goes_on_from_there(name, tmp_path, monkeypatch):
    if "lora" in RUNS[name]:
        pytest.importorskip("peft")
    words, out = flags("Low", updates=3, **RUNS[name]), tmp_path / "run"
    whole = trained(*words, out=tmp_path / "whole")  # whose cold start the other one finds in the cache
    code, said, err = interrupted(monkeypatch, "rl.train.validation.greedy", *words, "--out", str(out))
    assert (code, err) == (130, "")
    assert said.endswith(f"stopped after update 0; continue with --resume --out {out}\n")
    assert (out / "checkpoints" / "latest").resolve().name == "update-000000"
    ended = train("--resume", "--out", str(out))
    assert ended.code == 0, ended.err
    assert "resuming after update 0" in ended.out and "held-out greedy success before training" in ended.out
    assert "cold start" not in ended.out
    assert_same_run(out, whole)
    assert summary(out) == summary(whole) and summary(out)["success_before"] is not None


def test_a_run_killed_in_its_first_update_still_knows_what_it_began_with(tmp_path):
    words, out = flags("Low", updates=3), tmp_path / "run"
    whole = trained(*words, out=tmp_path / "whole")
    die = ("rl.train.run_folder:RunFolder", "write_rollouts", 1)
    assert Child(*words, "--out", str(out), log=tmp_path / "log", die=die).ended().code == -signal.SIGKILL
    assert train("--resume", "--out", str(out)).code == 0
    assert_same_run(out, whole)
    assert summary(out) == summary(whole) and summary(out)["success_before"] is not None


def test_the_first_evaluation_is_not_made_again_after_an_update(tmp_path):
    out = trained(*flags("Low", updates=2), out=tmp_path / "run")
    ended = train("--resume", "--out", str(out), "--updates", "3")
    assert ended.code == 0 and "before training" not in ended.out
    assert summary(out)["success_before"] is not None


def test_a_run_interrupted_in_its_last_evaluation_says_how_to_go_on(tmp_path, monkeypatch):
    words, out = flags("Low", updates=2), tmp_path / "run"
    trained(*words, out=out)
    code, said, _ = interrupted(monkeypatch, "rl.train.validation.greedy", "--resume", "--out", str(out))
    assert code == 130 and said.endswith(f"stopped after update 2; continue with --resume --out {out}\n")


def test_a_run_interrupted_in_its_cold_start_says_to_start_again(tmp_path, monkeypatch):
    words, out = flags("Low", updates=2, **WARM), tmp_path / "run"
    code, said, err = interrupted(monkeypatch, "rl.train.cold_start.imitate", *words, "--out", str(out))
    assert (code, err) == (130, "")
    assert said.endswith(
        f"stopped before there was anything to keep; start from the beginning with --resume --out {out}\n"
    )
    assert train("--resume", "--out", str(out)).code == 0
    assert_same_run(out, trained(*words, out=tmp_path / "whole"))


def lacking(folder: Path, split: str) -> str:
    """An environment without tasks in `split`."""
    folder.mkdir()
    source = "from tests.support.tasks import Low\n\n\nclass Lacking(Low):\n    def tasks(self, split):\n"
    (folder / "lacking.py").write_text(f"{source}        return [] if split == {split!r} else super().tasks(split)\n")
    return f"{folder}/lacking.py:Lacking"


@pytest.mark.parametrize(
    ("split", "without", "use"),
    [("val", "--cold-start 0", {"cold_start": 4}), ("test", "--eval-episodes 0", {"eval_episodes": 4})],
)
def test_only_splits_that_are_played_must_have_tasks(split, without, use, tmp_path):
    env = lacking(tmp_path / "env", split)
    words = [*flags(env, updates=1, **WARM), *without.split(), "--out", str(tmp_path / "run")]
    ended = train(*words)
    assert ended.code == 0, ended.err
    refused = train(*flags(env, updates=1, **{**WARM, **use}), "--out", str(tmp_path / "other"))
    assert refused.code == 2
    assert refused.err.endswith(f"split '{split}' has no tasks; {without} does without\n")


def test_a_run_needs_training_tasks(tmp_path):
    ended = train(*flags(lacking(tmp_path / "env", "train"), updates=1), "--out", str(tmp_path / "run"))
    assert ended.code == 2 and ended.err.endswith("split 'train' has no tasks\n")


def test_an_evaluation_never_waits_for_a_seat_and_has_an_hour_per_reply(tmp_path, monkeypatch):
    asked: list[float] = []
    waiting: list[int] = [0]
    most: list[int] = []
    sample = Batching.sample

    async def noted(self: Any, prompt: Any, params: Any, **more: Any) -> Any:
        if params.temperature:
            return await sample(self, prompt, params, **more)
        asked.append(params.deadline_s)
        waiting[0] += 1
        most.append(waiting[0])
        try:
            return await sample(self, prompt, params, **more)
        finally:
            waiting[0] -= 1

    monkeypatch.setattr(Batching, "sample", noted)
    out = trained(*flags("Low", updates=0, groups=1, size=2, eval_episodes=8), out=tmp_path / "run")
    assert summary(out)["success_before"] is not None
    assert len(asked) >= 8 and set(asked) == {3600.0}
    assert max(most) == 2  # one group of two
