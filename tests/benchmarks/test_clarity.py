"""The benchmark of clear openings keeps its committed result where a run is wrong or a reader fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import clarity
from benchmarks.clarity import Clarity
from envs.web.browser import executable
from envs.web.browser.executable import find_browser


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "clarity.json"
    path.write_text("committed")
    monkeypatch.setattr(clarity, "RESULTS", path)
    return path


@pytest.mark.parametrize("tasks", ["-1", "0"])
def test_a_number_of_tasks_below_1_is_refused(tasks: str, results: Path) -> None:
    with pytest.raises(SystemExit) as exit:
        clarity.main([f"--tasks={tasks}"])
    assert exit.value.code == 2 and results.read_text() == "committed"


def test_a_reader_that_fails_leaves_the_result_as_it_was(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clarity, "measure", lambda id, tasks: Clarity(tasks, tasks - 1, None, None))
    assert clarity.main(["--tasks", "2"]) == 1 and results.read_text() == "committed"


def test_what_this_machine_lacks_is_left_out(results: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def measure(id: str, tasks: int) -> Clarity:
        if id.startswith("web/"):
            find_browser(None)
        return Clarity(tasks, tasks, None, None)

    monkeypatch.setattr(executable, "FILES", ())
    monkeypatch.setattr(executable, "PROGRAMS", ())
    monkeypatch.setattr(clarity, "measure", measure)
    assert clarity.main([]) == 0 and "web/Widgets-v0" in json.loads(results.read_text())["left_out"]
    assert "left out: engine 'chromium': there is no Chromium" in capsys.readouterr().out


def test_a_run_in_which_all_is_clear_is_written(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clarity, "measure", lambda id, tasks: Clarity(tasks, tasks, None, None))
    assert clarity.main(["--tasks", "60"]) == 0 and '"tasks": 60' in results.read_text()


@pytest.mark.parametrize("words", [["--tasks", "5"], ["--env", "math/Arithmetic-v0"]])
def test_a_part_of_the_whole_is_written_where_it_is_told_to_and_nowhere_else(
    words: list[str], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clarity, "measure", lambda id, tasks: Clarity(tasks, tasks, None, None))
    out = results.with_name("part.json")
    assert clarity.main(words) == 0 and not out.exists()
    assert clarity.main([*words, "--out", str(out)]) == 0 and '"environments"' in out.read_text()
    assert results.read_text() == "committed"
