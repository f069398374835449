"""How long a run takes to a success: what is asked of the run, and what is told of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import reach
from benchmarks.support.runs import Trained


def test_each_seed_has_a_cold_start_of_its_own_and_the_middle_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[str, int, Path]] = []

    def train(flags: Sequence[str], seed: int, folder: Path, cache: Path, *, threads: int) -> Trained:
        calls.append((" ".join(flags), threads, cache))
        folder.mkdir()
        lines = [{"update": 13 * n, "success": success} for n, success in enumerate((0.7, 0.82, 0.81, 0.91), 1)]
        (folder / "evaluations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        summary = {"success_before": 0.4, "best_success": 0.91, "success_after": 0.88}
        summary |= {"updates": 52, "episodes": (3000, 9000, 4000)[seed]}
        return Trained([{"time/update_s": 2.0}, {"time/update_s": 3.0}], summary, (30.0, 90.0, 40.0)[seed], 20.0)

    monkeypatch.setattr(reach, "train", train)
    words = ["--env", "a/B-v0 size=3", "--success", "0.9", "0.8", "--seeds", "3", "--threads", "2"]
    assert reach.main([*words, "--runs", str(tmp_path), "--out", str(tmp_path / "found.json")]) == 0
    flags = "--env a/B-v0 --env-arg size=3 --eval-every 13 --eval-episodes 200 --target-success 0.9"
    assert [call[:2] for call in calls] == [(flags, 2)] * 3 and len({cache for *_, cache in calls}) == 3
    found: dict[str, Any] = json.loads((tmp_path / "found.json").read_text())
    assert found["median"] == {"episodes": 4000, "seconds": 40.0, "cpu_seconds": 20.0}
    assert found["runs"][1] | {"update_s": 5.0, "success_after": 0.88, "seconds": 90.0} == found["runs"][1]
    assert found["runs"][2]["reached"] == {"0.8": 2000, "0.9": 4000}
    assert "median: 4,000 episodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("env", "line"),
    [
        ("math/Nope", "unknown environment 'math/Nope'; `python -m envs list` lists all"),
        (" ", "--env ' ': names no environment; leave it out or give an id"),
    ],
)
def test_a_run_that_fails_is_one_line(env: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        reach.main(["--env", env, "--seeds", "1", "--runs", str(tmp_path)])
    assert exit_.value.code == 2
    assert capsys.readouterr().err.strip().endswith(line)
