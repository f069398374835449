"""The command `rl.evaluate`: policies, output, JSON and error messages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest

import envs
from rl import cli, config_file, settings
from rl.evaluate import __main__ as evaluate
from rl.evaluate import policies
from rl.evaluate.report import Report
from rl.evaluate.runner import SCRIPTS, count_tasks
from rl.policy.pretrained import save_pretrained
from rl.policy.tiny import create
from tests.support.paths import ENVIRONMENTS, ROOT

ARITHMETIC = ("--env", "math/Arithmetic-v0")


KEYS = {field.name for field in fields(Report)} | {"sha256"}


def command(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Run `rl.evaluate` and return the exit status, standard output and standard error."""
    with pytest.raises(SystemExit) as stop:
        cli.run(partial(evaluate.main, [str(word) for word in words]))
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def evaluate_to_report(capsys: pytest.CaptureFixture[str], folder: Path, *words: object) -> Report:
    """Run `rl.evaluate`, which must succeed, and return its report."""
    status, out, err = command(capsys, *words, "--json", folder / "report.json")
    assert (status, "success" in out) == (0, True), err
    return Report.from_json(folder / "report.json")


def test_the_oracle_wins_everything_noop_nothing_and_the_random_floor_lies_between(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for env in ("math/Arithmetic-v0", "games/GuessNumber-v0", "games/FrozenLake-v0"):
        scores = {}
        for policy in SCRIPTS:
            report = evaluate_to_report(capsys, tmp_path, "--env", env, "--policy", policy, "--samples", 2)
            assert (report.errors, report.episodes) == (0, min(200, count_tasks(envs.make(env))))
            scores[policy] = report.success.mean
        assert (scores["oracle"], scores["noop"]) == (1.0, 0.0)
        assert 0 <= scores["random"] < 0.5
    guesses = evaluate_to_report(capsys, tmp_path, "--env", "games/GuessNumber-v0", "--policy", "random")
    assert 0.1 < (guesses.success.mean or 0) < 0.5


def test_a_model_is_evaluated_twice_with_the_same_bytes_and_exactly_the_promised_keys(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = (*ARITHMETIC, "--policy", "tiny", "--episodes", 12, "--samples", 2, "--turn-tokens", 4)
    assert command(capsys, *flags, "--json", tmp_path / "a.json")[0] == 0
    status, out, err = command(capsys, *flags, "--json", tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    result = json.loads((tmp_path / "a.json").read_text())
    assert result.keys() == KEYS
    assert result["success"].keys() == {"mean", "low", "high"}
    assert result["per_task"][0].keys() == {"task", "rewards", "success", "turns", "stop"}
    assert (result["env"], result["policy"], result["benchmark"]) == ("math/Arithmetic-v0", "tiny", None)
    assert (result["episodes"], result["samples"], result["seed"], result["errors"]) == (12, 2, 0, 0)
    assert result["pass_at"].keys() == result["cons_at"].keys() == {"1", "2"}
    limits = {"turn_tokens": 4, "max_tokens": 2048}  # as many positions as the bundled model has
    assert result["sampling"] == {"temperature": 1.0, "top_p": 1.0, "top_k": 0, **limits}
    assert 1 <= result["tokens_mean"] <= 4
    assert (status, out.count("played")) == (0, 1)
    assert " of 24 replies were cut short; see --turn-tokens and --max-tokens\n" in err


def test_another_process_writes_the_same_bytes_and_prints_the_table_alone(tmp_path: Path) -> None:
    flags = ("--env", "games/GuessNumber-v0", "--policy", "random", "--samples", "2", "--episodes", "30")
    files, outputs = [], []
    for hash_seed in ("1", "2"):
        file = tmp_path / f"{hash_seed}.json"
        process = subprocess.run(
            (sys.executable, "-m", "rl.evaluate", *flags, "--json", file),
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "FORCE_COLOR": "1"},
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        assert (process.returncode, process.stderr) == (0, "")
        files.append(file.read_bytes())
        outputs.append(process.stdout)
    assert files[0] == files[1]
    assert outputs[0] == outputs[1]
    assert "policy" in outputs[0].splitlines()[1]


def test_a_run_folder_says_what_flags_leave_open_and_its_checkpoints_say_it_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run_settings = settings.Settings(env="math/Arithmetic-v0", env_arg=["level=0", "max_turns=2"], turn_tokens=3)
    checkpoint = tmp_path / "run" / "checkpoints" / "update-000001"
    checkpoint.mkdir(parents=True)
    save_pretrained(*create(), checkpoint / "model")
    (checkpoint.parent / "latest").symlink_to(checkpoint.name)
    (tmp_path / "run" / "config.toml").write_text(config_file.to_toml(run_settings.with_defaults(1), {}))

    for policy in (tmp_path / "run", checkpoint, checkpoint / "model"):
        status, out, err = command(capsys, *ARITHMETIC, "--policy", policy, "--json", tmp_path / "r.json")
        assert (status, "11 tasks" in out) == (0, True), err  # level 0 has so few
        assert (
            f"as in {tmp_path / 'run'}: --env-arg level=0 --env-arg max_turns=2 --turn-tokens 3 --max-tokens 512" in err
        )
        assert json.loads((tmp_path / "r.json").read_text())["tokens_mean"] == 3

    flags = ("--env-arg", "level=1", "--turn-tokens", 2, "--max-tokens", 100, "--episodes", 5)
    status, out, err = command(capsys, *ARITHMETIC, "--policy", tmp_path / "run", *flags)
    assert (status, "5 tasks" in out) == (0, True)
    assert f"as in {tmp_path / 'run'}: --env-arg max_turns=2\n" in err

    status, out, err = command(
        capsys, "--env", "games/GuessNumber-v0", "--policy", tmp_path / "run", "--episodes", 2, "--turn-tokens", 2
    )
    assert (status, "as in" in err) == (0, False)


def test_a_comparison_is_printed_and_what_cannot_be_compared_is_not_played(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate_to_report(capsys, tmp_path, *ARITHMETIC, "--policy", "noop", "--episodes", 40)
    status, out, _ = command(capsys, *ARITHMETIC, "--policy", "oracle", "--compare", tmp_path / "report.json")
    assert status == 0
    for line in ("compared to  noop", "+100.0 points", "p < 0.001, exact McNemar", "40 paired: 40 gained", "better"):
        assert line in out
    monkeypatch.setattr(policies, "evaluate_script", None)
    status, out, err = command(
        capsys, *ARITHMETIC, "--policy", "oracle", "--seed", 1, "--compare", tmp_path / "report.json"
    )
    assert (status, out) == (2, "")
    assert err.endswith(
        "error: cannot compare: seed is 1 here and 0 in the earlier result; add --seed 0, or compare with another result\n"
    )


def test_another_split_is_not_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    evaluate_to_report(capsys, tmp_path, *ARITHMETIC, "--policy", "noop", "--episodes", 2)
    flags = *ARITHMETIC, "--split", "val", "--policy", "noop", "--compare", tmp_path / "report.json"
    status, out, err = command(capsys, *flags)
    assert (status, out) == (2, "")
    assert "cannot compare: split is 'val' here and 'test' in the earlier result; add --split test, or" in err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, a file on a disk that is full")
def test_a_result_that_cannot_be_written_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = command(capsys, *ARITHMETIC, "--policy", "oracle", "--episodes", 2, "--json", "/dev/full")
    assert (status, "100.0%" in out) == (2, True)
    assert err.endswith("error: --json /dev/full: no space left on device\n")
    assert not os.path.isfile("/dev/full")


def test_other_arguments_of_the_environment_are_not_compared_but_defaults_said_aloud_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert evaluate_to_report(capsys, tmp_path, *ARITHMETIC, "--policy", "noop", "--env-arg", "level=1").env_args == {
        "style": "full"
    }
    flags = (*ARITHMETIC, "--policy", "oracle", "--compare", tmp_path / "report.json")
    assert command(capsys, *flags)[0] == 0
    status, out, err = command(capsys, *flags, "--env-arg", "level=2")
    assert (status, out) == (2, "")
    assert "env argument level is 2 here and 'default' in the earlier result; leave out --env-arg level, or" in err


def test_errors_are_counted_apart_and_a_wholly_failed_evaluation_says_why(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ("--env", f"{ENVIRONMENTS}:Fails", "--policy", "oracle", "--json", tmp_path / "report.json")
    status, out, err = command(capsys, *flags)
    result = json.loads((tmp_path / "report.json").read_text())
    assert (status, result["errors"], result["success"]["mean"]) == (0, 1, 1.0)
    assert "errors     1 left out" in out
    assert re.search(
        r"1 of 3 episodes failed; the first: test/1: OSError: sandbox 1 is down \(\S+\.py, line \d+\)\n$", err
    )

    status, out, err = command(capsys, *flags, "--env-arg", "everywhere=true")
    result = json.loads((tmp_path / "report.json").read_text())
    assert (status, out, result["errors"], result["success"]["mean"]) == (1, "", 3, None)
    assert re.search(
        r"all 3 episodes failed; the first: test/0: OSError: sandbox 0 is down \(\S+\.py, line \d+\)\n$", err
    )
    assert err.count("\n") == 1


def test_replies_that_make_an_environment_fail_are_counted_and_the_first_error_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, err = command(capsys, "--env", f"{ENVIRONMENTS}:Picky", "--policy", "noop")
    assert (status, "policy_fault" in out) == (0, True)
    assert re.search(
        r"3 episodes ended by replies that make the environment fail, scored as failures; the first: test/0: "
        r"KeyError: '' \(\S+\.py, line \d+\)\n$",
        err,
    )


def test_the_command_that_finds_a_fault_has_the_arguments_of_the_environment(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mute.py").write_text(
        "from tests.support.environments import Echo\n\n\nclass Mute(Echo):\n"
        "    def __init__(self, *, word='', **limits):\n        super().__init__(**limits)\n\n"
        "    def oracle(self):\n        raise NotImplementedError\n"
    )
    flags = (
        "--env",
        f"{tmp_path / 'mute.py'}:Mute",
        "--policy",
        "oracle",
        "--env-arg",
        "word=a b",
        "--env-arg",
        "max_turns=3",
    )
    status, _, err = command(capsys, *flags)
    assert status == 1 and "mute.py:Mute --env-arg 'word=a b' --env-arg max_turns=3` says where" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--env math/Arithmetik-v0", "unknown environment 'math/Arithmetik-v0'; did you mean 'math/Arithmetic-v0'?"),
        ("--env CartPole-v1", "CartPole-v1 has no tasks to play: CartPoleEnv does not derive from Env"),
        ("--env math/Arithmetic-v0 --split tset", "--split tset: unknown; did you mean test?"),
        ("--env math/Arithmetic-v0 --episodes 0", "--episodes 0: must be at least 1"),
        ("--env math/Arithmetic-v0 --env-arg level=9", "level 9 is not one of 0, 1, 2, 3"),
        ("--env math/Arithmetic-v0 --env-arg levle=1", "unknown argument 'levle' in Arithmetic; did you mean 'level'?"),
        ("--env math/Arithmetic-v0 --json /no/such/r.json", "--json /no/such/r.json: there is no folder /no/such"),
        (
            "--env math/Arithmetic-v0 --compare /no/such.json",
            "--compare /no/such.json: no such file or directory; name a file that --json has written",
        ),
        ("--env math/Arithmetic-v0 --data-root /no/such", "--data-root /no/such: no such folder"),
        ("--env math/Arithmetic-v0 --policy orcale", "--policy orcale: unknown; did you mean oracle?"),
        ("--env math/Arithmetic-v0 --policy tiny --device gpu", "device 'gpu': take auto, cpu, cuda or cuda:N"),
        ("--env math/Arithmetic-v0 --policy tiny --top-p 0", "--top-p 0: must be greater than 0"),
        (
            "--env math/Arithmetic-v0 --policy tiny --top-p 0.5",
            "--top-p 0.5: one sample of a task is greedy; add --temperature 1 or --samples K, or leave it out",
        ),
        (
            "--env math/Arithmetic-v0 --policy tiny --top-k 4",
            "--top-k 4: one sample of a task is greedy; add --temperature 1 or --samples K, or leave it out",
        ),
        (
            "--env math/Arithmetic-v0 --policy openai:gpt",
            "openai:gpt is not openai:MODEL@URL, such as openai:qwen3@http://localhost:8000/v1",
        ),
        ("--env math/Arithmetic-v0 --policy openai:m@http://h --api-arg top", "--api-arg top: not KEY=VALUE"),
        (
            "--env math/Arithmetic-v0 --policy openai:m@http://h --api-arg n=2",
            "the request field 'n' cannot be set; leave it out of --api-arg",
        ),
        *[
            (
                f"--env math/Arithmetic-v0 --policy openai:m@http://h {flag} --api-arg {field}",
                f"{flag} and --api-arg {field} set the same; leave one out",
            )
            for flag, field in (
                ("--temperature 0.7", "temperature=0.3"),
                ("--temperature 1", "temperature=0"),
                ("--top-p 0.5", "top_p=0.3"),
                ("--top-k 4", "top_k=-1"),
                ("--turn-tokens 9", "max_tokens=8"),
                ("--turn-tokens 9", "max_completion_tokens=null"),
            )
        ],
        (
            "--env math/Arithmetic-v0 --policy openai:m@http://h --patience 0",
            "--patience 0: must be greater than 0",
        ),
        ("--env math/Arithmetic-v0 --policy replay:/no/such.jsonl", "/no/such.jsonl: no such file or directory"),
        ("--env math/Arithmetic-v0 --policy replay:", "--policy replay: names no file; write replay:FILE.jsonl"),
        ("--env math/Arithmetic-v0 --policy humam", "--policy humam: unknown; did you mean human?"),
        ("--benchmark core-v11", "unknown benchmark 'core-v11'; did you mean 'core-v1'?"),
        ("--benchmark core-v1 --split val", "--split goes with --env; a benchmark has its own"),
        ("--benchmark core-v1 --env-arg level=1", "--env-arg goes with --env; a benchmark has its own"),
        ("--env math/Arithmetic-v0 --strategy bestof", "--strategy bestof: unknown; did you mean 'best_of'?"),
        (
            "--env math/Arithmetic-v0 --strategy best_of:n=0",
            "--strategy best_of: n='0' is not a whole number of at least 1",
        ),
        (
            "--env math/Arithmetic-v0 --strategy best_of:n=2,scorer=logprob",
            "scorer=logprob needs the log-probabilities of the replies, and this policy gives none",
        ),
        ("--benchmark gsm8k --env math/Arithmetic-v0", "--env: not allowed with argument --benchmark"),
        ("--split test", "one of the arguments --env --benchmark is required"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str], words: str, message: str) -> None:
    flags = words.split() if "--policy" in words else [*words.split(), "--policy", "oracle"]
    status, out, err = command(capsys, *flags)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.endswith(f"{message}\n")


def test_a_folder_without_a_model_is_named_with_what_is_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, _, err = command(capsys, *ARITHMETIC, "--policy", tmp_path)
    assert (status, err.count("\n")) == (2, 1)
    assert f"model '{tmp_path}': no config.json in this folder" in err
    status, _, err = command(capsys, *ARITHMETIC, "--policy", tmp_path / "none")
    assert (status, err.count("\n")) == (2, 1)
    assert f"no such folder; the nearest that exists is '{tmp_path}'" in err


def test_gsm8k_is_won_by_its_oracle_by_the_official_rule_and_lost_by_silence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNWISE_DATA", "")  # the command sets it; this puts it back
    (tmp_path / "gsm8k").mkdir()
    rows = [
        {"question": f"What is {i} plus {i}?", "answer": f"{i}+{i}=<<{i}+{i}={2 * i}>>{2 * i}\n#### {2 * i}"}
        for i in range(9)
    ]
    (tmp_path / "gsm8k" / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    flags = ("--env", "math/GSM8K-v0", "--data-root", tmp_path, "--env-arg", "rule=strict")
    oracle = evaluate_to_report(capsys, tmp_path, *flags, "--policy", "oracle")
    assert (oracle.success.mean, oracle.metrics, oracle.episodes) == (1.0, {"flexible": 1.0, "strict": 1.0}, 9)
    assert evaluate_to_report(capsys, tmp_path, *flags, "--policy", "noop").success.mean == 0.0


def test_folders_of_the_environment_are_those_of_the_folder_where_the_command_began(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "gsm8k").mkdir(parents=True)
    row = {"question": "What is 1 plus 1?", "answer": "1+1=<<1+1=2>>2\n#### 2"}
    (tmp_path / "data" / "gsm8k" / "test.jsonl").write_text(json.dumps(row))
    game = "import os\nfrom envs.math.gsm8k import GSM8K\n\n\nclass Away(GSM8K):\n    def __init__(self, **limits):\n"
    (tmp_path / "away.py").write_text(game + "        os.chdir('/')\n        super().__init__(**limits)\n")
    for changes in (["--env", "math/GSM8K-v0"], ["--env", "away.py:Away"]):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TURNWISE_DATA", "data")
        monkeypatch.setenv("TURNWISE_CACHE", "cache")
        status, _, err = command(capsys, *changes, "--policy", "oracle")
        assert (status, os.environ["TURNWISE_CACHE"]) == (0, str(tmp_path / "cache")), err


def test_the_real_gsm8k_is_won_by_its_oracle_and_lost_by_silence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if not list(Path(os.environ.get("TURNWISE_DATA") or tmp_path).glob("gsm8k/test*.jsonl")):
        pytest.skip("TURNWISE_DATA names no folder with gsm8k/test*.jsonl")
    flags = ("--env", "math/GSM8K-v0", "--env-arg", "rule=strict", "--episodes", 10_000)
    oracle = evaluate_to_report(capsys, tmp_path, *flags, "--policy", "oracle")
    assert (oracle.success.mean, oracle.errors) == (1.0, 0)
    assert oracle.episodes > 500
    assert evaluate_to_report(capsys, tmp_path, *flags, "--policy", "noop").success.mean == 0.0
