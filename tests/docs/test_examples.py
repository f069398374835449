"""The scripts in `examples/` do what they say, each on a single screen."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from rl.methods import recipe as recipes
from tests.support.paths import ROOT
from tests.support.sandbox_hosts import why_not

SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
TRAIN = "--updates 1 --groups 2 --size 2 --eval-episodes 2 --cold-start 0 --turn-tokens 4"


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(name: str, flags: str = "") -> str:
        script = str(ROOT / "examples" / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [script, *flags.split()])
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as left:
            assert not left.code
        return capsys.readouterr().out

    return run


def test_there_are_eight_of_one_screen_each() -> None:
    assert len(SCRIPTS) == 8
    assert all(len(script.read_text(encoding="utf-8").splitlines()) < 60 for script in SCRIPTS)


@pytest.mark.parametrize("player, success", [("oracle", "True"), ("random", "False")])
def test_an_episode_is_played_to_its_end(printed, player: str, success: str) -> None:
    last = printed("play_an_env", f"games/FrozenLake-v0 --player {player}").splitlines()[-1]
    assert f"success {success}, return" in last


def test_an_episode_can_be_played_by_hand(printed, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = iter(["right"] * 12)
    monkeypatch.setattr("builtins.input", lambda prompt: next(replies))
    shown = printed("play_an_env", "games/FrozenLake-v0 --player me")
    assert "assistant: right" in shown and "success False" in shown


def test_the_written_environment_passes_every_check(printed) -> None:
    lines = printed("write_an_env").splitlines()
    assert len(lines) > 10 and all(line.startswith("ok ") for line in lines)


def test_the_written_environment_counts_colours() -> None:
    marks = runpy.run_path(str(ROOT / "examples" / "write_an_env.py"))["marks"]
    assert [marks(guess, "rgb") for guess in ("rgb", "brg", "rrr", "ybg")] == [
        "3 in place, 0 elsewhere",
        "0 in place, 3 elsewhere",
        "1 in place, 0 elsewhere",
        "0 in place, 2 elsewhere",
    ]


def test_the_written_method_prefers_quick_wins_and_is_written_back_as_words(printed) -> None:
    gains = {tuple(line.split()[:4]): float(line.split()[-1]) for line in printed("write_a_method").splitlines()}
    assert gains["grpo", "won", "after", "1:"] == gains["grpo", "won", "after", "5:"]
    assert gains["brisk", "won", "after", "1:"] > gains["brisk", "won", "after", "5:"] > 0
    method = recipes.load(str(ROOT / "examples" / "write_a_method.py"))
    assert recipes.words(method)["shape"][0].endswith("write_a_method.py:brisk")


def test_a_function_written_in_one_episode_is_called_in_the_next(printed) -> None:
    if reason := why_not("local"):
        pytest.skip(reason)
    shown = printed("python_tool", "--episodes 3")
    assert shown.count("def value(problem):") == 2  # written once, and shown in the library
    assert shown.count("# reward 1, ") == 3 and shown.count("'reused': 1.0") == 2 and '"uses": 2' in shown


def test_two_policies_are_compared(printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of the evaluations, which are processes
    shown = printed("evaluate", "--episodes 12 --samples 2")
    assert "pass@k" in shown and "better" in shown and "our hardest task: test/" in shown


def test_three_methods_are_trained(printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shown = printed("train_on_a_laptop", TRAIN)
    last = [line.split()[0] for line in shown.splitlines()[-3:]]
    assert last == ["grpo", "rloo", "reinforce_pp"]
    assert len(list(tmp_path.glob("turnwise-*/*/summary.json"))) == 3
