"""`rl.evaluate` with stored replies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import envs
from agents.scripted import oracle, random
from envs.types import Stop
from rl.evaluate.clients.failures import FIELD_HINT
from rl.evaluate.clients.stored import read_samples
from rl.evaluate.runner import tickets
from rl.records import Group
from rl.rollout.scripted import play_script
from rl.train.run_folder import RunFolder

ARITHMETIC, GUESS = "math/Arithmetic-v0", "games/GuessNumber-v0"


def answers(env: str, split: str = "test") -> dict[str, str]:
    tasks = envs.make(env).unwrapped.load(split)
    return {task.id: str(task.answer) for task in tasks}  # type: ignore[attr-defined]


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def test_the_rollouts_of_a_run_are_graded_as_they_were_on_the_same_seeds(tmp_path: Path, command: Any) -> None:
    env = envs.make(GUESS)
    groups = []
    for ticket in tickets(len(answers(GUESS, "train")), 6, 4, 3, "train"):
        trajectories = [play_script(env, ticket, oracle if member == 1 else random, member) for member in range(4)]
        groups.append(Group(ticket, trajectories))
    groups[0].trajectories[2].turns.pop()  # as a run's bound on tokens would have it
    groups[0].trajectories[2].stop, groups[0].trajectories[2].success = Stop.TOKEN_LIMIT, False
    groups[1].errored.append(groups[1].trajectories.pop())
    groups[1].errored[0].stop, groups[1].errored[0].error = Stop.ERROR, "Refused: 400: no"
    again = replace(groups[2].trajectories[0], stop=Stop.ERROR, error="OSError: it was played again")
    groups[2].errored.append(again)
    groups[1].rewards.pop()
    folder = RunFolder.create(tmp_path / "run", "")
    folder.write_rollouts(1, groups)

    policy = f"replay:{tmp_path / 'run' / 'rollouts' / 'update-000001.jsonl'}"
    status, report, err = command("--env", GUESS, "--split", "train", "--policy", policy, "--samples", 4)
    assert (status, report.episodes, report.errors, report.faults) == (0, 6, 1, {"Refused": 1})
    assert "warning: above 1% errors, which success leaves out: 1 of 24 episodes failed; the first: " in err
    assert f"{groups[1].errored[0].task}: Refused: 400: no\n" in err
    assert {row.task: (row.rewards, row.success, row.stop) for row in report.per_task} == {
        g.trajectories[0].task: (
            [t.reward for t in g.trajectories],
            [t.success for t in g.trajectories],
            [str(t.stop) for t in g.trajectories],
        )
        for g in groups
    }
    assert "tasks have no completion there" in err
    status, report, err = command("--env", GUESS, "--split", "train", "--policy", policy, "--samples", 2)
    assert [len(row.success) for row in report.per_task] == [2] * 6
    assert "it has up to 4 samples of a task, of which --samples 2 are played" in err


def test_a_replay_has_the_errors_and_the_figures_of_the_evaluation_that_it_repeats(
    tmp_path: Path, command: Any
) -> None:
    solutions = answers(ARITHMETIC)
    rows: list[Any] = [
        {"task": f"test/{i}", "group": i, "member": member, "completion": solutions[f"test/{i}"]}
        for i in range(3)
        for member in range(i, 3)
    ]
    failure = {"split": "test", "stop": "error", "turns": [], "seed": 5}
    rows += [
        {
            **failure,
            "task": "test/1",
            "group": 1,
            "member": 0,
            "error": "Refused: 400: no",
            "error_line": "a.py, line 2",
        },
        {**failure, "task": "", "index": 2, "group": 2, "member": 0, "error": "OSError: disk"},
        {**failure, "task": "test/2", "group": 2, "member": 1, "error": "Refused: 400: no"},
        {**failure, "task": "test/3", "group": 3, "member": 0, "error": "Refused: 400: no"},
    ]
    file = write(tmp_path / "r.jsonl", *rows)
    status, report, err = command("--env", ARITHMETIC, "--policy", f"replay:{file}", "--samples", 3)
    assert (status, report.episodes, report.errors, report.faults) == (0, 4, 4, {"Refused": 3, "OSError": 1})
    assert [len(row.success) for row in report.per_task] == [3, 2, 1, 0]
    assert report.success.mean == 1.0
    assert report.success_counting_errors.mean == pytest.approx((1 + 2 / 3 + 1 / 3 + 0) / 4)
    words = "4 of 10 episodes failed; the first: test/1: Refused: 400: no (a.py, line 2)"
    assert f"warning: above 1% errors, which success leaves out: {words}" in err
    failures = write(tmp_path / "f.jsonl", *rows[-4:])
    with pytest.raises(ValueError, match="no completions"):
        read_samples(failures)


def test_an_error_before_an_episode_had_a_task_is_found_by_the_place_of_its_task(tmp_path: Path, command: Any) -> None:
    lines = (
        "from dataclasses import replace\nfrom envs.math.arithmetic import Arithmetic\n\n\nclass Named(Arithmetic):\n"
    )
    load = "return [replace(task, id=f'q{number + 1}') for number, task in enumerate(super().load(split)[:4])]"
    (tmp_path / "named.py").write_text(f"{lines}    def load(self, split):\n        {load}\n")
    env, early = f"{tmp_path / 'named.py'}:Named", {"task": "", "split": "test", "stop": "error", "turns": []}
    rows: list[Any] = [
        {"task": "q1", "group": 0, "member": 1, "completion": "no"},
        {**early, "index": 0, "group": 0, "member": 0, "error": "OSError: disk"},
        {**early, "index": 0, "group": 0, "member": 1, "error": "OSError: it was played again"},
        {**early, "index": 1, "error": "OSError: without a number"},
        {"task": "q2", "completion": "no"},
        {**early, "index": 2, "error": "Refused: 400: no"},
        {**early, "split": "val", "index": 3, "error": "OSError: disk"},
    ]
    file = write(tmp_path / "r.jsonl", *rows)
    status, report, err = command("--env", env, "--policy", f"replay:{file}", "--samples", 2)
    assert (status, report.episodes, report.faults) == (0, 3, {"OSError": 1, "Refused": 1})
    assert {row.task: len(row.success) for row in report.per_task} == {"q1": 1, "q2": 1, "q3": 0}
    assert "1 tasks in it are not in split test, such as 'val/3'" in err
    status, report, _ = command("--env", env, "--policy", f"replay:{file}")
    assert (status, report.episodes, report.faults) == (0, 3, {"OSError": 1, "Refused": 1})


def test_a_failed_line_without_a_number_stands_for_its_task_only_where_no_other_line_does(
    tmp_path: Path, command: Any
) -> None:
    failure = {"stop": "error", "turns": [], "error": "OSError: disk"}
    rows: list[Any] = [
        {**failure, "task": "test/0"},
        {"task": "test/0", "completion": answers(ARITHMETIC)["test/0"]},
        {**failure, "task": "test/0"},
        {**failure, "task": "test/1", "member": None},
        {"task": "test/1", "sample": 0, "completion": answers(ARITHMETIC)["test/1"]},
        {**failure, "task": "test/2", "sample": None},
        {**failure, "task": "test/2", "group": None, "member": 0, "error": f"Refused: 400: no{FIELD_HINT}"},
    ]
    file = write(tmp_path / "r.jsonl", *rows)
    for samples in (1, 2):
        status, report, err = command("--env", ARITHMETIC, "--policy", f"replay:{file}", "--samples", samples)
        assert (status, report.episodes, report.faults) == (0, 3, {"Refused": 1})
        assert [row.success for row in report.per_task] == [[True], [True], []]
        assert "test/2: Refused: 400: no\n" in err  # no advice about requests, of which there are none here


def test_every_simple_form_is_read_and_graded(tmp_path: Path, command: Any) -> None:
    solutions = answers(ARITHMETIC)
    tasks = list(solutions)[:7]
    good = [solutions[task] for task in tasks]
    reply = {"role": "assistant", "content": good[3]}
    file = write(
        tmp_path / "c.jsonl",
        {"task": tasks[0], "completion": good[0]},
        {"task_id": tasks[1], "sample": 1, "completion": "no"},
        {"task": tasks[1], "sample": 0, "completion": good[1]},
        "",
        {"task": tasks[2], "completions": [good[2], "no", "no"]},
        {"task": tasks[3], "messages": [{"role": "user", "content": "?"}, reply]},
        {"task": tasks[4], "sample": 3, "completions": [good[4]]},
        {"task": tasks[5], "completion": reply},
        {"task": tasks[6], "completions": [["no"], [good[6], "unused"]]},
    )
    status, report, err = command("--env", ARITHMETIC, "--policy", f"replay:{file}", "--samples", 3)
    success = {row.task: row.success for row in report.per_task}
    assert success == {
        tasks[0]: [True],
        tasks[1]: [True, False],
        tasks[2]: [True, False, False],
        tasks[3]: [True],
        tasks[4]: [True],
        tasks[5]: [False],
        tasks[6]: [False, True],
    }
    assert (status, report.episodes) == (0, 7)
    assert "episodes that ended before their stored replies did: 1" in err


def test_many_turns_are_given_in_turn_and_a_sample_that_is_too_short_is_an_error(tmp_path: Path, command: Any) -> None:
    env = envs.make(GUESS)
    rows: list[Any] = []
    for ticket in tickets(len(answers(GUESS)), 5, 1, 0):
        replies = [turn.reply["content"] for turn in play_script(env, ticket, oracle).turns]  # type: ignore[index]
        rows.append({"task": f"test/{ticket.index}", "completion": replies})
    longest = max(rows, key=lambda row: len(row["completion"]))
    del longest["completion"][-1]
    status, report, err = command("--env", GUESS, "--policy", f"replay:{write(tmp_path / 'g.jsonl', *rows)}")
    assert (status, report.episodes, report.errors, report.success.mean) == (0, 5, 1, 1.0)
    number = len(longest["completion"])
    assert f"{longest['task']}: ValueError: the file has {number} repl" in err


def test_unknown_and_missing_tasks_are_told_in_one_line_and_episodes_bound_the_tasks(
    tmp_path: Path, command: Any
) -> None:
    solutions = answers(ARITHMETIC)
    rows = [{"task": task, "completion": answer} for task, answer in list(solutions.items())[:300]]
    file = write(
        tmp_path / "c.jsonl", *rows, {"task": "test/99999", "completion": "1"}, {"task": "odd", "completion": "1"}
    )
    status, report, err = command("--env", ARITHMETIC, "--policy", f"replay:{file}")
    assert (status, report.episodes, report.success.mean) == (0, 300, 1.0)
    missing = f"{len(solutions) - 300} of {len(solutions)} tasks have no completion there"
    assert err == f"{file}: {missing}; 2 tasks in it are not in split test, such as 'test/99999'\n"
    _, report, err = command("--env", ARITHMETIC, "--policy", f"replay:{file}", "--episodes", 20)
    assert report.episodes <= 20
    status, report, err = command("--env", ARITHMETIC, "--split", "val", "--policy", f"replay:{file}")
    assert (status, report, err.count("\n")) == (2, None, 1)
    assert "302 tasks in it are not in split val, such as 'test/0'" in err


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "not an object"),
        ({"completion": "1"}, "no 'task'"),
        ({"task": "a"}, "holds none of 'turns', 'messages', 'completion', 'completions'"),
        ({"task": "a", "completions": "1"}, "'completions' is no list"),
        ({"task": "a", "completion": 5}, "not a reply: a message is a dict, not int"),
        ({"task": "a", "completion": {"role": "user", "content": "1"}}, "not a reply: role 'user'"),
        ({"task": "a", "sample": -1, "completion": "1"}, "sample -1 is not a whole number from 0"),
        ({"task": "b", "sample": 0, "completion": "1"}, "task 'b' has two samples numbered 0"),
        ({"task": "a", "turns": [{"ids": [1]}]}, "a turn without 'reply'"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, row: Any, words: str) -> None:
    file = write(tmp_path / "c.jsonl", {"task": "b", "completion": "1"}, row)
    with pytest.raises(ValueError, match=f":2: {words}") as error:
        read_samples(file)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="no completions"):
        read_samples(write(tmp_path / "empty.jsonl"))
