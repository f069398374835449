"""Runs that ask a judge: a model in this process, a function, and a server that answers, refuses, fails and is away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from envs.types import user
from rl.config_file import read
from rl.methods.recipe import load, parse
from rl.settings import Settings
from rl.train.seats.judge import RunJudge, open_judge
from tests.support.runs import assert_same_run, flags, metrics, rollouts, small_model, train, train_run, training_error

QUESTION = (user("1: 2+3=5"),)
JUDGE = """
import hashlib
import os
import time

def strict(messages, tools, seed):
    digest = hashlib.sha256(messages[-1]["content"].encode()).digest()
    with open(__file__ + ".log", "a") as log:
        print(digest.hex(), file=log)
    return "\\\\boxed{0}" if digest[0] % 2 else "\\\\boxed{-1}"

def broken(messages, tools, seed):
    raise OSError("the judge is ill")

def leaving(messages, tools, seed):
    raise SystemExit(3)

def tired(messages, tools, seed):
    path = __file__ + ".count"
    count = len(open(path).read()) if os.path.exists(path) else 0
    open(path, "a").write(".")
    if count == 3:
        raise OSError("the judge is tired")
    return strict(messages, tools, seed)

def slow(messages, tools, seed):
    time.sleep(0.3)
    return "\\\\boxed{5}"
"""
VERDICT = load("fapo").but(**parse({"verdict": "first_error"}))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "judges.py"
    path.write_text(JUDGE)
    return path


def words(file: Path, **settings: object) -> list[str]:
    own = {"algo": "fapo", "verdict": "first_error", "judge": f"{file}:strict", "updates": 2}
    return flags("Low", **{**own, **settings})


def asked(file: Path) -> list[str]:
    return file.with_name("judges.py.log").read_text().split()


def test_a_run_that_is_resumed_with_an_edited_rubric_says_so_once_and_goes_on(file: Path, tmp_path: Path) -> None:
    rubric = tmp_path / "rubric.md"
    rubric.write_text("Short replies.")
    own = {"algo": "grpo", "verdict": f"rating:rubric={rubric}", "shape": "rated", "updates": 1}
    out = train_run(*words(file, **own), out=tmp_path / "run")
    line = (
        f"warning: {rubric} has other content than when the run was last saved, and the run goes on with what it says"
    )
    assert "has other content" not in train("--resume", "--out", str(out), "--updates", "2").out
    rubric.write_text("Long replies.")
    assert train("--resume", "--out", str(out), "--updates", "3").out.count(line) == 1
    assert "has other content" not in train("--resume", "--out", str(out), "--updates", "4").out


def test_successes_are_judged_and_what_the_judge_says_is_learned_from(file: Path, tmp_path: Path) -> None:
    out = train_run(*words(file, updates=4), out=tmp_path / "run")
    assert "judges.py:strict judges episodes" in train(*words(file, updates=1), "--out", str(tmp_path / "again")).out
    kinds = set()
    for update, logged in enumerate(metrics(out), 1):
        lines = rollouts(out, update)
        verdicts = []
        for line in lines:
            of_line = line["turns"][-1]["metrics"]
            assert ("judge/flawed" in of_line) == line["success"]
            expected = (1.0 - of_line["judge/flawed"]) if line["success"] else -1.0
            assert line["shaped_reward"] == expected
            kinds.add(expected)
            if line["success"]:
                verdicts.append(of_line["judge/flawed"])
        assert logged.get("judge/asked", 0.0) == len(verdicts) / len(lines)
        if verdicts:
            assert logged["judge/flawed"] == pytest.approx(sum(verdicts) / len(verdicts))
            assert logged["judge/unread"] == 0.0
    assert kinds == {-1.0, 0.0, 1.0}
    assert read(out / "config.toml")["judge"] == f"{file}:strict"


def test_the_same_question_is_asked_once(file: Path, tmp_path: Path) -> None:
    out = train_run(
        *words(file, verdict="rating", shape="rated", temperature=0.01, groups=4, updates=3), out=tmp_path / "run"
    )
    questions, played = asked(file), sum(logged["episodes/played"] for logged in metrics(out))
    assert len(questions) == len(set(questions)) < played == 48
    assert all(logged["judge/asked"] == 1.0 for logged in metrics(out))


@pytest.mark.parametrize("more", [(), ("--lag", "2"), ("--lag", "2", "--journal")], ids=str)
def test_a_resumed_run_samples_and_learns_the_same(more: tuple[str, ...], file: Path, tmp_path: Path) -> None:
    settings = {"updates": 4, "save_every": 1, "turn_tokens": 12}
    whole = train_run(*words(file, **settings), *more, out=tmp_path / "whole")
    half = train_run(*words(file, **{**settings, "updates": 2}), *more, out=tmp_path / "half")
    result = train("--resume", "--out", str(half), "--updates", "4")
    assert result.code == 0, result.err
    if not more:
        assert_same_run(half, whole)
    for update in range(1, 5):  # with a lag, what is sampled together depends on how fast the judge is
        assert rewards(half, update) == rewards(whole, update)


def test_a_model_in_this_process_judges(tmp_path: Path) -> None:
    settings = {
        "judge": small_model(),
        "verdict": "rating:max_tokens=8",
        "shape": "rated",
        "updates": 1,
        "algo": "grpo",
    }
    out = train_run(*flags("Low", **settings), out=tmp_path / "run")
    (logged,) = metrics(out)
    assert logged["judge/asked"] == 1.0 and logged["judge/unread"] == 1.0  # an untrained one says nothing
    assert all(line["shaped_reward"] == pytest.approx(line["reward"]) for line in rollouts(out, 1))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"judge": "random"}, "--judge random: cannot answer questions"),
        ({"judge": "human"}, "--judge human: cannot answer questions"),
        ({"judge": "{file}:nobody"}, "unknown function 'nobody'"),
        ({"judge": "no/such/folder"}, "no/such/folder"),
        ({"judge": "openai:model"}, "openai:model is not openai:MODEL@URL"),
        ({"judge": ""}, "--verdict first_error: needs --judge SPEC"),
        (
            {"verdict": "none", "judge": "", "algo": "grpo", "shape": "rated"},
            "--shape rated: reads judge/rating, which no verdict writes; add --verdict rating --judge SPEC, or metric=NAME",
        ),
        (
            {"verdict": "rating", "shape": "rated:metric=judge/raitng"},
            "--shape rated: no verdict writes judge/raitng; those of this run write judge/rating",
        ),
        ({"verdict": "none"}, "no part asks it; add --verdict first_error"),
        ({"verdict": "first_eror"}, "no part 'first_eror'"),
        ({"verdict": "first_error:style=long"}, "style"),
        ({"verdict": "rating:rubric=/no/such.md", "shape": "rated"}, "rubric=/no/such.md: No such file"),
    ],
)
def test_mistakes_are_named_before_the_run(settings: dict[str, str], message: str, file: Path, tmp_path: Path) -> None:
    own = {key: value.format(file=file) for key, value in settings.items()}
    assert message in training_error(*words(file, **own), "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_function_that_fails_ends_the_run_which_can_be_resumed_with_another_judge(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    message = training_error(*words(file, judge=f"{file}:broken"), "--out", out)
    assert message.startswith(f"--judge {file}:broken: ") and "OSError: the judge is ill" in message
    assert message.endswith(f"(the run in {out} can be resumed)")
    assert train("--resume", "--out", str(out), "--judge", f"{file}:strict").code == 0
    assert len(metrics(out)) == 2


@pytest.mark.parametrize("more", [(), ("--journal",), ("--lag", "2")], ids=str)
def test_a_run_whose_judge_was_away_for_a_while_ends_as_if_it_had_not_been(
    more: Any, file: Path, tmp_path: Path
) -> None:
    settings = {"verdict": "rating", "shape": "rated", "updates": 3, "turn_tokens": 12}
    whole = train_run(*words(file, **settings), *more, out=tmp_path / "whole")
    half = tmp_path / "half"
    message = training_error(*words(file, **settings, judge=f"{file}:tired"), *more, "--out", half)
    assert "OSError: the judge is tired" in message and "can be resumed" in message
    assert train("--resume", "--out", str(half), "--judge", f"{file}:strict").code == 0
    for update in (1, 2, 3):
        assert rewards(half, update) == rewards(whole, update)


def rewards(out: Path, update: int) -> list[Any]:
    return [(line["shaped_reward"], line["turns"][-1]["ids"]) for line in rollouts(out, update)]


def test_a_function_that_leaves_ends_the_run_in_a_line(file: Path, tmp_path: Path) -> None:
    message = training_error(
        *words(file, verdict="rating", shape="rated", judge=f"{file}:leaving"), "--out", tmp_path / "run"
    )
    assert "SystemExit: 3" in message and "can be resumed" in message


def test_episodes_go_on_while_a_function_thinks(file: Path) -> None:
    async def work(judge: RunJudge) -> int:
        asking = asyncio.ensure_future(judge.ask(QUESTION, max_tokens=8))
        ticks = 0
        while not asking.done():
            await asyncio.sleep(0.01)
            ticks += 1
        assert await asking == "\\boxed{5}"
        return ticks

    judge = open_judge(Settings(env="x", judge=f"{file}:slow", max_tokens=64), VERDICT)
    assert asyncio.run(judge.during(work(judge))) > 5


@pytest.mark.parametrize("name", ["replay:when=unsolved", "replay_groups"])
def test_what_is_replayed_is_judged(name: str, file: Path, tmp_path: Path) -> None:
    settings = {"strategy": name, "verdict": "rating", "shape": "rated", "updates": 3, "groups": 4}
    out = train_run(*words(file, **settings, algo="grpo"), out=tmp_path / "run")
    lines = [line for update in (1, 2, 3) for line in rollouts(out, update)]
    assert all(
        "judge/rating" in line["turns"][-1]["metrics"] or line["turns"][-1]["metrics"]["judge/unread"] for line in lines
    )


def test_two_seats_are_judged(file: Path, tmp_path: Path) -> None:
    settings = {
        "env_arg": "style=short",
        "verdict": "rating",
        "shape": "rated",
        "algo": "grpo",
        "judge": f"{file}:strict",
    }
    out = train_run(*flags("multi/IteratedDilemma-v0", **settings, updates=1), out=tmp_path / "run")
    assert metrics(out)[0]["judge/asked"] == 1.0
    assert {line["agent"] for line in rollouts(out, 1)} == {"player_0", "player_1"}
