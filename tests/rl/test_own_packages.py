"""The commands find this project's packages in folders, and beside distributions, with packages of the same names."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from rl.entry_points import SCRIPTS
from sandboxes import own_packages
from tests.support.paths import ROOT

FOREIGN = "raise RuntimeError('a foreign package was imported')\n"


def add_foreign_packages(folder: Path, kind: str, names: tuple[str, ...]) -> None:
    """Make `folder` a working directory with things of the names of our packages, and a module of the user's."""
    for name in names:
        if kind == "module":
            (folder / f"{name}.py").write_text(FOREIGN)
            continue
        (folder / name).mkdir()
        (folder / name / "notes.py").write_text(FOREIGN)
        if kind == "package":
            (folder / name / "__init__.py").write_text(FOREIGN)
    (folder / "mine.py").write_text("from envs.math.sets import Sets as Game\n")


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("kind", "env"), [("package", "mine:Game"), ("folder", "mine.py:Game"), ("module", "math/Sets-v0")]
)
def test_a_module_beside_foreign_packages_runs_ours_and_the_users(kind: str, env: str, tmp_path: Path) -> None:
    add_foreign_packages(tmp_path, kind, ("envs", "agents", "sandboxes"))
    result = run_in(tmp_path, "-m", "rl.evaluate", "--env", env, "--policy", "oracle", "--episodes", "3")
    assert (result.returncode, result.stderr) == (0, "") and "100.0%" in result.stdout


def test_console_scripts_run_beside_a_foreign_rl(tmp_path: Path) -> None:
    add_foreign_packages(tmp_path, "package", own_packages.PACKAGES)
    # A console script differs from `-c` in that the path begins with its own folder, which -P leaves out.
    check = ["check", "mine:Game", "--tasks", "3"]
    for function, arguments in (
        ("rl.entry_points import evaluate", ["--env", "mine:Game", "--policy", "oracle", "--episodes", "3"]),
        ("rl.entry_points import train", ["--env", "list"]),
        ("envs.__main__ import command", check),  # plays in child processes, too
        ("sandboxes.__main__ import command", ["serve", "--help"]),
    ):
        code = f"from {function} as script; script()"
        result = run_in(tmp_path, "-P", "-c", code, *arguments)
        assert (result.returncode, result.stderr) == (0, ""), function


def test_every_console_script_is_declared_and_listed() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert set(scripts) == set(SCRIPTS)
    for target in scripts.values():
        module, function = target.split(":")
        assert callable(getattr(import_module(module), function))
    result = subprocess.run([sys.executable, "-m", "rl"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0 and all(f"python -m {module}" in result.stdout for module, _ in SCRIPTS.values())


def test_a_command_of_rl_that_is_none_names_the_nearest() -> None:
    result = subprocess.run([sys.executable, "-m", "rl", "train"], cwd=ROOT, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (2, "rl: error: train: unknown; did you mean python -m rl.train?\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where pip has installed the packages; nothing of the project is imported yet."""
    lines = []
    for name in own_packages.PACKAGES:
        monkeypatch.delitem(sys.modules, name, raising=False)
        file = tmp_path / "site" / name / "__init__.py"
        file.parent.mkdir(parents=True)
        file.write_text(f"# {name}")
        digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).decode().rstrip("=")
        lines.append(f"{name}/__init__.py,sha256={digest},{file.stat().st_size}\n")
    record = tmp_path / "site" / "turnwise_rl-0.1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("".join(lines))
    return tmp_path / "site"


def test_the_path_stays_as_it_is_without_a_clash(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = [str(tmp_path), "/usr/lib/python3", str(site), "/elsewhere"]
    monkeypatch.setattr(sys, "path", list(path))
    own_packages.put_first(site)
    assert sys.path == path


def test_an_entry_that_clashes_goes_behind_ours_and_ours_not_before_the_standard_library(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work" / "agents").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "work"), "/usr/lib/python3", str(site), "/elsewhere"])
    own_packages.put_first(site)
    assert sys.path == ["/usr/lib/python3", str(site), str(tmp_path / "work"), "/elsewhere"]


def test_a_clone_that_is_found_through_a_hook_goes_before_what_clashes(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "others" / "agents").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", ["/usr/lib/python3", str(tmp_path / "others")])
    own_packages.put_first(site)
    assert sys.path == ["/usr/lib/python3", str(site), str(tmp_path / "others")]


def error_line(capsys: pytest.CaptureFixture[str], site: Path) -> str:
    with pytest.raises(SystemExit) as exit:
        own_packages.put_first(site)
    err = capsys.readouterr().err
    assert exit.value.code == 2 and err.count("\n") == 1
    return err


def test_a_package_that_another_distribution_replaced_is_named(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = site / "agents" / "__init__.py"
    file.write_text("import openai\n")
    other = site / "openai_agents-1.0.dist-info" / "RECORD"
    other.parent.mkdir()
    other.write_text("agents/__init__.py,sha256=x,14\n")
    assert f"{file} of turnwise-rl was replaced by that of openai-agents; " in error_line(capsys, site)
    file.unlink()
    assert f"{file} of turnwise-rl is gone; " in error_line(capsys, site)


def test_a_package_that_is_imported_already_is_named(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "early" / "envs").mkdir(parents=True)
    (tmp_path / "early" / "envs" / "__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "early"), *sys.path])
    import_module("envs")
    message = error_line(capsys, site)
    assert f"{tmp_path}/early/envs/__init__.py is imported already and hides {site}/envs of turnwise-rl" in message
