"""The command line `python -m envs`: list, check, play, and what a wrong word leads to."""

import io
import json
import os
import signal
import subprocess
import sys

import pytest

from envs.__main__ import main
from envs.rows import ROWS
from tests.support.paths import ENVIRONMENTS

GUESS = "games/GuessNumber-v0"


def test_list_has_one_line_for_each_row(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= len(ROWS)
    assert all(any(line.startswith(row.id) and row.line in line for line in lines) for row in ROWS)
    assert main(["list", "--json"]) == 0
    rows_by_id = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows_by_id["math/GSM8K-v0"]["data"] == "gsm8k"


def test_without_a_command_all_are_listed(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("list", "check", "play"))


def test_check_reports_each_claim_and_its_faults(capsys):
    assert main(["check", f"{ENVIRONMENTS}:ShowsAnswer", "--tasks", "1"]) == 1
    out = capsys.readouterr().out
    assert "FAIL answer_leak" in out and "ok   oracle" in out and "shows the answer 'erap'" in out


def test_check_passes_env_args(capsys):
    assert main(["check", f"{ENVIRONMENTS}:Echo", "--env-arg", "prefix=! ", "--env-arg", "max_turns=4"]) == 0
    assert "FAIL" not in capsys.readouterr().out


def play(words, stdin):
    command = [sys.executable, "-m", "envs", "play", *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)


def test_play_reads_replies_from_a_script_and_shows_the_end():
    done = play([GUESS, "--seed", "3", "--env-arg", "style=short"], "x\n14\n15\n19\n")
    assert done.returncode == 0 and not done.stderr
    lines = done.stdout.splitlines()
    assert [lines[0], *lines[2:4]] == ["# games/GuessNumber-v0 task train/35", "user: 13..19", "> x"]
    assert "# reward 0, invalid reply" in lines
    assert lines[-1].startswith("# end: ") and "turns, return " in lines[-1]


def test_play_takes_a_reply_of_several_lines_between_quotes():
    done = play(
        [f"{ENVIRONMENTS}:Echo", "--split", "test", "--index", "0"], '"""\nThree words here.\nraep\n"""\nraep\n'
    )
    lines = done.stdout.splitlines()
    assert 'a line """ before and after it' in lines[1]
    assert done.returncode == 0 and "success True, 2 turns, return 1" in lines[-1]


def test_play_takes_a_message_written_as_json():
    done = play(
        [f"{ENVIRONMENTS}:Echo", "--split", "test", "--index", "0"], '{"role": "assistant", "content": "raep"}\nraep\n'
    )
    assert "success True, 2 turns, return 1" in done.stdout
    done = play([f"{ENVIRONMENTS}:Echo"], '{"role": "user", "content": "x"}\n')
    assert done.returncode == 2 and "'user'" in done.stderr and "Traceback" not in done.stderr


def test_play_asks_a_person_again_for_a_message_that_is_none(capsys, monkeypatch):
    terminal = io.StringIO('{"role": "assistant", "content": 3}\n{"role": "assistant", "content": "raep"}\nraep\n')
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    assert main(["play", f"{ENVIRONMENTS}:Echo", "--split", "test", "--index", "0"]) == 0
    out = capsys.readouterr().out
    assert "# not an assistant message: content is neither" in out and "success True, 2 turns, return 1" in out


@pytest.mark.parametrize(
    ("method", "complaint"),
    [
        ("start(self): return {}['q']", "reset of seed 0: {file}, line 5: KeyError: 'q'"),
        ("start(self): return open('nowhere')", "reset of seed 0: {file}, line 5: FileNotFoundError: "),
        ("start(self): return 'x'", "reset of seed 0: TypeError: what start() returns must be a tuple of messages"),
        ("start(self): raise ValueError('bad rows')", "python -m envs play: bad rows\n"),
        ("reset(self, **options): return 'x'", "TypeError: reset() must return (messages, info), not the str 'x'"),
        ("reply(self, action): return 1.0", "TypeError: Wrong: reply() must return an Outcome, not float"),
        ("reply(self, action): return {}['q']", "step 1 of task train/1 seed 0: {file}, line 5: KeyError: 'q'"),
        ("reply(self, action): exit(3)", "{file}, line 5: SystemExit: 3"),
        (
            "step(self, action): return 1",
            "TypeError: step() must return (messages, reward, terminated, truncated, info)",
        ),
        ("step(self, action): return (), float('nan'), True, False, {}", "the reward is nan, not a finite number"),
    ],
)
def test_play_names_a_fault_of_the_environment_in_one_line(method, complaint, tmp_path, capsys, monkeypatch):
    file = tmp_path / "wrong.py"
    file.write_text(f"from tests.support.environments import Echo\n\n\nclass Wrong(Echo):\n    def {method}\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("x\n"))
    assert main(["play", f"{file}:Wrong"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and complaint.replace("{file}", str(file)) in err


def test_play_warns_of_an_environment_that_fails_to_close(tmp_path, caplog, monkeypatch):
    file = tmp_path / "wrong.py"
    file.write_text(
        "from tests.support.environments import Echo\n\n\nclass Wrong(Echo):\n    def close(self): [].pop()\n"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["play", f"{file}:Wrong"]) == 0
    assert caplog.messages == [f"an environment failed to close: IndexError: pop from empty list ({file}, line 5)"]


@pytest.mark.parametrize("odd", ["[" * 100_000, "9" * 5000, '{"role": ' + "[" * 100_000])
def test_play_takes_odd_json_for_text(odd):
    done = play([f"{ENVIRONMENTS}:Echo"], odd + "\n")
    assert done.returncode == 0 and not done.stderr and "# input ended after 1 turn, return 0" in done.stdout


@pytest.mark.parametrize(
    "command, word",
    [(f"play {GUESS} <&-", "standard input, from which replies are read, is closed"), ("list >&-", "output is closed")],
)
def test_a_closed_stream_is_named_in_one_line(command, word):
    done = subprocess.run(f"{sys.executable} -m envs {command}", shell=True, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and word in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_sandbox_that_cannot_be_had_is_one_line_for_one_environment_and_skipped_among_all(capsys, monkeypatch):
    monkeypatch.delenv("TURNWISE_SANDBOX_URL", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("x + 1\n"))
    for command in ("check", "play"):
        assert main([command, "code/Functions-v0", "--env-arg", "sandbox=remote"]) == 2
        err = capsys.readouterr().err
        assert err == f"python -m envs {command}: remote: no server is named; pass url= or set TURNWISE_SANDBOX_URL\n"
    monkeypatch.setattr("sandboxes.registry.PROVIDERS", {"local": "sandboxes.remote.provider:Remote"})
    monkeypatch.setattr("envs.entries", lambda: [row for row in ROWS if row.id == "code/Functions-v0"])
    assert main(["check", "--all"]) == 0
    assert "code/Functions-v0: skipped: remote: no server is named" in capsys.readouterr().out


def test_play_ends_cleanly_when_the_input_does():
    done = play(["math/Arithmetic-v0", "--split", "test", "--index", "0"], "")
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.endswith("# input ended after 0 turns, return 0\n")
    assert play(["math/Arithmetic-v0"], "\udcff\n".encode("utf-8", "surrogateescape").decode("latin-1")).returncode == 0


@pytest.mark.parametrize(
    "words, hint",
    [
        (["chek"], "did you mean 'check'"),
        (["check"], "one ID, or --all"),
        (["check", GUESS, "--all"], "one ID, or --all"),
        (["check", GUESS, "--tasks", "0"], "--tasks 0"),
        (["check", "games/GessNumber-v0"], "did you mean 'games/GuessNumber-v0'"),
        (["check", GUESS, "--env-arg", "sise=3"], "did you mean 'size'"),
        (["check", GUESS, "--env-arg", "size=big"], "--env-arg size=big: must be an int"),
        (["play", GUESS, "--env-arg", "size=500"], "size 500 is outside 2..90"),
        (["play", GUESS, "--split", "tset"], "did you mean 'test'"),
        (["play", GUESS, "--index", "99999"], "index 99999 is outside 0.."),
        (["play", GUESS, "--seed", "-4"], "-4"),
        (["play", GUESS, "--seed", "x"], "'x'"),
        (["play", "CartPole-v1"], "CartPole"),
        (["play", "no.py:X"], "no.py"),
        (["play", "os:path"], "unknown environment 'path' in os; there are: none"),
        (["play", f"{ENVIRONMENTS}:Ecko"], "did you mean 'Echo'"),
        (["play", f"{ENVIRONMENTS}:Unfinished"], "Unfinished must define tasks(split)"),
        (["check", str(ENVIRONMENTS)], f"name a class of it: {ENVIRONMENTS}:Echo"),
        (["check", "..:x"], "no module '..'"),
        (["list", "--jsonn"], "did you mean '--json'"),
        (["list", "--data-root", "/no/such/folder"], "/no/such/folder"),
    ],
)
def test_a_wrong_word_is_one_line_and_status_2(words, hint, capsys):
    try:
        status = main(words)
    except SystemExit as end:
        status = end.code
    streams = capsys.readouterr()
    assert status == 2 and not streams.out
    assert hint in streams.err and len(streams.err.splitlines()) == 1


def test_missing_data_is_one_line_for_one_environment_and_skipped_among_all(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("TURNWISE_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setattr("envs.data.find_spec", lambda name: None)
    assert main(["check", "math/GSM8K-v0"]) == 2
    assert "gsm8k" in capsys.readouterr().err
    row = next(row for row in ROWS if row.id == "math/GSM8K-v0")
    monkeypatch.setattr("envs.entries", lambda: [row])
    assert main(["check", "--all"]) == 0
    assert capsys.readouterr().out.startswith("math/GSM8K-v0: skipped: ")


def test_a_reader_that_leaves_causes_no_traceback():
    command = f"{sys.executable} -m envs list | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr


def test_ctrl_c_ends_with_status_130_and_no_traceback():
    child = subprocess.Popen(
        [sys.executable, "-m", "envs", "play", GUESS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    while not child.stdout.readline().startswith(b"user:"):
        pass
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130 and not err


@pytest.mark.parametrize("command", [[], ["list"], ["check"], ["play"]])
def test_help_says_what_the_flags_do(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([*command, "--help"])
    assert end.value.code == 0
    assert "usage: python -m envs" in capsys.readouterr().out


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, a file on a disk that is full")
@pytest.mark.parametrize(
    "command",
    [["envs", "list"], ["envs", "play", "math/Sets-v0"], ["rl.train", "--algo", "list"], ["rl.train", "--help"]],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_on_a_full_disk_is_named_in_one_line(command, unbuffered):
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", *command],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
    assert result.returncode == 2
    [line] = result.stderr.splitlines()
    assert "standard output" in line and "Traceback" not in line


@pytest.mark.parametrize("seed", ["-1", "1.5", "x", ""])
def test_a_wrong_seed_is_named_with_its_flag(seed, capsys):
    with pytest.raises(SystemExit) as exit:
        main(["play", "math/Sets-v0", f"--seed={seed}"])
    line = capsys.readouterr().err
    assert exit.value.code == 2 and "--seed" in line and repr(seed) in line
