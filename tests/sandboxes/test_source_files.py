"""Files of a user that import the modules beside them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rl.evaluate.__main__
import rl.train.__main__
from sandboxes import source_files
from sandboxes.source_files import load_source_file
from tests.support.paths import ROOT

BASE = "from envs.math.arithmetic import Arithmetic\n\nclass Ok(Arithmetic):\n    place = {place!r}\n"
QUICK = "--groups 2 --size 2 --eval-episodes 2 --cold-start 0 --logger none --out run"


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(source_files, "_neighbours", {})
    known = set(sys.modules)
    yield
    for name in sys.modules.keys() - known:
        del sys.modules[name]


def write_pair(folder: Path, base: str = "base_of_test") -> Path:
    """Write a file and the module that it imports into `folder`; return the file."""
    folder.mkdir()
    (folder / f"{base}.py").write_text(BASE.format(place=folder.name))
    (folder / "mid.py").write_text(f"from {base} import Ok\n\nclass Mid(Ok):\n    pass\n")
    return folder / "mid.py"


def test_a_file_imports_its_neighbour_and_the_path_is_as_before(tmp_path: Path) -> None:
    path = list(sys.path)
    module = load_source_file(str(write_pair(tmp_path / "one")))
    assert module.Mid.place == "one" and sys.path == path
    assert pickle.loads(pickle.dumps(module.Mid)) is module.Mid


def test_a_member_of_an_enum_can_be_unpickled_where_its_file_is_not_loaded(tmp_path: Path) -> None:
    enums = "class Hue(Enum):\n    RED = 1\n\nclass Way(Flag):\n    UP = 1\n    LEFT = 2\n"
    (tmp_path / "hues.py").write_text(f"from enum import Enum, Flag\n\n{enums}")
    hues = load_source_file(str(tmp_path / "hues.py"))
    members = pickle.dumps([hues.Hue.RED, hues.Way.UP | hues.Way.LEFT, hues.Way(0)])
    code = "import pickle, sys; print(*pickle.loads(sys.stdin.buffer.read()))"
    done = subprocess.run([sys.executable, "-c", code], input=members, cwd=ROOT, capture_output=True, check=False)
    assert done.stdout == b"Hue.RED Way.UP|LEFT Way(0)\n", done.stderr


def test_what_python_finds_elsewhere_comes_before_a_neighbour(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("1 / 0\n")
    (tmp_path / "mine.py").write_text("import json\ntext = json.dumps([])\n")
    assert load_source_file(str(tmp_path / "mine.py")).text == "[]"


def test_neighbours_of_one_name_in_two_folders_are_refused_with_both(tmp_path: Path) -> None:
    first = load_source_file(str(write_pair(tmp_path / "one")))
    with pytest.raises(ValueError) as info:
        load_source_file(str(write_pair(tmp_path / "two")))
    assert str(info.value) == (
        f"{tmp_path}/two/mid.py: ImportError: it imports base_of_test from {tmp_path}/two, and another file has imported "
        f"base_of_test from {tmp_path}/one; rename one"
    )
    assert sys.modules["base_of_test"].Ok is first.Ok


def test_a_neighbour_that_nobody_imports_may_have_any_name(tmp_path: Path) -> None:
    first = load_source_file(str(write_pair(tmp_path / "one")))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "base_of_test.py").write_text("1 / 0\n")
    (tmp_path / "two" / "mine.py").write_text("value = 3\n")
    assert load_source_file(str(tmp_path / "two" / "mine.py")).value == 3
    assert sys.modules["base_of_test"].Ok is first.Ok


def test_workers_and_a_run_that_is_resumed_from_another_folder_find_the_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = f"{write_pair(tmp_path / 'one')}:Mid"
    monkeypatch.chdir(tmp_path)
    words = f"--env {env} --policy oracle --episodes 2 --workers 1"
    assert rl.evaluate.__main__.main(words.split()) == 0
    assert rl.train.__main__.main(f"--env {env} --updates 1 --workers 1 {QUICK}".split()) == 0
    code = "import sys; from rl.train.__main__ import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "--resume", "--updates", "2", "--out", str(tmp_path / "run")]
    result = subprocess.run(
        command, cwd="/", env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=200
    )
    assert result.returncode == 0, result.stderr
