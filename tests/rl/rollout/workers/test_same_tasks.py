"""Environments whose tasks are others in another process, which a run would train on as if they were the same."""

from __future__ import annotations

import os
import pickle
import re
from contextlib import suppress
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import pytest

import envs
from envs.env import Env
from envs.types import Task, user
from rl.cli import run
from rl.evaluate.__main__ import main
from rl.rollout.workers.same_tasks import SAMPLE, OtherTasks, SameTasks, tasks_digest
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


def test_what_is_equal_has_the_same_digest_whatever_its_order_and_other_data_are_not_compared() -> None:
    assert digest("a", "b", data={"x": 1, 2: 3}) == digest("a", "b", data={2: 3, "x": 1})
    assert digest("a", "b", data={"x": {"p", "q"}}) == digest("a", "b", data={"x": object()})
    assert digest("a", data=[*range(99)]) != digest("a", data=[*range(98)])
    assert digest("a" * 9999) != digest("a" * 9998)


class Proxy:
    """Has whatever it is asked for."""

    def __getattr__(self, name: str) -> Any:
        return self if name == "keys" else 1


def odd_data() -> dict[str, Any]:
    ring: dict[str, Any] = {}
    ring["ring"] = ring
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    return {"ring": ring, "deep": deep, "class": dict, "proxy": Proxy(), "number": 10**5000, "bytes": b"", "nan": nan}


@pytest.mark.parametrize("name", odd_data())
def test_no_data_of_a_task_is_an_error(name: str) -> None:
    assert digest("a", data=odd_data()[name]) == digest("a", data=odd_data()[name]) != digest("b")


def test_what_was_played_and_the_tasks_behind_the_limit_change_nothing() -> None:
    env = Listed(words("a", "b", "c"))
    before = tasks_digest(env, "train")
    env.given[0].metadata["parsed"] = True  # type: ignore[index]
    assert tasks_digest(env, "train") == before
    assert tasks_digest(Listed(words("a", "b", "d")), "train", 2) == tasks_digest(Listed(words("a", "b")), "train")


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
    with pytest.raises(OtherTasks, match="the val tasks are others here than in the run's own process"):
        SameTasks(make, "val", "another")()


def test_a_run_with_workers_ends_at_once_where_tasks_differ(tmp_path: Path) -> None:
    error = training_error(*flags("OtherOrder", updates=3), "--workers", 2, "--out", tmp_path / "run")
    assert re.search(r"OtherOrder in worker [12]: the train tasks are others here than in the run's own process", error)
    assert "no set, no random numbers without a seed" in error
    assert train(*flags("OtherOrder", updates=1), "--out", str(tmp_path / "alone")).code == 0


def test_one_worker_with_other_tasks_ends_the_run(tmp_path: Path) -> None:
    arguments = [f"--env-arg=folder={tmp_path}", f"--env-arg=main={os.getpid()}"]
    error = training_error(*flags("OneOther", *arguments, workers=3, out=tmp_path / "run"))
    assert "the train tasks are others here than in the run's own process" in error


def test_a_run_that_is_resumed_with_other_tasks_says_so_once_and_goes_on(tmp_path: Path) -> None:
    out = train_run(*flags("OtherOrder", updates=1), out=tmp_path / "run")
    warning = "warning: the training tasks are others than when the run began, or in another order"
    again = Child("--resume", "--out", str(out), "--updates", "2", log=tmp_path / "log").wait()
    assert again.code == 0 and again.out.count(warning) == 1, again
    same = train_run(*flags("Low", updates=1), out=tmp_path / "same")
    assert warning not in train("--resume", "--out", str(same), "--updates", "2").out


def test_an_evaluation_with_workers_ends_where_tasks_differ(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--env", f"{TASKS}:OtherOrder", "--policy", "oracle", "--episodes", "2"]
    with suppress(SystemExit):
        run(lambda: main(words))
    assert "success" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        run(lambda: main([*words, "--workers", "2"]))
    err = capsys.readouterr().err
    assert "the test tasks are others here than in the run's own process" in err and err.count("\n") == 1
