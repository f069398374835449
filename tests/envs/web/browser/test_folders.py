"""The temporary folder of a browser of this process, and those of processes that were killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from envs.web.browser.folders import ABANDONED_S, TempFolder


def test_the_folder_of_a_killed_program_is_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = """
import time
from envs.web.browser.folders import TempFolder

folder = TempFolder()
print(folder.path, flush=True)
time.sleep(60)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert child.stdout is not None
    far, own = child.stdout.readline().strip(), TempFolder()

    def folders_after_the_next() -> list[str]:
        for path in (far, own.path):
            os.utime(path, (0, time.time() - 2 * ABANDONED_S))
        TempFolder().remove()
        return sorted(map(str, tmp_path.iterdir()))

    assert folders_after_the_next() == sorted([far, own.path])
    child.kill()
    child.wait()
    os.utime(far)
    TempFolder().remove()
    assert Path(far).exists()  # a young one may not be locked yet
    assert folders_after_the_next() == [own.path]
    own.remove()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("prefix", ["turnwise-browser-", "turnwise-chromium-"])
def test_what_only_has_the_name_of_such_a_folder_is_left_alone_and_waited_for_by_nobody(
    prefix: str, tmp_path: Path
) -> None:
    notes, pipe = tmp_path / f"{prefix}notes", tmp_path / f"{prefix}pipe"
    notes.mkdir()
    (notes / "mine.txt").write_text("mine")
    os.mkfifo(pipe)
    for path in (notes, pipe):
        os.utime(path, (0, time.time() - 2 * ABANDONED_S))
    code = "from envs.web.browser.folders import TempFolder; TempFolder().remove()"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, check=True, timeout=60)
    assert sorted(tmp_path.rglob("*")) == sorted([notes, notes / "mine.txt", pipe])
