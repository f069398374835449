"""What stands above the episodes of a page: curves of the run, its updates, and how an evaluation ended."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from rl.viewer import progress, reader
from tests.rl.viewer.test_view import data, failure, rendered, small
from tests.support import rollouts as toy


def head(html: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(data(html, "head"))
    return result


def write_lines(path: Path, *lines: object) -> None:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))


def test_curves_and_held_out_results_come_from_the_files_of_the_run(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", [small()], [small(update=2)])
    assert head(rendered(run))["curves"] == {}
    metrics = [{"update": u, "reward/mean": -0.5 * u, "success/mean": 0.25 * u, "loss": 1.0} for u in (1, 2)]
    write_lines(run / "metrics.jsonl", metrics[0], "{broken", {"update": "x"}, 7, '{"update": 2, "success/mean": NaN}')
    write_lines(run / "evaluations.jsonl", {"update": 1, "split": "val", "success": 0.4}, {"update": None})
    write_lines(run / "summary.json", {"success_before": 0.1, "success_after": None})
    assert head(rendered(run))["curves"] == {
        "update": [1, 2],
        "success": [0.25, None],
        "return": [-0.5, None],
        "evaluations": [[1, 0.4, "val"], [0, 0.1, "test"]],
    }
    write_lines(run / "metrics.jsonl", *metrics)
    write_lines(run / "summary.json", {"success_before": 0.1, "success_after": 0.9})
    assert head(rendered(run))["curves"]["evaluations"][1:] == [[0, 0.1, "test"], [2, 0.9, "test"]]


def test_a_long_run_has_as_many_points_as_can_be_seen(tmp_path: Path) -> None:
    write_lines(tmp_path / "metrics.jsonl", *({"update": u, "success/mean": u % 2} for u in range(1, 5001)))
    curves = progress.curves(tmp_path)
    assert len(curves["update"]) == len(curves["success"]) == progress.MAX_POINTS
    assert curves["update"][-1] == 5000 and set(curves["success"]) == {0.5}
    assert set(curves["return"]) == {None}


def test_every_update_of_the_run_is_named_whatever_is_shown(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", *([small(update=u)] for u in range(1, 6)))
    assert head(rendered(run, "--update", 2))["updates"] == [1, 2, 3, 4, 5]
    assert head(rendered(run / "rollouts" / "update-000003.jsonl"))["updates"] == [3]
    (tmp_path / "one.jsonl").write_bytes((run / "rollouts" / "update-000003.jsonl").read_bytes())
    assert head(rendered(tmp_path / "one.jsonl"))["updates"] == []


def compress(file: Path) -> Path:
    target = file.with_name(f"{file.name}.gz")
    target.write_bytes(gzip.compress(file.read_bytes()))
    return target


def test_compressed_rollouts_are_read_like_others(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", *([small(update=u)] for u in (1, 2, 3)))
    source = reader.find(run)
    before = reader.read(source)
    files = [compress(file) for file in source.files[:2]]
    assert reader.read(reader.find(run)) == before  # with both files of an update, as while one is being compressed
    for file in source.files[:2]:
        file.unlink()
    assert reader.read(reader.find(run)) == before and reader.find(run).updates == [1, 2, 3]
    assert {episode["update"] for episode in reader.read(reader.find(run), (2,)).episodes} == {2}
    assert reader.read(reader.find(files[0])).episodes == [one for one in before.episodes if one["update"] == 1]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"no gzip", lambda b: b[:20] + b"x" + b[21:]])
def test_a_damaged_compressed_file_is_named_and_the_rest_is_shown(damage: Any, tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", [small()], [small(update=2)])
    file = run / "rollouts" / "update-000001.jsonl"
    content = compress(file).read_bytes()
    file.unlink()
    file.with_name(f"{file.name}.gz").write_bytes(damage(content))
    rollouts = reader.read(reader.find(run))
    assert {episode["update"] for episode in rollouts.episodes} == {2}
    assert len(rollouts.notes) == 1 and rollouts.notes[0].startswith("update-000001.jsonl.gz is damaged ")


def test_an_evaluation_is_found_by_its_result_and_says_how_it_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(3)
    run = toy.run(tmp_path / "run", [toy.group(n, 2, rng, 0) for n in range(3)])
    episodes, result = tmp_path / "floor.rollouts.jsonl", tmp_path / "floor.json"
    result.write_text("{}")
    assert "no episodes" in failure(capsys, result, "--html", tmp_path / "page.html")
    episodes.write_bytes((run / "rollouts" / "update-000001.jsonl").read_bytes())
    assert head(rendered(result))["result"] == {}
    content = {"policy": "random", "success": {"mean": 0.5, "low": 0.25, "high": 0.75}, "return_mean": 0.4, "errors": 1}
    result.write_text(json.dumps(content))
    expected = {"policy": "random", "success": [0.5, 0.25, 0.75], "return_mean": 0.4, "errors": 1}
    for path in (result, episodes):
        assert head(rendered(path))["result"] == expected
        assert head(rendered(path))["name"] == "floor.rollouts.jsonl"
