"""Every named agent trains, is killed and resumed bit for bit, and is evaluated, on a game and on tools."""

from __future__ import annotations

import json
import signal
import tomllib
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import envs
from agents.catalogue import AGENTS, make_agent
from agents.render import Renderer
from agents.scripted import oracle
from rl import cli
from rl.evaluate import __main__ as evaluate
from rl.policy.tiny import byte_tokenizer
from rl.records import Ticket
from rl.rollout.jsonl import read_file
from rl.rollout.scripted import play_script, tokenize
from tests.support import runs

SPECS = (
    *("keep_all", "window:turns=1", "summarise:tokens=20,turns=0,length=8", "reminders:turns=3", "team:rounds=1"),
    "extension:turns=1,more=1,length=8",
    "skills:length=8",
    "stack:depth=2",
    "experience:length=8",
)
CHAIN = f"chain:{runs.TASKS}:Low"  # which an untrained model solves now and then
ENVS = ("games/GuessNumber-v0", "tools/Clarify-v0")
MORE = {"lag": 1, "updates": 2, "save_every": 1, "env_arg": "style=short", "max_tokens": 1800, "size": 2}
HALFWAY = ("rl.train.run_folder:RunFolder", "write_rollouts", 2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The folder of a whole run of an environment and an agent."""

    def run(env: str, spec: str) -> Path:
        name = f"{env.replace('/', ' ')} {spec.partition(':')[0]}"
        out = tmp_path_factory.getbasetemp() / name
        return out if out.exists() else runs.train_run(*runs.flags(env, **MORE, agent=spec), out=out)

    return run


def turns_of(path: Path) -> list[list[dict[str, Any]]]:
    content, fault = read_file(path)
    assert not fault
    return [json.loads(line)["turns"] for line in content.decode().splitlines()]


def test_every_agent_is_run_here() -> None:
    assert {spec.partition(":")[0] for spec in SPECS} == set(AGENTS)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("env", ENVS)
def test_it_trains_on_its_own_tokens_and_is_recorded(trained: Any, env: str, spec: str) -> None:
    folder = trained(env, spec)
    assert tomllib.loads((folder / "config.toml").read_text())["agent"] == spec
    for line in runs.metrics(folder):
        assert line["tokens/trained"] > 0
        assert line["episodes/errored"] == line["episodes/policy_faults"] == 0
        assert line["lag/mean"] or abs(line["kl/sampler_trainer"]) < 1e-4  # the trainer read what the sampler read
    turns = [turn for update in (1, 2) for episode in runs.rollouts(folder, update) for turn in episode["turns"]]
    name = spec.partition(":")[0]
    asks = AGENTS[name].has_internal_replies and name not in ("skills", "stack")  # between tasks; if the policy calls
    assert any(turn.get("internal") for turn in turns) == asks
    for turn in turns:
        assert len(turn["advantage"]) == len(turn["ids"])
        assert not (turn.get("internal") and turn["reward"])


@pytest.mark.parametrize("spec", SPECS)
def test_a_killed_run_goes_on_bit_for_bit(trained: Any, spec: str, tmp_path: Path) -> None:
    out, words = tmp_path / "run", runs.flags(ENVS[0], **MORE, agent=spec)
    result = runs.Child(*words, "--out", str(out), log=tmp_path / "log", die=HALFWAY).wait()
    assert result.code == -signal.SIGKILL, result.out
    assert runs.train("--resume", "--out", str(out)).code == 0
    runs.assert_same_run(out, trained(ENVS[0], spec))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("env", ENVS)
def test_an_evaluation_plays_with_the_agent_of_the_run(trained: Any, env: str, spec: str, tmp_path: Path) -> None:
    result = tmp_path / "r.json"
    words = ["--env", env, "--policy", str(trained(env, spec)), "--episodes", "2", "--json", str(result)]
    with pytest.raises(SystemExit) as stop:
        cli.run(partial(evaluate.main, words))
    assert not stop.value.code
    report = json.loads(result.read_text())
    episodes = turns_of(result.with_suffix(".rollouts.jsonl"))
    replies = [sum(not turn.get("internal") for turn in turns) for turns in episodes]
    assert sorted(replies) == sorted(turns for task in report["per_task"] for turns in task["turns"])
    assert report["errors"] == 0
    num_tokens = sum(len(turn["ids"]) for turns in episodes for turn in turns)
    assert report["tokens_mean"] == pytest.approx(num_tokens / 2)


def test_the_bundled_model_begins_with_demonstrations_in_short_words(tmp_path: Path) -> None:
    words = ("--updates", "1", "--groups", "2", "--size", "2", "--cold-start", "8", "--cold-start-until", "0")
    more = ("--eval-episodes", "0", "--threads", "1", "--agent", "team", "--model", "tiny")
    out = runs.train_run("--env", ENVS[0], *words, *more, out=tmp_path / "run")
    (first, *_) = runs.rollouts(out, 1)
    assert tomllib.loads((out / "config.toml").read_text())["agent"] == "team"
    roles = [turn["role"] for turn in first["turns"][:4]]
    assert roles == ["planner", "executor", "verifier", "generator"]


@pytest.mark.parametrize("spec", ["summarise:tokens=20,turns=0,length=8", "team:rounds=1"])
def test_each_seat_has_its_own_replies_between_those_that_the_others_see(spec: str, tmp_path: Path) -> None:
    out = runs.train_run(*runs.flags("multi/PlanPath-v0", **{**MORE, "lag": 0, "updates": 1}, agent=spec), out=tmp_path)
    (line,) = runs.metrics(out)
    assert line["episodes/errored"] == line["episodes/policy_faults"] == 0
    assert abs(line["kl/sampler_trainer"]) < 1e-4
    episodes = runs.rollouts(out, 1)
    assert {episode["agent"] for episode in episodes} == {"planner", "executor"}
    assert all(any(turn["internal"] for turn in episode["turns"] if "role" in turn) for episode in episodes)


@pytest.mark.parametrize(
    "spec, env, roles",
    [
        ("skills", f"chain:{runs.TASKS}:Low", ["", "skill", ""]),
        ("stack", f"{runs.TASKS}:Steps", ["", "subtask", "subtask", "", ""]),
    ],
)
def test_demonstrations_show_what_an_untrained_model_never_says(spec: str, env: str, roles: list[str]) -> None:
    renderer = Renderer(byte_tokenizer())
    played = play_script(envs.make(env), Ticket(0, 0, "train", 7, 1, 0), oracle)
    trajectory = tokenize(played, make_agent(spec, renderer, style="short"), renderer.write)
    assert [turn.role for turn in trajectory.turns] == roles
    assert [turn.reply for turn in trajectory.replies] == [turn.reply for turn in played.turns]


def test_skills_are_asked_for_between_the_tasks_of_a_chain_and_resumed_bit_for_bit(tmp_path: Path) -> None:
    words = runs.flags(CHAIN, **{**MORE, "env_arg": "tasks=3"}, agent="skills:length=8", shape="skill_bonus")
    whole, out = runs.train_run(*words, out=tmp_path / "whole"), tmp_path / "run"
    episodes = [episode["turns"] for update in (1, 2) for episode in runs.rollouts(whole, update)]
    for turns in episodes:
        assert sum(not turn.get("internal") for turn in turns) == 3
        for before, turn in pairwise(turns):
            solved = before["metrics"].get("task_solved")
            assert (turn.get("role") == "skill") == (solved == 1.0)
            assert turn["fresh"] == (solved == 0.0 or bool(before.get("internal")))
    assert any(turn.get("internal") for turns in episodes for turn in turns)
    result = runs.Child(*words, "--out", str(out), log=tmp_path / "log", die=HALFWAY).wait()
    assert result.code == -signal.SIGKILL, result.out
    assert runs.train("--resume", "--out", str(out)).code == 0
    runs.assert_same_run(out, whole)


def test_a_method_that_samples_single_turns_refuses_agents_that_ask_themselves() -> None:
    message = "--agent team asks for replies of its own, and the method's strategy samples single turns"
    flags = runs.flags("multi/PlanPath-v0", algo="at_grpo", agent="team", env_arg="style=short")
    assert message in runs.training_error(*flags)
