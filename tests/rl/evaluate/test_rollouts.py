"""The episodes that an evaluation writes beside its result."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from pathlib import Path

import pytest

from rl import cli
from rl.evaluate import __main__ as evaluate
from rl.evaluate.rollouts import rollouts_path
from rl.viewer.page import page
from rl.viewer.reader import find, read
from tests.support.chat_server import Answer, completion
from tests.support.fake_endpoint import ScriptedServer, with_server


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.run(partial(evaluate.main, [str(word) for word in words]))
    return int(stop.value.code or 0)


def test_every_sample_of_every_task_can_be_read_by_the_viewer(tmp_path):
    result = tmp_path / "floor.json"
    words = ("--env", "games/GuessNumber-v0", "--policy", "random", "--episodes", "5", "--samples", "3")
    assert run(*words, "--json", result) == 0
    episodes = read(find(tmp_path / "floor.rollouts.jsonl")).episodes
    report = json.loads(result.read_text())
    assert {(episode["env"], episode["split"]) for episode in episodes} == {("games/GuessNumber-v0", "test")}
    returns: dict[str, list[float]] = {}
    for episode in episodes:
        returns.setdefault(episode["task"], []).append(episode["reward"])
    assert returns == {row["task"]: row["rewards"] for row in report["per_task"]}


def test_episodes_of_a_benchmark_name_their_own_environment(tmp_path):
    assert run("--benchmark", "core-v1", "--policy", "noop", "--episodes", "1", "--json", tmp_path / "r") == 0
    environments = [episode["env"] for episode in read(find(rollouts_path(tmp_path / "r"))).episodes]
    assert len(environments) == len(set(environments)) == 10


def test_a_strategy_s_candidates_are_all_written(tmp_path):
    words = ("--env", "math/Arithmetic-v0", "--policy", "random", "--episodes", "2", "--strategy", "majority:n=4")
    assert run(*words, "--json", tmp_path / "r.json") == 0
    members = [episode["member"] for episode in read(find(tmp_path / "r.rollouts.jsonl")).episodes]
    assert members == [0, 1, 2, 3] * 2


def test_no_episodes_are_written_if_one_asks_for_none(tmp_path):
    words = ("--env", "math/Arithmetic-v0", "--policy", "noop", "--episodes", "2", "--json", tmp_path / "r.json")
    assert run(*words, "--no-rollouts") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_a_result_is_kept_if_its_episodes_cannot_be_written(tmp_path: Path, capsys):
    (tmp_path / "r.rollouts.jsonl").mkdir()
    words = ("--env", "math/Arithmetic-v0", "--policy", "noop", "--episodes", "2", "--json", tmp_path / "r.json")
    assert run(*words) == 0
    errors = capsys.readouterr().err
    assert "the episodes were not written: " in errors
    assert f"the episodes so far are in {tmp_path}/r.partial.rollouts.jsonl" in " ".join(errors.split("\n"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "r.json",
        "r.partial.rollouts.jsonl",
        "r.rollouts.jsonl",
    ]
    assert len(read(find(tmp_path / "r.partial.rollouts.jsonl")).episodes) == 2


STOPPED = """
import os
import signal

from envs.env import Env
from envs.types import Outcome, Task, user

class Stopped(Env):
    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"{i} + 1 = ?"),), str(i + 1)) for i in range(30)]

    def reply(self, action):
        if self.task.answer == "20":
            os.kill(os.getpid(), signal.SIGINT)
        return Outcome(reward=1.0, terminated=True, success=True)

    def oracle(self):
        yield self.task.answer
"""


def test_an_evaluation_that_is_interrupted_leaves_the_episodes_that_had_ended(tmp_path: Path, capsys):
    (tmp_path / "stopped.py").write_text(STOPPED)
    (tmp_path / "r.rollouts.jsonl").write_text("of an earlier evaluation\n")
    words = ("--env", f"{tmp_path}/stopped.py:Stopped", "--policy", "noop", "--json", tmp_path / "r.json")
    assert run(*words) == 130
    assert f"the episodes so far are in {tmp_path}/r.partial.rollouts.jsonl" in " ".join(
        capsys.readouterr().err.split("\n")
    )
    episodes = read(find(tmp_path / "r.partial.rollouts.jsonl")).episodes
    assert 10 < len(episodes) < 30 and all(episode["success"] for episode in episodes)
    assert not (tmp_path / "r.json").exists()
    assert (tmp_path / "r.rollouts.jsonl").read_text() == "of an earlier evaluation\n"


def test_replies_of_an_endpoint_are_written_with_their_thinking_and_calls(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path / "cache"))
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"words": "old"}'}}
    first = completion("", tool_calls=[call], reasoning_content="The wiki may say it.")
    server = ScriptedServer(Answer(body=first), Answer(body=completion("answer Nobody", reasoning="No page says it.")))

    async def use(url: str) -> int:
        words = ("--env", "tools/Search-v0", "--policy", f"openai:toy@{url}", "--episodes", "1")
        return await asyncio.to_thread(run, *words, "--json", tmp_path / "r.json")

    assert with_server(server, use) == 0
    (episode,) = read(find(tmp_path / "r.json")).episodes
    replies = [turn["reply"] for turn in episode["turns"]]
    assert replies[0]["tool_calls"] == [call]
    assert (replies[0]["reasoning_content"], replies[1]["reasoning"]) == ("The wiki may say it.", "No page says it.")
    assert [(turn["ids"], turn["logprobs"], turn["tokens"]) for turn in episode["turns"]] == [([], [], 0), ([], [], 13)]
    sent = [
        [message for message in body["messages"] if "reasoning_content" in message] for _, _, body in server.requests
    ]
    assert [[message["reasoning_content"] for message in messages] for messages in sent] == [
        [],
        ["The wiki may say it."],
    ]
    again = run("--env", "tools/Search-v0", "--policy", f"replay:{tmp_path}/r.rollouts.jsonl", "--json", tmp_path / "s")
    assert again == 0 and json.loads((tmp_path / "s").read_text())["tokens_mean"] == 13


def test_replies_that_were_cut_while_thinking_are_counted(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path / "cache"))
    cut = completion("It must be 7, or")
    cut["choices"][0]["finish_reason"] = "length"
    server = ScriptedServer(Answer(body=completion("hm</think>7")), Answer(body=cut), Answer(body=completion("7")))

    async def use(url: str) -> int:
        words = (
            "--env",
            "math/Arithmetic-v0",
            "--policy",
            f"openai:toy@{url}",
            "--episodes",
            "3",
            "--concurrency",
            "1",
        )
        return await asyncio.to_thread(run, *words)

    assert with_server(server, use) == 0
    line = "1 of 3 replies were cut short, 1 of them without the </think> of others: thinking, graded as answers; see"
    assert line in capsys.readouterr().err


def test_tokens_of_a_local_model_have_texts_in_the_viewer(tmp_path: Path):
    words = ("--env", "games/GuessNumber-v0", "--policy", "tiny", "--episodes", "1", "--turn-tokens", "4")
    assert run(*words, "--json", tmp_path / "r.json") == 0
    source = find(tmp_path / "r.json")
    (episode,) = read(source).episodes
    assert {len(turn["ids"]) for turn in episode["turns"]} <= {1, 2, 3, 4} and episode["turns"][0]["logprobs"]
    head = re.search(rb'id="head-data"[^>]*>(.*?)</script>', page(source, read(source)), re.DOTALL)
    assert head and None not in json.loads(head[1])["vocabulary"]["texts"]
