"""Files of results: their keys, how they are written, and what is refused when they are read."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import pytest

from rl.evaluate.report import Report
from tests.support.reports import E, N, Y, report


def test_json_has_the_documented_keys_and_reads_back_equal(tmp_path: Path) -> None:
    result = report([Y, Y, N, N], [Y, N, N, N], [Y, Y, Y, E])
    path = tmp_path / "report.json"
    result.to_json(path)
    data = json.loads(path.read_text(), parse_constant=pytest.fail)
    names = "benchmark env policy episodes samples seed success return_mean pass_at pass_hat cons_at turns_mean"
    assert {*names.split(), "tokens_mean", "errors", "per_task"} <= set(data)
    assert set(data) == {"sha256", *(field.name for field in fields(Report))}
    assert set(data["per_task"][0]) == {"task", "rewards", "success", "turns", "stop"}
    assert list(data["pass_at"]) == ["1", "2", "4"]
    assert data["intervals"]["pass_at/2"][0] <= data["pass_at"]["2"] <= data["intervals"]["pass_at/2"][1]
    assert Report.from_json(path) == result
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


def test_a_file_with_only_the_documented_keys_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    report([Y], [N]).to_json(path)
    data = json.loads(path.read_text())
    del data["metrics"], data["intervals"]
    path.write_text(json.dumps(data))
    assert Report.from_json(path).success.mean == 0.5


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda r: r.pop("seed"), "seed: Field required"),
        (lambda r: r.update(samples="many"), "samples: "),
        (lambda r: r["per_task"][0].update(turns=[1, 2]), "task 'test/0': rewards, success, turns and stop differ"),
        (lambda r: r["per_task"].append(r["per_task"][0]), "task 'test/0' has two rows"),
        (lambda r: r.update(return_mean=float("nan")), "return_mean: "),
    ],
)
def test_a_damaged_file_is_refused_in_one_line_that_names_it(tmp_path: Path, change, complaint: str) -> None:
    path = tmp_path / "report.json"
    report([Y], [N]).to_json(path)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"report\.json: not a result of rl\.evaluate") as error:
        Report.from_json(path)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\xfe\x00", b'"text"'])
def test_a_file_that_is_no_report_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^[^\n]*other\.json: not a result of rl\.evaluate: [^\n]+$"):
        Report.from_json(path)


def test_writing_replaces_the_file_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    report([Y]).to_json(path)
    before = path.read_text()

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*report\.json'") as error:
        report([N]).to_json(path)
    assert error.value.errno == 28
    assert path.read_text() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


def test_a_pipe_or_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        content = pool.submit(pipe.read_text)
        report([Y]).to_json(pipe)
        assert json.loads(content.result())["success"]["mean"] == 1.0
    assert pipe.is_fifo()
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]


def test_a_pipe_of_this_process_can_be_named(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    report([Y]).to_json(f"/proc/self/fd/{write_end}")  # what /dev/stdout leads to, and a shell's >(command)
    os.close(write_end)
    with open(read_end) as file:
        assert json.loads(file.read())["success"]["mean"] == 1.0


def test_a_link_stays_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    link, file = tmp_path / "latest.json", tmp_path / "results" / "r.json"
    link.symlink_to("results/r.json")
    for _ in "first", "again":  # at first the link leads to no file
        report([Y]).to_json(link)
        assert link.is_symlink()
        assert Report.from_json(file).success.mean == 1.0
    assert [entry.name for entry in file.parent.iterdir()] == ["r.json"]


def test_an_unwritable_path_is_named_as_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError, match=r"'.*/missing/r\.json'$"):
        report([Y]).to_json(tmp_path / "missing" / "r.json")
    with pytest.raises(NotADirectoryError, match=r"'.*/file/r\.json'$"):
        report([Y]).to_json(tmp_path / "file" / "r.json")
    with pytest.raises(IsADirectoryError):
        report([Y]).to_json(tmp_path)


def test_no_flipped_bit_of_a_result_passes(tmp_path: Path) -> None:
    path, result = tmp_path / "r.json", report([Y], [N])
    result.to_json(path)
    content = path.read_bytes()
    assert Report.from_json(path) == result
    for place in range(0, 8 * len(content), 5):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            assert Report.from_json(path) == result  # a bit of the key "sha256" itself
        except ValueError as error:
            assert str(error).startswith(f"{path}: ")


def test_a_result_that_was_edited_says_how_to_use_it(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    report([Y], [N]).to_json(path)
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 7'))
    with pytest.raises(ValueError, match=r'"sha256" is wrong \(delete that line to use it\)$'):
        Report.from_json(path)
    path.write_text("".join(line for line in path.read_text().splitlines(True) if '"sha256"' not in line))
    assert Report.from_json(path).seed == 7
