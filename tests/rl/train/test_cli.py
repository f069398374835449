"""The command `python -m rl.train`: one-line errors, settings that repeat a run, and the files that a run writes."""

import json
import re
import subprocess
import tomllib

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl import cli
from rl.policy import tiny
from rl.policy.pretrained import save_pretrained
from rl.train.__main__ import main
from tests.support.paths import ENVIRONMENTS

ARITHMETIC = ["--env", "math/Arithmetic-v0"]
SMALL = [*ARITHMETIC, "--groups", "2", "--size", "2", "--updates", "2", "--eval-episodes", "4", "--turn-tokens", "4"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_pretrained(*tiny.create(hidden=32, layers=1, heads=1, intermediate=32), folder)
    return str(folder)


def run_command(argv, capsys):
    """Return the exit code of a command, its output and its errors."""
    with pytest.raises(SystemExit) as exit:
        cli.run(lambda: main(list(map(str, argv))))
    out, err = capsys.readouterr()
    return exit.value.code, out, err


@pytest.fixture(scope="module")
def run_folder(model, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main([*SMALL, "--model", model, "--out", str(out), "--surrogate", "clip:high=0.3"]) == 0
    return out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--env", "math/Arithmetik-v0"], ["math/Arithmetik-v0", "math/Arithmetic-v0"]),
        ([], ["--env"]),
        ([*ARITHMETIC, "--algo", "drgrpo"], ["drgrpo", "dr_grpo"]),
        ([*ARITHMETIC, "--updats", "3"], ["--updats", "--updates"]),
        ([*ARITHMETIC, "--updates", "-1"], ["--updates -1", "at least 0"]),
        ([*ARITHMETIC, "--groups", "0"], ["--groups 0", "at least 1"]),
        ([*ARITHMETIC, "--lr", "0"], ["--lr 0", "greater than 0"]),
        ([*ARITHMETIC, "--size", "1"], ["--size 1", "--algo reinforce"]),
        ([*ARITHMETIC, "--env-arg", "level=9"], ["9", "0, 1, 2, 3"]),
        ([*ARITHMETIC, "--env-arg", "levle=1"], ["levle", "level"]),
        ([*ARITHMETIC, "--surrogate", "clp"], ["clp", "clip"]),
        ([*ARITHMETIC, "--surrogate", "clip:hi=1"], ["hi", "low, high"]),
        ([*ARITHMETIC, "--ratio", "clip"], ["--ratio", "clip"]),
        ([*ARITHMETIC, "--model", "/nowhere/model"], ["/nowhere/model"]),
        ([*ARITHMETIC, "--device", "tpu"], ["tpu"]),
        ([*ARITHMETIC, "--engine", "vllm"], ["vllm", "hf"]),
        ([*ARITHMETIC, "--config", "/nowhere.toml"], ["/nowhere.toml"]),
        ([*ARITHMETIC, "--resume"], ["--resume", "--out"]),
        ([*ARITHMETIC, "--max-tokens", "10", "--turn-tokens", "4"], ["--max-tokens 10"]),
        ([*ARITHMETIC, "--turn-tokens", "600"], ["--turn-tokens 600"]),
        ([*ARITHMETIC, "--minibatches", "99"], ["--minibatches 99"]),
        ([*ARITHMETIC, "--data-root", "/nowhere"], ["/nowhere"]),
        ([*ARITHMETIC, "--target-success", "0.9"], ["--target-success 0.9", "--eval-every"]),
        ([*ARITHMETIC, "--target-success", "90", "--eval-every", "5"], ["--target-success", "90"]),
        (
            [*ARITHMETIC, "--target-success", "0.9", "--eval-every", "9", "--updates", "8"],
            ["--target-success 0.9: --eval-every 9 never measures it in --updates 8"],
        ),
        ([*ARITHMETIC, "--max-minutes", "0"], ["--max-minutes", "0"]),
        ([*ARITHMETIC, "--algo", "spec_rl", "--engines", "2"], ["recalled", "--engine hf", "--engines 1"]),
        ([*ARITHMETIC, "--algo", "arrol", "--engines", "2"], ["pruned", "--engine hf", "--engines 1"]),
    ],
)
def test_a_mistake_is_one_line_that_names_the_value(argv, words, capsys):
    code, out, err = run_command(argv, capsys)
    assert code == 2 and out == ""
    assert err.count("\n") == 1 and "Traceback" not in err
    assert all(word in err for word in words), err


def test_missing_data_is_one_line_that_names_the_flag(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("TURNWISE_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, _, err = run_command(["--env", "math/GSM8K-v0", "--data-root", tmp_path], capsys)
    assert code == 2 and err.count("\n") == 1 and "gsm8k" in err


def test_without_tasks_to_train_on_no_others_are_trained_on(capsys):
    code, _, err = run_command(["--env", f"{ENVIRONMENTS}:SomeSplits"], capsys)
    assert code == 2 and err == f"{cli.program()}: error: split 'train' needs a file\n"


@pytest.mark.parametrize("more", [["--algo", "opo"], ["--algo", "reinforce_pp_baseline"], ["--keep", "varied"]])
def test_a_group_of_one_is_refused_where_it_would_teach_nothing(more, model, capsys):
    argv = [*ARITHMETIC, "--model", model, "--algo", "reinforce", "--size", "1", "--dry-run"]
    assert run_command(argv, capsys)[0] == 0
    code, _, err = run_command([*argv, *more], capsys)
    assert code == 2 and err.count("\n") == 1 and "--size 1: " in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("env = ", ["TOML"]),
        ('env = "math/Arithmetic-v0"\nupdats = 3', ["updats", "updates"]),
        ('env = "math/Arithmetic-v0"\ngroups = 0', ["groups", "at least 1"]),
        ('env = "math/Arithmetic-v0"\nenv_arg = 2', ["env_arg", "list"]),
        ('env = "math/Arithmetic-v0"\nsurrogate = 3', ["surrogate", "text"]),
    ],
)
def test_a_mistake_in_a_config_file_names_the_file_and_the_key(text, words, capsys, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    code, _, err = run_command(["--config", file], capsys)
    assert code == 2 and err.count("\n") == 1
    assert all(word in err for word in ["mine.toml", *words]), err


def test_a_model_folder_without_or_with_broken_weights_is_one_line(model, capsys, tmp_path):
    code, _, err = run_command([*ARITHMETIC, "--model", tmp_path], capsys)
    assert code == 2 and err.count("\n") == 1 and str(tmp_path) in err
    folder = tmp_path / "broken"
    save_pretrained(*tiny.create(hidden=32, layers=1, heads=1, intermediate=32), folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    code, _, err = run_command([*ARITHMETIC, "--model", folder], capsys)
    assert code == 2 and err.count("\n") == 1 and "broken" in err


def test_an_out_that_cannot_be_written_or_is_taken_is_one_line(model, run_folder, capsys, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    code, _, err = run_command([*SMALL, "--model", model, "--out", file / "run"], capsys)
    assert code == 2 and err.count("\n") == 1 and str(file) in err
    code, _, err = run_command([*SMALL, "--model", model, "--out", run_folder], capsys)
    assert code == 2 and err.count("\n") == 1 and "--resume" in err


def test_a_dry_run_prints_the_arithmetic_and_the_settings_and_writes_nothing(model, capsys, tmp_path):
    code, out, _ = run_command([*SMALL, "--model", model, "--out", tmp_path / "run", "--dry-run"], capsys)
    assert code == 0 and not (tmp_path / "run").exists()
    assert "2 groups x 2 episodes x at most 1 turn -> 4 episodes, 2 optimiser steps per update, 2 updates" in out
    settings = tomllib.loads(out[out.index("env =") :])
    assert settings["groups"] == 2 and settings["surrogate"] == "clip"


def test_a_run_leaves_what_the_documentation_says(run_folder):
    lines = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    always = (
        "update reward/mean success/mean time/update_s tokens/sampled tokens/trained entropy kl/sampler_trainer "
        "groups/kept groups/zero_variance lag/mean episodes/errored"
    )
    assert [line["update"] for line in lines] == [1, 2]
    assert all(set(always.split()) <= line.keys() for line in lines)
    summary = json.loads((run_folder / "summary.json").read_text())
    results = {"success_before", "success_after", "best_update", "best_success"}
    assert set(summary) == results | {"updates", "episodes", "wall_s", "tokens_per_s"}
    assert summary["episodes"] == 8
    settings = tomllib.loads((run_folder / "config.toml").read_text())
    assert settings["surrogate"] == "clip:high=0.3" and settings["lr"] > 0
    assert list((run_folder / "tb").iterdir())


def test_every_rollout_line_holds_what_a_reader_of_it_needs(run_folder):
    lines = [json.loads(line) for line in (run_folder / "rollouts" / "update-000002.jsonl").read_text().splitlines()]
    assert len(lines) == 4 and len({line["group"] for line in lines}) == 2
    for line in lines:
        assert {"task", "member", "seed", "reward", "success", "stop", "answer"} <= line.keys()
        for turn in line["turns"]:
            assert turn["observation"][0]["role"] == "user" and turn["reply"]["role"] == "assistant"
            assert len(turn["ids"]) == len(turn["logprobs"]) == len(turn["advantage"]) > 0
            assert max(turn["logprobs"]) <= 0


def test_a_checkpoint_loads_with_the_auto_classes(run_folder):
    folder = run_folder / "checkpoints" / "latest" / "model"
    reloaded_model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([tokenizer.encode("<|user|>1 + 1 = ?<|end|><|assistant|>")])
    assert torch.isfinite(reloaded_model(ids).logits).all()


def test_the_settings_a_run_wrote_repeat_it_bit_for_bit(run_folder, tmp_path, capsys):
    again = tmp_path / "again"
    code, _, _ = run_command(["--config", run_folder / "config.toml", "--out", again], capsys)
    assert code == 0
    first, second = (
        [
            {k: v for k, v in json.loads(line).items() if not k.startswith("time/")}
            for line in file.read_text().splitlines()
        ]
        for file in (run_folder / "metrics.jsonl", again / "metrics.jsonl")
    )
    assert first == second
    weights = [
        (run / "checkpoints" / "latest" / "model" / "model.safetensors").read_bytes() for run in (run_folder, again)
    ]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    "flags",
    [
        ["--engine", "vllm:process", "--engine-devices", "4,5", "--trainers", "4", "--trainer-devices", "0,1,2,3"],
        ["--engines", "2", "--engine-devices", "4;5", "--workers", "3"],
    ],
)
def test_a_dry_run_of_another_machine_needs_neither_its_devices_nor_vllm_and_starts_no_process(
    flags, model, capsys, monkeypatch
):
    def refuse(*args, **kwargs):
        raise AssertionError("a dry run started a process")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    code, out, err = run_command([*SMALL, "--model", model, *flags, "--dry-run"], capsys)
    settings = tomllib.loads(out[out.index("env =") :])
    assert code == 0, err
    assert f"neither started nor checked on this machine: {' '.join(flags[:2])}" in out
    for flag, value in zip(flags[::2], flags[1::2], strict=True):
        assert str(settings[flag[2:].replace("-", "_")]) == value


def test_slot_flags_are_part_of_the_settings(model, capsys):
    flags = ["--penalty", "kl_k3:coef=0.01", "entropy_bonus:coef=0.001", "--surrogate", "clip:high=0.3"]
    code, out, _ = run_command([*SMALL, "--model", model, *flags, "--dry-run"], capsys)
    settings = tomllib.loads(out[out.index("env =") :])
    assert code == 0
    assert settings["penalty"] == ["kl_k3:coef=0.01", "entropy_bonus:coef=0.001"]
    assert settings["surrogate"] == "clip:high=0.3"


def test_tensorboard_shows_what_the_metrics_say(run_folder):
    events = EventAccumulator(str(run_folder / "tb"))
    events.Reload()
    lines = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    for key in lines[0]:
        assert [event.step for event in events.Scalars(key)] == [1, 2]
        assert [event.value for event in events.Scalars(key)] == pytest.approx([line[key] for line in lines])


def test_flags_win_over_the_file(run_folder, capsys):
    code, out, _ = run_command(["--config", run_folder / "config.toml", "--groups", "3", "--dry-run"], capsys)
    assert code == 0 and "3 groups x 2 episodes" in out and 'surrogate = "clip:high=0.3"' in out


def test_environments_and_methods_are_listed_with_a_line_each(capsys):
    code, out, _ = run_command(["--env", "list"], capsys)
    assert code == 0 and "math/Arithmetic-v0" in out
    code, out, _ = run_command(["--algo", "list"], capsys)
    assert code == 0 and {"grpo", "ppo", "gspo", "dapo"} <= {line.split()[0] for line in out.splitlines()}


@pytest.mark.parametrize(
    "algo", ["reinforce", "rloo", "dr_grpo", "dapo", "gspo", "ppo", "reinforce_pp", "opo", "cispo"]
)
def test_every_method_trains_through_the_command_line(algo, model, tmp_path, capsys):
    flags = [
        "--algo",
        algo,
        "--model",
        model,
        "--cold-start",
        "20",
        "--cold-start-until",
        "0.02",
        "--out",
        tmp_path / "run",
    ]
    extra = ["--keep", "any_group"] if algo == "dapo" else []
    code, _, err = run_command([*SMALL, *flags, *extra], capsys)
    assert code == 0, err
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 2 and all(line["loss"] is not None and line["grad_norm"] is not None for line in lines)


def test_a_gain_of_the_answer_needs_an_answer(capsys):
    code, _, err = run_command(["--env", "games/FrozenLake-v0", "--algo", "igpo"], capsys)
    assert code == 2
    assert "games/FrozenLake-v0 has no info['answer']" in err


def test_a_run_ends_at_its_tokens_and_goes_on_with_more(tmp_path):
    out = tmp_path / "run"
    command = [*SMALL, "--cold-start", "0", "--out", str(out), "--sampled-tokens", "20"]
    assert main([*command, "--updates", "50"]) == 0
    token_counts = [json.loads(line)["tokens/sampled"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert sum(token_counts) >= 20 > sum(token_counts[:-1])
    assert main(["--resume", "--out", str(out), "--sampled-tokens", "40"]) == 0
    assert len((out / "metrics.jsonl").read_text().splitlines()) > len(token_counts)


def test_a_run_ends_at_its_time_or_success_and_goes_on_with_more(tmp_path, capsys):
    out = tmp_path / "run"
    command = [*SMALL, "--cold-start", "0", "--out", str(out), "--max-minutes", "1e-6"]
    assert main([*command, "--updates", "40"]) == 0
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 1
    before, _, after = capsys.readouterr().out.partition("ended after update 1 by --max-minutes 1e-06: ")
    assert after.startswith("updates have taken 0.0") and before.splitlines()[-1].startswith("update  1/40  reward ")
    more = ["--max-minutes", "99", "--eval-every", "2", "--eval-episodes", "2", "--target-success", "0"]
    with_evaluations = tmp_path / "evaluated"
    command = [*SMALL, "--cold-start", "0", "--out", str(with_evaluations), *more]
    assert main([*command, "--updates", "4"]) == 0
    assert len((with_evaluations / "metrics.jsonl").read_text().splitlines()) == 2
    assert "ended after update 2 by --target-success 0: validation success is 0.000" in capsys.readouterr().out
    assert main(["--resume", "--out", str(with_evaluations), "--target-success", "1"]) == 0
    assert len((with_evaluations / "metrics.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize(("env", "tokens"), [("math/Arithmetic-v0", 8), ("math/Sets-v0", 42)])
def test_a_reply_may_be_twice_as_long_as_the_oracles(env, tokens, capsys):
    assert main(["--env", env, "--dry-run"]) == 0
    assert f"turn_tokens = {tokens}\n" in capsys.readouterr().out


def test_a_dry_run_says_that_a_cold_start_needs_an_oracle(tmp_path, capsys):
    source = "from tests.support.environments import Echo\n\n\nclass Mute(Echo):\n    oracle = Echo.__mro__[1].oracle\n"
    (tmp_path / "mute.py").write_text(source)
    command = ["--env", f"{tmp_path / 'mute.py'}:Mute", "--dry-run"]
    code, _, err = run_command(command, capsys)
    assert (code, err.count("\n")) == (2, 1)
    assert "Mute has no oracle policy; define oracle() in Mute; --cold-start 0 begins without one" in err
    assert run_command([*command, "--cold-start", "0"], capsys)[0] == 0


@pytest.mark.parametrize(
    ("start", "complaint"),
    [
        (
            "return 'hello'",
            "reset of task train/0 seed 0 before the run: TypeError: what start() returns must be a tuple",
        ),
        ("return int('x')", "wrong.py, line 6: ValueError: invalid literal"),
        ("return ({'content': 'x'},)", "TypeError: what start() returns: role None is not one of"),
        ("return {}['q']", "wrong.py, line 6: KeyError: 'q'"),
        ("assert False, 'odd'", "wrong.py, line 6: AssertionError: odd"),
    ],
)
def test_a_fault_of_the_first_reset_is_one_line_with_its_place(start, complaint, tmp_path, capsys):
    source = (
        "from tests.support.environments import Echo\n\n\nclass Wrong(Echo):\n    def start(self):\n        " + start
    )
    (tmp_path / "wrong.py").write_text(f"{source}\n")
    flags = ["--env", f"{tmp_path / 'wrong.py'}:Wrong", "--env-arg", "max_turns=3", "--dry-run"]
    code, _, err = run_command(flags, capsys)
    assert (code, err.count("\n")) == (2, 1) and complaint in err
    assert re.search(r"`python -m envs check \S+:Wrong --env-arg max_turns=3[^`]*` says more", err)
