"""`--system`, `--template-arg` and `--tool-format`: what they change, where they are recorded, who refuses them."""

from __future__ import annotations

import json
import shutil
import tomllib
from datetime import date
from functools import partial

import pytest
from transformers import AutoTokenizer

from agents.chat import with_system
from envs.types import assistant, system, user
from rl import cli
from rl.evaluate import __main__ as evaluate
from rl.evaluate.clients.client import ChatResponse
from rl.evaluate.clients.endpoint import EndpointClient
from rl.prompt_options import parse_template_args
from rl.rollout.jsonl import read_file
from tests.support import runs

TINY_UPDATE = ("--updates", "1", "--groups", "1", "--size", "2", "--eval-episodes", "1", "--cold-start", "0")
THINKING = "{%- if enable_thinking is defined and not enable_thinking -%}[no thinking]{%- endif -%}"


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    """A file with a system prompt."""
    path = tmp_path_factory.mktemp("prompt") / "rules.txt"
    path.write_text("Answer in one wörd.\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small model with a chat template of our own, which has an option."""
    folder = tmp_path_factory.mktemp("model") / "model"
    shutil.copytree(runs.small_model(), folder)
    template = folder / "chat_template.jinja"
    template.write_text(THINKING + template.read_text())
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory, rules, model):
    """A run with all three flags."""
    flags = ("--system", rules, "--template-arg", "enable_thinking=false", "--tool-format", "glm45")
    words = runs.flags("Low", "--model", model, *TINY_UPDATE, *flags)
    return runs.train_run(*words, out=tmp_path_factory.mktemp("run") / "run")


def command(capsys, *words):
    """Exit status and standard error of `rl.evaluate`."""
    with pytest.raises(SystemExit) as stop:
        cli.run(partial(evaluate.main, [str(word) for word in words]))
    return int(stop.value.code or 0), capsys.readouterr().err


def rollouts_of(run, update):
    """The file of rollouts of an update."""
    return next((run / "rollouts").glob(f"update-{update:06}.jsonl*"))


def first_prompt(model, path):
    """The text of the first prompt in a file of rollouts."""
    return AutoTokenizer.from_pretrained(model).decode(episodes_of(path)[0]["turns"][0]["context_ids"])


def episodes_of(path):
    """The episodes of a file of rollouts."""
    return [json.loads(line) for line in read_file(path)[0].decode().splitlines()]


def test_the_flags_reach_the_prompts_and_are_recorded(run, model):
    config = tomllib.loads((run / "config.toml").read_text())
    assert config["system"] == "Answer in one wörd." and config["tool_format"] == "glm45"
    assert config["template_arg"] == ["enable_thinking=false"]
    prompt = first_prompt(model, rollouts_of(run, 1))
    assert prompt.startswith("[no thinking]") and "Answer in one wörd." in prompt


def test_an_evaluation_of_the_run_takes_them_from_it_in_any_environment(run, model, rules, tmp_path, capsys):
    words = ("--env", "math/Arithmetic-v0", "--policy", run, "--episodes", 1, "--turn-tokens", 2)
    status, err = command(capsys, *words, "--json", tmp_path / "r.json")
    assert status == 0, err
    assert "--system --tool-format glm45 --template-arg enable_thinking=false" in err
    prompt = first_prompt(model, tmp_path / "r.rollouts.jsonl")
    assert prompt.startswith("[no thinking]") and "Answer in one wörd." in prompt

    other = tmp_path / "other.txt"
    other.write_text("Be quick.")
    flags = ("--system", other, "--template-arg", "enable_thinking=true")
    assert command(capsys, *words, *flags, "--json", tmp_path / "s.json")[0] == 0
    prompt = first_prompt(model, tmp_path / "s.rollouts.jsonl")
    assert "[no thinking]" not in prompt and "Be quick." in prompt and "wörd" not in prompt


def test_a_resumed_run_keeps_them_and_its_config_repeats_them(run, rules, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(run, folder, symlinks=True)
    result = runs.train("--resume", "--out", str(folder), "--updates", "2")
    assert result.code == 0, result.err
    assert tomllib.loads((folder / "config.toml").read_text())["system"] == "Answer in one wörd."
    assert "--template-arg cannot change" in runs.training_error(
        "--resume", "--out", folder, "--template-arg", "enable_thinking=true"
    )
    other = tmp_path / "other.txt"
    other.write_text("Be quick.")
    assert "--system cannot change" in runs.training_error("--resume", "--out", folder, "--system", other)
    again = runs.train("--config", str(run / "config.toml"), "--dry-run")
    assert again.code == 0 and 'system = "Answer in one wörd."' in again.out and "glm45" in again.out


@pytest.mark.parametrize(
    "flags, message",
    [
        (("--tool-format", "glm"), "--tool-format glm: unknown; did you mean glm45?"),
        (("--template-arg", "enable_thinking"), "not KEY=VALUE, such as enable_thinking=false"),
        (("--template-arg", "tools=[]"), "--template-arg tools: is set by this program"),
        (
            ("--template-arg", "enable_thought=1"),
            "--template-arg enable_thought: the model's chat template does not use",
        ),
        (("--system", "/no/such/file"), "--system /no/such/file: no such file or directory"),
        (("--system", "/dev/null"), "--system /dev/null: a pipe or a device is not read; name a regular file"),
    ],
)
def test_a_mistake_is_one_line_in_both_commands(flags, message, model, capsys):
    assert message in runs.training_error(*runs.flags("Low", "--model", model, *TINY_UPDATE), *flags)
    status, err = command(capsys, "--env", "math/Arithmetic-v0", "--policy", model, *flags)
    assert status == 2 and message in err and err.count("\n") == 1


@pytest.mark.parametrize("policy", ["random", "oracle", "human", "replay:x.jsonl"])
def test_policies_without_prompts_refuse_the_flags(policy, rules, capsys):
    for flags in (("--system", rules), ("--template-arg", "a=1"), ("--tool-format", "hermes")):
        status, err = command(capsys, "--env", "math/Arithmetic-v0", "--policy", policy, *flags)
        assert status == 2 and f"{flags[0]} means nothing to --policy {policy}" in err and err.count("\n") == 1


def test_an_endpoint_gets_the_system_prompt_and_the_template_arguments(rules, monkeypatch, capsys, tmp_path):
    requests = []

    async def complete(client, request):
        requests.append((request, client.model.fields))
        return ChatResponse(assistant("1"))

    monkeypatch.setattr(EndpointClient, "complete", complete)
    words = ("--env", "math/Arithmetic-v0", "--policy", "openai:m@http://localhost:1/v1", "--episodes", 1, "--no-cache")
    flags = ("--system", rules, "--template-arg", "enable_thinking=false")
    status, err = command(capsys, *words, *flags)
    assert status == 0, err
    request, fields = requests[0]
    assert request.messages[0]["role"] == "system" and "Answer in one wörd." in request.messages[0]["content"]
    assert fields == {"chat_template_kwargs": {"enable_thinking": False}}
    assert "--tool-format means nothing" in command(capsys, *words, "--tool-format", "hermes")[1]
    both = (*flags, "--api-arg", "chat_template_kwargs={}")
    assert "set the same field; leave one out" in command(capsys, *words, *both)[1]


def test_the_environment_s_own_system_message_follows_the_text():
    own = system("Play chess.")
    assert with_system([own, user("x")], "Be brief.") == [system("Be brief.\n\nPlay chess."), user("x")]
    assert with_system([user("x")], "Be brief.") == [system("Be brief."), user("x")]
    assert with_system([own], "") == [own]


def test_values_are_json_where_they_parse():
    assert parse_template_args(["a=1", "b=false", "c=low", 'd={"e": null}', "f="]) == {
        "a": 1, "b": False, "c": "low", "d": {"e": None}, "f": "",
    }  # fmt: skip


def test_replies_end_with_the_tokens_of_the_generation_config(model, tmp_path, capsys):
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    (folder / "generation_config.json").write_text(f'{{"eos_token_id": {list(range(298))}}}')
    words = ("--env", "math/Arithmetic-v0", "--policy", folder, "--episodes", 3, "--json", tmp_path / "r.json")
    assert command(capsys, *words)[0] == 0
    turns = [turn for episode in episodes_of(tmp_path / "r.rollouts.jsonl") for turn in episode["turns"]]
    assert [(len(turn["ids"]), turn["finish"]) for turn in turns] == [(1, "stop")] * 3


@pytest.fixture(scope="module")
def dated_model(tmp_path_factory):
    """A small model whose chat template begins with today's date, as those of Llama and gpt-oss do."""
    folder = tmp_path_factory.mktemp("dated") / "model"
    shutil.copytree(runs.small_model(), folder)
    template = folder / "chat_template.jinja"
    template.write_text('{{- strftime_now("%d %b %Y") + "\n" -}}' + template.read_text())
    return folder


def test_a_run_keeps_the_date_that_its_prompts_began_with(dated_model, tmp_path, capsys):
    day = ("--template-arg", "strftime_now=1999-12-31")
    flags = runs.flags("Low", "--model", dated_model, *TINY_UPDATE, "--rollouts", "all")
    past = runs.train_run(*flags, *day, out=tmp_path / "past")
    assert "31 Dec 1999" in first_prompt(dated_model, rollouts_of(past, 1))
    runs.train_run("--resume", "--updates", "2", out=past)
    assert "31 Dec 1999" in first_prompt(dated_model, rollouts_of(past, 2))
    file = tmp_path / "past.json"
    status, _ = command(capsys, "--env", "math/Arithmetic-v0", "--policy", past, "--episodes", 1, "--json", file)
    assert status == 0
    assert "31 Dec 1999" in first_prompt(dated_model, tmp_path / "past.rollouts.jsonl")

    present = runs.train_run(*flags, out=tmp_path / "present")
    (text,) = tomllib.loads((present / "config.toml").read_text())["template_arg"]
    name, _, kept = text.partition("=")
    assert name == "strftime_now"
    first = first_prompt(dated_model, rollouts_of(present, 1))
    assert date.fromisoformat(kept).strftime("%d %b %Y") in first


@pytest.mark.parametrize("value", ["yesterday", "2026", "2026-13-01", ""])
def test_a_date_that_is_none_is_one_line(value, dated_model, capsys):
    words = ("--env", "math/Arithmetic-v0", "--policy", dated_model, "--template-arg", f"strftime_now={value}")
    status, err = command(capsys, *words)
    assert status == 2
    assert err.count("\n") == 1
    assert f"--template-arg strftime_now={value}: not a date such as strftime_now=2026-11-28" in err
