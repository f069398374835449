"""A damaged `metrics.jsonl` is named, and nothing of it is lost, when a run is resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl.train.storage.metrics_file import fingerprint, rewind
from tests.support.runs import flags, metrics, train, train_run

LINES = [b'{"update": 1, "loss": 0.5}', b'{"update": 2, "loss": 0.25}', b'{"update": 3, "loss": 0.125}']
GARBAGE = [b"\xff\xfe", b"{", b"7", b'{"update": "x"}', b'{"update": 1.0}', b'{"loss": 1}', b"[" * 9000, b"null"]


def write(path: Path, lines: list[bytes]) -> bytes:
    content = b"".join(line + b"\n" for line in lines)
    path.write_bytes(content)
    return content


def test_the_lines_of_later_updates_go_and_so_does_an_incomplete_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, LINES[:2])
    mark = fingerprint(path)
    path.write_bytes(write(path, LINES) + b'{"update": 4, "lo')
    assert rewind(path, 2, mark) == []
    assert path.read_bytes().splitlines() == LINES[:2]
    assert rewind(path, 0) == []
    assert path.read_bytes() == b""
    assert [one.name for one in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize("line", GARBAGE)
def test_a_line_that_cannot_be_read_is_counted_and_kept_aside(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    content = write(path, [LINES[0], line, LINES[1]])
    assert rewind(path, 2) == [
        f"{path} is damaged: 1 of its 3 lines cannot be read and are removed; metrics.jsonl.damaged is a copy of it"
    ]
    assert path.read_bytes().splitlines() == LINES[:2]
    assert path.with_name("metrics.jsonl.damaged").read_bytes() == content
    write(path, [line])
    (note,) = rewind(path, 2)
    assert note.endswith("; metrics.jsonl.damaged-2 is a copy of it")
    assert path.with_name("metrics.jsonl.damaged").read_bytes() == content


def test_no_flipped_bit_passes(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    content = write(path, LINES)
    mark = fingerprint(path)
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        (note,) = rewind(path, 3, mark)
        assert note.startswith(f"{path} is damaged: ") and "(wrong SHA-256)" in note
        copy = path.with_name("metrics.jsonl.damaged")
        assert copy.read_bytes() == changed
        copy.unlink()


def test_a_file_that_is_gone_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, LINES)
    mark = fingerprint(path)
    path.unlink()
    assert rewind(path, 3, mark) == [f"{path} is damaged: it is not what the run wrote (wrong SHA-256)"]
    assert rewind(path, 3) == []


def test_a_run_over_garbage_says_so_and_goes_on(tmp_path: Path) -> None:
    out = train_run(*flags("Low", updates=2, schedule="constant"), out=tmp_path / "run")
    path = out / "metrics.jsonl"
    reference = metrics(out)
    content = write(path, [*path.read_bytes().splitlines(), *GARBAGE])
    result = train("--resume", "--out", str(out), "--updates", "3")
    assert result.code == 0
    notes = [line for line in result.out.splitlines() if "damaged" in line]
    assert notes == [
        f"{path} is damaged: 8 of its 10 lines cannot be read and are removed; metrics.jsonl.damaged is a copy of it"
    ]
    assert metrics(out)[:2] == reference and [line["update"] for line in metrics(out)] == [1, 2, 3]
    assert path.with_name("metrics.jsonl.damaged").read_bytes() == content
