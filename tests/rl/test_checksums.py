"""Digests notice every flipped bit of what a run saves."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rl import checksums
from rl.checksums import DamagedFile

CONTENTS = {"config.json": b'{"layers": 1}', "model/a.bin": b"\0\1", "model/empty": b""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in CONTENTS.items():
        path = tmp_path / "checkpoint" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    checksums.write(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def flips(content: bytes) -> Iterator[bytes]:
    """Every content that differs by one bit."""
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        yield bytes(changed)


def test_no_flipped_bit_of_a_folder_passes(folder: Path) -> None:
    assert checksums.check(folder)
    for name in (*CONTENTS, checksums.NAME):
        path = folder / name
        content = path.read_bytes()
        for changed in flips(content):
            path.write_bytes(changed)
            with pytest.raises(DamagedFile):
                checksums.check(folder)
        path.write_bytes(content)
    assert checksums.check(folder)


def test_a_damaged_or_missing_file_is_named(folder: Path) -> None:
    (folder / "model" / "a.bin").write_bytes(b"\0\2")
    with pytest.raises(DamagedFile, match=r"^its model/a.bin is damaged \(wrong SHA-256\)$"):
        checksums.check(folder)
    (folder / "model" / "a.bin").unlink()
    with pytest.raises(DamagedFile, match=r"^its model/a.bin cannot be read \(No such file or directory\)$"):
        checksums.check(folder, "model")
    (folder / checksums.NAME).write_text("nonsense\n")
    with pytest.raises(DamagedFile, match=r"^line 1 of turnwise.sha256 is damaged$"):
        checksums.check(folder)


def test_a_part_is_checked_alone(folder: Path) -> None:
    (folder / "config.json").write_bytes(b"{}")
    assert checksums.check(folder, "model")


def test_a_folder_without_digests_cannot_be_checked(tmp_path: Path) -> None:
    assert not checksums.check(tmp_path)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum")
def test_the_usual_tool_reads_the_digests(folder: Path) -> None:
    subprocess.run(["sha256sum", "--strict", "--quiet", "-c", checksums.NAME], cwd=folder, check=True)


def test_no_flipped_bit_of_a_sealed_text_passes() -> None:
    text = checksums.seal("lr = 0.1\n")
    assert checksums.check_seal(text)
    assert not checksums.check_seal("lr = 0.1\n")
    for changed in flips(text.encode()):
        damaged = changed.decode("utf-8", "surrogateescape")
        mark = text.index("# sha256")
        if damaged[mark:].startswith("# sha256 of the lines above: ") or not damaged.startswith("lr = 0.1\n"):
            with pytest.raises(DamagedFile):
                checksums.check_seal(damaged)
        else:  # the mark itself: the text counts as one without a digest, of which users are warned
            assert not checksums.check_seal(damaged)
