"""Errors of the disk, in one line that says what to do about them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from safetensors import SafetensorError

from rl.cli import UserError
from rl.train.run_folder import RunFolder
from rl.train.storage.durable_files import disk_errors


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "no space left on device; make room and go on"),
        (errno.EDQUOT, "disk quota exceeded; make room and go on"),
        (errno.EFBIG, "file too large; raise the limit of a file's size (ulimit -f) and go on"),
        (errno.EMFILE, "too many open files; raise the limit of open files (ulimit -n) and go on"),
        (errno.EACCES, "permission denied; make it writable and go on"),
        (errno.EROFS, "read-only file system; make it writable and go on"),
        (errno.ENOENT, "no such file or directory; put the folder back and go on"),
        (errno.EIO, "input/output error; mend that and go on"),
    ],
)
def test_only_a_full_disk_asks_for_room(number: int, advice: str) -> None:
    wrapped = SafetensorError(f"Error while serializing: I/O error: {os.strerror(number)} (os error {number})")
    for error in (OSError(number, os.strerror(number)), wrapped):
        with pytest.raises(UserError) as info, disk_errors("here", " and go on"):
            raise error
        assert str(info.value) == f"here: {advice}"


def test_a_run_whose_folder_is_taken_away_says_how_it_goes_on(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", "")
    (tmp_path / "run").rename(tmp_path / "away")
    with pytest.raises(UserError, match=r"no such file or directory; put the folder back and continue with --resume"):
        run.log({"update": 1})
