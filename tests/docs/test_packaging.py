"""Packaging: the licence ships, types are declared, extras are used, and the constraints cover what the tests install."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest

from envs.rows import ROWS
from sandboxes.extras import DISTRIBUTION, install_command
from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PACKAGES = ("envs", "agents", "rl", "sandboxes")
IMPORT_NAMES = {
    "pillow": "PIL",
    "reasoning-gym": "reasoning_gym",
    "math-verify": "math_verify",
    "gem-llm": "gem",
    "browsergym-core": "browsergym",
    "browsergym-miniwob": "browsergym",
}
TOOLS = {
    "ruff",
    "mypy",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "sphinx",
    "myst-parser",
    "furo",
}  # run as programs or plug-ins, not imported


def distribution(requirement: str) -> str:
    return re.split(r"[\[<>=~! ]", requirement)[0].lower()


def imported_modules() -> set[str]:
    """Top-level modules that any file of the repository imports or looks for by name."""
    modules = set()
    for folder in (*PACKAGES, "tests", "benchmarks", "docs", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    modules.update(alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    modules.add(str(node.module).split(".")[0])
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    modules.update(re.findall(r"^(\w+)(?:\.\w+)*$", node.value))
    return modules


def test_the_licence_is_named_and_ships() -> None:
    assert PROJECT["license"] == "Apache-2.0" and PROJECT["license-files"] == ["LICENSE"]
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_declares_its_types(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def test_every_dependency_is_imported_somewhere() -> None:
    requirements = {distribution(each) for each in chain(PROJECT["dependencies"], *EXTRAS.values())}
    modules = imported_modules()
    assert not {
        name
        for name in requirements - TOOLS - {PROJECT["name"]}
        if IMPORT_NAMES.get(name, name.replace("-", "_")) not in modules
    }


def test_the_constraints_cover_what_the_tests_install() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    versions = dict(line.lower().split("==") for line in lines if not line.startswith("#"))
    needed = {distribution(each) for each in (*PROJECT["dependencies"], *EXTRAS["test"])}
    assert needed <= {name.replace("_", "-") for name in versions}
    assert not any("+" in version for version in versions.values())


def test_the_command_that_installs_an_extra_fits_the_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PROJECT["name"] == DISTRIBUTION and find_spec("rl") is not None
    monkeypatch.chdir(ROOT)
    assert install_command("math") == "pip install -e '.[math]'"
    monkeypatch.chdir(tmp_path)
    assert install_command("math") == f"pip install -e '{ROOT}[math]'"
    assert install_command("math", root=tmp_path) == "pip install 'turnwise-rl[math]'"  # no clone


def test_every_hint_names_an_extra_that_there_is() -> None:
    """No hint is written by hand: `turnwise` on the package index is somebody else's, and a clone needs `-e`."""
    sources = [path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")]
    sources.remove(ROOT / "sandboxes" / "extras.py")
    by_hand = re.compile(r"turnwise(-rl)?\[|pip install -e")
    assert not [path for path in sources if by_hand.search(path.read_text(encoding="utf-8"))]
    extras = {name for path in sources for name in re.findall(r"install_command\([\"'](.+?)[\"']\)", path.read_text())}
    extras |= {row.extra for row in ROWS if row.extra}
    assert {"math", "docker", "lora", "vllm", "textarena"} <= extras <= EXTRAS.keys()


def test_the_pages_install_extras_that_there_are_from_a_clone() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")))
    assert not re.search(r"turnwise(-rl)?\[", text)
    names = {name for group in re.findall(r"pip install -e '\.\[(.+?)\]'", text) for name in group.split(",")}
    assert "math" in names and names <= EXTRAS.keys()
