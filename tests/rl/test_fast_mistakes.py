"""Mistakes in flags are reported before anything heavy is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rl import config_file
from rl.cli import UserError, run
from rl.evaluate.clients import stored
from rl.train.__main__ import main
from rl.viewer import reader
from tests.support.paths import ROOT

MISTAKES = {
    "rl.train": [
        (["--env", "math/Arithmetik-v0"], "math/Arithmetic-v0"),
        (["--env", "math/Arithmetic-v0", "--env-arg", "levle=1"], "level"),
        (["--env", "math/Arithmetic-v0", "--algo", "gpro"], "'grpo'"),
        (["--env", "math/Arithmetic-v0", "--model", "quen/x"], "no such folder here"),
    ],
    "rl.evaluate": [
        (["--env", "math/Arithmetik-v0", "--policy", "tiny"], "math/Arithmetic-v0"),
        (["--env", "math/Arithmetic-v0", "--policy", "tinny"], "did you mean tiny?"),
        (["--env", "math/Arithmetic-v0", "--policy", ""], "--policy '': model '': give tiny, "),
        (["--env", "math/Arithmetic-v0", "--policy", ""], "scripts are random, oracle"),
        (["--env", "math/Arithmetic-v0", "--policy", "quen/x"], "no such folder here"),
    ],
}


@pytest.mark.parametrize("module", MISTAKES)
def test_a_wrong_name_is_reported_without_importing_torch(module: str) -> None:
    """One process makes all mistakes with a command, and prints what each of them led to."""
    code = f"""
import contextlib, io, json, sys
from rl.cli import run
from {module}.__main__ import main
for words in json.loads(sys.argv[1]):
    sys.argv[1:], errors = words, io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            run(main)
        except SystemExit as exit:
            status = exit.code
    print(json.dumps([status, errors.getvalue(), sorted({{"torch", "transformers"}} & sys.modules.keys())]))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", code, json.dumps([words for words, _ in MISTAKES[module]])]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, "")
    for (words, hint), line in zip(MISTAKES[module], result.stdout.splitlines(), strict=True):
        status, message, heavy = json.loads(line)
        assert status == 2 and hint in message and message.count("\n") == 1, words
        assert not heavy, words


@pytest.mark.parametrize("value", ["3", "1.5"])
def test_a_number_in_place_of_a_text_is_named_with_its_file_and_key(value: str) -> None:
    with pytest.raises(UserError, match=f"^c.toml: env = {value}: must be a text in quotes"):
        config_file.parse(f"env = {value}", "c.toml")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("updates = 1979-05-27", "updates = 1979-05-27: not a whole number"),
        ("updates = 1979-05-27T07:32:00Z", "updates = 1979-05-27 07:32:00"),
        ("engine = 12:00:00", "engine = 12:00:00: "),
        ("updates = [1979-05-27]", r"updates = \[1979-05-27\]: not a single value"),
        ("env_arg = [1979-05-27, 'a=b', 3]", r'env_arg = \[1979-05-27, "a=b", 3\]: must be a list such as'),
        ("env_arg = {a = [07:32:00, true]}", r"env_arg = \{a = \[07:32:00, true\]\}: must be a list such as"),
        ("system = [1979-05-27T07:32:00]", r"system = \[1979-05-27 07:32:00\]: must be a text"),
        ("style = 1979-05-27", "style = 1979-05-27: must be one of"),
        ("credit = [1979-05-27]", r"credit = \[1979-05-27\]: must be the text of a part"),
    ],
)
def test_a_date_or_time_is_named_with_its_file_and_key(line: str, message: str) -> None:
    with pytest.raises(UserError, match=f"^c.toml: {message}"):
        config_file.parse(line, "c.toml")


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ('env = "math/Arithmetik-v0"', "unknown environment 'math/Arithmetik-v0'; did you mean 'math/Arithmetic-v0'?"),
        ('env = "broken.py:Game"', "broken.py, line 1: ZeroDivisionError: division by zero"),
        ('env = "math/Arithmetic-v0"\nalgo = "gpro"', "no recipe 'gpro'; did you mean 'grpo'?"),
    ],
)
def test_a_name_in_a_file_of_settings_is_refused_with_the_file_and_the_key(
    line: str, rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("1 / 0\n")
    Path("c.toml").write_text(f"{line}\n")
    with pytest.raises(SystemExit):
        run(lambda: main(["--config", "c.toml"]))
    error = capfd.readouterr().err
    assert f": error: c.toml: {line.rpartition(chr(10))[2]}: " in error and rest in error and error.count("\n") == 1
    with pytest.raises(UserError, match=r"^(?!c\.toml)"):
        main(["--config", "c.toml", "--env", "math/Arithmetik-v1", "--algo", "grpo"])


def test_a_byte_order_mark_at_the_start_of_a_file_of_settings_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(b"\xef\xbb\xbfupdates = 3\n")
    assert config_file.read(file) == {"updates": 3}


@pytest.mark.parametrize("read", [config_file.read, config_file.read_run, stored.read_samples, reader.find])
def test_a_pipe_is_refused_and_not_waited_for(read: Callable[[Path], object], tmp_path: Path) -> None:
    pipe = tmp_path / "config.toml"
    os.mkfifo(pipe)
    with closing_pipe(pipe), pytest.raises((UserError, OSError, ValueError), match=r"pipe or a device.* not read"):
        read(tmp_path if read == config_file.read_run else pipe)


@contextmanager
def closing_pipe(pipe: Path) -> Iterator[None]:
    """Context in which a reader of `pipe` finds it empty and does not wait for a writer."""
    writer = os.open(pipe, os.O_RDWR)
    timer = threading.Timer(1, os.close, [writer])
    timer.start()
    yield
    timer.join()


def test_a_device_is_refused_in_one_line(tmp_path: Path) -> None:
    link = tmp_path / "c.toml"
    link.symlink_to("/dev/null")
    with pytest.raises(UserError, match=rf"^--config {link}: a pipe or a device.* name a regular file$"):
        config_file.read(link)


def test_a_pipe_of_the_shell_is_read(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom rl import config_file\nprint(config_file.read(Path(sys.argv[1])))"
    )
    for shell in (
        f"echo updates = 7 | {sys.executable} -c '{code}' /dev/stdin",
        f"{sys.executable} -c '{code}' <(echo updates = 7)",
    ):
        done = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True, check=False)
        assert "7" in done.stdout, done.stderr
