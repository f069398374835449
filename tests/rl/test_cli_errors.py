"""How the commands of `rl` fail: one line, exit code 2, and a traceback only for a bug."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from envs.__main__ import main as envs_main
from rl.cli import Parser, UserError, program, real_number, run, suggest, user_input, whole_number
from rl.spec_paths import output_file
from tests.support.paths import ROOT


def parser() -> Parser:
    command = Parser(prog="rl.train")
    command.add_argument("--env", required=True)
    command.add_argument("--updates", type=whole_number(1), default=100)
    command.add_argument("--groups", type=whole_number(1, 4096))
    command.add_argument("--lr", type=real_number(above=0.0))
    command.add_argument("--clip", type=real_number(0.0, 1.0))
    command.add_argument("--algo", choices=["grpo", "rloo", "gigpo"], default="grpo")
    command.add_argument("--json", type=output_file)
    command.add_argument("--seed", "-s", type=int)
    return command


def error_line(capsys: pytest.CaptureFixture[str], *arguments: str, command: Parser | None = None) -> str:
    """Parse arguments that must be refused with one line and exit code 2; return that line."""
    with pytest.raises(SystemExit) as exit:
        (command or parser()).parse_args(arguments)
    out, err = capsys.readouterr()
    assert (exit.value.code, out, err.count("\n")) == (2, "", 1)
    return err.rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--updats 3", "unknown flag --updats; did you mean --updates?"),
        ("--updats=3", "unknown flag --updats; did you mean --updates?"),
        ("--evn games/X-v0", "unknown flag --evn; did you mean --env?"),  # rather than: --env is required
        ("--env x --update 3", "unknown flag --update; did you mean --updates?"),  # no silent abbreviation
        ("--env x --qqq", "unknown flag --qqq"),
        ("--env x -q", "unknown flag -q"),
        ("--env x more", "unexpected argument more"),
        ("", "the following arguments are required: --env"),
        ("--env", "--env: expected one argument"),
        ("--env x --groups 0", "--groups 0: must be at least 1"),
        ("--env x --groups 5000", "--groups 5000: must be at most 4096"),
        ("--env x --groups -3", "--groups -3: must be at least 1"),
        ("--env x --groups 2.5", "--groups 2.5: not a whole number"),
        ("--env x --groups=", "--groups '': not a whole number"),
        ("--env x --lr 0", "--lr 0: must be greater than 0"),
        ("--env x --lr fast", "--lr fast: not a number"),
        ("--env x --lr nan", "--lr nan: must be finite"),
        ("--env x --clip inf", "--clip inf: must be finite"),
        ("--env x --clip 1.5", "--clip 1.5: must be at most 1"),
        ("--env x --algo grop", "--algo grop: unknown; did you mean grpo?"),
        ("--env x --algo GIGPO", "--algo GIGPO: unknown; did you mean gigpo?"),
        ("--env x --algo zzz", "--algo zzz: unknown; choose from grpo, rloo, gigpo"),
        ("--env x --json /no/such/folder/r.json", "--json /no/such/folder/r.json: there is no folder /no/such/folder"),
        ("--env x --json /", "--json /: is a folder"),
        ("--env x -s many", "--seed/-s many: invalid int value: 'many'"),
    ],
)
def test_a_wrong_argument_is_one_line_with_the_value_and_the_nearest_right_one(
    capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    assert error_line(capsys, *arguments.split()) == f"rl.train: error: {message}"


def test_right_arguments_are_parsed(tmp_path: Path) -> None:
    arguments = ["--env", "x", "--groups", "4096", "--lr", "1e-3", "--clip", "0", "--json", str(tmp_path / "r.json")]
    args = parser().parse_args(arguments)
    assert (args.env, args.updates, args.groups, args.lr, args.clip) == ("x", 100, 4096, 1e-3, 0.0)
    assert args.json == tmp_path / "r.json"


def test_errors_of_a_command_name_it_and_suggest_its_own_flags(capsys: pytest.CaptureFixture[str]) -> None:
    command = Parser(prog="rl.runs")
    command.add_argument("--verbose", action="store_true")
    commands = command.add_subparsers(required=True)
    commands.add_parser("list").add_argument("--limit", type=whole_number(1))
    assert error_line(capsys, "lst", command=command) == "rl.runs: error: command lst: unknown; did you mean list?"
    message = error_line(capsys, "list", "--limt", "3", command=command)
    assert message == "rl.runs list: error: unknown flag --limt; did you mean --limit?"
    message = error_line(capsys, "--verb", "list", command=command)
    assert message == "rl.runs: error: unknown flag --verb; did you mean --verbose?"
    assert error_line(capsys, "list", "--limit", "0", command=command).endswith("error: --limit 0: must be at least 1")


def test_help_still_prints_the_usage_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        parser().parse_args(["--help"])
    assert exit.value.code == 0
    assert "--updates" in capsys.readouterr().out


def test_suggestions_ignore_case_and_stay_short() -> None:
    ids = [f"games/Game{i}-v0" for i in range(40)] + ["math/Arithmetic-v0"]
    assert suggest("math/arithmatic", ids) == "; did you mean math/Arithmetic-v0?"
    assert suggest("zzz", ids) == ""
    assert suggest("zzz", []) == ""


def test_only_what_arises_from_user_input_is_a_users_mistake() -> None:
    with pytest.raises(UserError, match=r"^no such env 'x'$") as error_info, user_input():
        raise ValueError("no such env 'x'")
    assert isinstance(error_info.value.__cause__, ValueError)  # the origin stays in reach of a debugger
    with pytest.raises(KeyError), user_input():
        raise KeyError("x")


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: Path("missing.toml").read_text(), "missing.toml: no such file or directory"),
        (lambda: os.listdir(__file__), f"{__file__}: not a directory"),
        (lambda: compile("a =", "mine.py", "exec"), "invalid syntax (mine.py, line 1)"),
        (lambda: __import__("no_such_module_here"), "No module named 'no_such_module_here'"),
        (lambda: exec("raise ValueError('two\\n  lines')"), "two lines"),
        (lambda: exec("raise IndexError"), "IndexError"),
    ],
)
def test_what_lower_layers_raise_becomes_one_line(action: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError) as error_info, user_input():
        action()
    assert str(error_info.value) == message


def exit_code(main: Callable[[], int | None]) -> int | str | None:
    with pytest.raises(SystemExit) as exit:
        run(main)
    return exit.value.code


def test_the_code_of_a_command_is_its_result() -> None:
    assert exit_code(lambda: None) == 0
    assert exit_code(lambda: 130) == 130


def failing(error: BaseException) -> Callable[[], int]:
    def main() -> int:
        raise error

    return main


def test_a_users_mistake_leaves_with_2_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(failing(UserError("no such run\nat all"))) == 2
    assert capsys.readouterr().err == f"{program()}: error: no such run at all\n"


@pytest.mark.parametrize("name", ["TURNWISE_DATA", "TURNWISE_CACHE"])
def test_a_relative_folder_in_a_working_folder_that_is_gone_is_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv(name, "data")
    assert exit_code(lambda: 0) == 2
    reason = f"{name}=data: it is relative, and the working folder has been removed; write an absolute path"
    assert capsys.readouterr().err == f"{program()}: error: {reason}\n"
    assert envs_main(["list"]) == 2
    assert capsys.readouterr().err == f"python -m envs list: {reason}\n"
    monkeypatch.setenv(name, str(tmp_path))
    assert exit_code(lambda: 0) == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_full_or_closed_disk_is_one_line_wherever_it_arises(capsys: pytest.CaptureFixture[str], code: int) -> None:
    assert exit_code(failing(OSError(code, os.strerror(code), "out/metrics.jsonl"))) == 2
    assert capsys.readouterr().err == f"{program()}: error: out/metrics.jsonl: {os.strerror(code).lower()}\n"


@pytest.mark.parametrize("bug", [ValueError("shape"), FileNotFoundError(2, "gone", "x"), BrokenPipeError(32, "")])
def test_a_bug_is_not_hidden(bug: Exception) -> None:
    with pytest.raises(type(bug)) as error_info:
        run(failing(bug))
    assert error_info.value is bug


def script(body: str) -> list[str]:
    return [sys.executable, "-c", "import sys, time\nfrom rl.cli import *\n" + textwrap.dedent(body)]


def test_ctrl_c_leaves_with_130_and_no_traceback() -> None:
    body = """
    def main():
        print("ready", flush=True)
        time.sleep(60)
    run(main)
    """
    with subprocess.Popen(script(body), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.strip() == "-c: interrupted"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_goes_away_ends_the_command_silently(lines: int, unbuffered: str) -> None:
    body = f"""
    def main():
        sys.stdin.read()
        for _ in range({lines}):
            print("a line of the report")
    run(main)
    """
    pipe, environment = subprocess.PIPE, {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(script(body), cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.close()
        assert process.wait(timeout=30) == 141
        assert process.stderr.read() == b""


def test_a_module_is_named_as_it_was_started(tmp_path: Path) -> None:
    package = tmp_path / "shown"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tool.py").write_text("from rl.cli import Parser\nParser().parse_args()\n")
    (package / "__main__.py").write_text("from rl.cli import Parser\nParser().parse_args()\n")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    for module, name in (("shown.tool", "shown.tool"), ("shown", "shown")):
        command = [sys.executable, "-m", module, "--bad"]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
        assert (result.returncode, result.stderr) == (2, f"{name}: error: unknown flag --bad\n")
