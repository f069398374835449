"""Packaging: the licence ships, types are declared, extras are used, and the constraints cover what the tests install."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.util import find_spec
from itertools import chain

import pytest

from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PACKAGES = ("envs", "agents", "rl", "sandboxes")
IMPORT_NAMES = {"reasoning-gym": "reasoning_gym", "math-verify": "math_verify"}
TOOLS = {"ruff", "mypy", "pytest", "sphinx", "myst-parser", "furo"}  # run as programs or plug-ins, not imported


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


def test_hints_name_our_own_distribution() -> None:
    """`turnwise` on the package index belongs to somebody else."""
    assert PROJECT["name"] == "turnwise-rl" and find_spec("rl") is not None
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    sources = [path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")]
    assert not [path for path in (*pages, *sources) if re.search(r"turnwise\[", path.read_text(encoding="utf-8"))]
