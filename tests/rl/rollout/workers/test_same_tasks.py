"""Environments whose tasks are others in another process, which a run would train on as if they were the same."""

from __future__ import annotations

import pickle
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import envs
from envs.env import Env
from envs.types import Task, user
from rl.cli import run
from rl.evaluate.__main__ import main
from rl.rollout.workers.same_tasks import SAMPLE, SameTasks, tasks_digest
from tests.support.runs import TASKS, Child, flags, train, train_run, training_error


class Listed(Env):
    """One turn, with the tasks that it is given."""

    def __init__(self, tasks: list[Task], **limits: Any) -> None:
        super().__init__(**limits)
        self.given = tasks

    def tasks(self, split: str) -> list[Task]:
        return self.given


def words(*words: str, **metadata: Any) -> list[Task]:
    return [Task("", (user(word),), word[::-1], metadata) for word in words]


def digest(*of: str, **metadata: Any) -> str:
    return tasks_digest(Listed(words(*of, **metadata)), "train")


def test_a_digest_tells_order_number_answers_and_metadata_apart() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    assert digest(*letters) == digest(*letters)
    assert digest(*letters, level=1) == digest(*letters, level=1)
    others = [digest(*letters[::-1]), digest(*letters[:-1]), digest(*letters, level=1), digest(*letters, level=2)]
    assert len({digest(*letters), *others}) == 5
    assert len(letters) > SAMPLE


def test_what_has_no_order_or_no_text_of_its_own_is_not_compared() -> None:
    plain = digest("a", "b", data={"x": None})
    assert digest("a", "b", data={"x": {"p", "q"}}) == digest("a", "b", data={"x": object()}) == plain


@pytest.mark.parametrize(
    ("env", "arguments"),
    [
        ("math/Arithmetic-v0", {}),
        ("multi/Kuhn-v0", {}),
        ("variants:math/Arithmetic-v0", {"over": {"level": [0, 1]}}),
        ("chain:math/Arithmetic-v0", {}),
    ],
)
def test_environments_are_made_where_the_tasks_are_the_same(env: str, arguments: dict[str, Any]) -> None:
    make = partial(envs.make, env, **arguments)
    assert pickle.loads(pickle.dumps(SameTasks(make, "val", tasks_digest(make(), "val"))))().unwrapped.load("val")
    with pytest.raises(ValueError, match="val tasks differ between this worker and the process that began it"):
        SameTasks(make, "val", "another")()


def test_a_run_with_workers_ends_at_once_where_tasks_differ(tmp_path: Path) -> None:
    error = training_error(*flags("OtherOrder", updates=3), "--workers", 2, "--out", tmp_path / "run")
    assert "ValueError: train tasks differ between this worker and the process that began it" in error
    assert "no set, no random numbers without a seed" in error
    assert train(*flags("OtherOrder", updates=1), "--out", str(tmp_path / "alone")).code == 0


def test_a_run_is_not_resumed_with_other_tasks_and_loses_nothing(tmp_path: Path) -> None:
    out = train_run(*flags("OtherOrder", updates=1), out=tmp_path / "run")
    again = Child("--resume", "--out", str(out), "--updates", "2", log=tmp_path / "log").wait()
    assert again.code == 2
    assert f"{out} cannot be resumed: the environment has other training tasks than when it began" in again.out
    assert train("--resume", "--out", str(out), "--updates", "2").code == 0, "here they are the same"


def test_an_evaluation_with_workers_ends_where_tasks_differ(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--env", f"{TASKS}:OtherOrder", "--policy", "oracle", "--episodes", "2"]
    with suppress(SystemExit):
        run(lambda: main(words))
    assert "success" in capsys.readouterr().out
    with suppress(SystemExit):
        run(lambda: main([*words, "--workers", "2"]))
    assert "test tasks differ between this worker and the process that began it" in capsys.readouterr().err
