"""Which package and room may import which, sizes of files and folders, and no draws from a global generator."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import agents
import envs
from rl.settings import Settings
from tests.support.paths import ROOT

LAYERS = ("sandboxes", "envs", "agents", "rl")
AROUND = ("tests", "examples", "benchmarks", "docs")
ROOMS = (  # of rl, each may import those before it
    *(
        "own_packages",
        "records",
        "seeds",
        "spec_paths",
        "cli",
        "style",
        "checksums",
        "processes",
        "policy",
        "rollout",
        "methods",
        "prompt_options",
        "defaults",
        "flag_fields",
        "schedule",
        "settings",
        "config_file",
    ),
    *("learner", "checks", "evaluate", "train", "viewer", "view", "attribution"),
    *("recipes", "parts", "entry_points", "__main__"),
)
MOST_MODULES = 20
LARGE_FOLDERS = {"tests/support", "rl/methods/recipes", "envs/games", "envs/math"}
FILES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
HEAVY = ("torch", "transformers", "vllm", "tokenizers", "safetensors")
LONGEST_FILE, LONGEST_FUNCTION = 320, 70
UNTELLING = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager", "handler", "impl"}
LOCAL_LUCK = {"Generator", "default_rng", "PCG64", "SeedSequence", "BitGenerator", "Philox"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), name(path))


@cache
def imported(path: Path) -> tuple[str, ...]:
    """Every module that a file imports, wherever in the file."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)} imports relatively"
            modules = [f"rl.{alias.name}" for alias in node.names] if node.module == "rl" else [str(node.module)]
            yield from modules


def dotted(node: ast.expr) -> str:
    """`np.random.seed` for such an expression."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize("path", FILES, ids=name)
def test_imports_go_one_way(path: Path) -> None:
    own = LAYERS.index(path.relative_to(ROOT).parts[0])
    above = (*LAYERS[own + 1 :], *AROUND)
    assert not [module for module in imported(path) if module.split(".")[0] in above]


@pytest.mark.parametrize("path", [path for path in FILES if name(path).startswith("rl/")], ids=name)
def test_rooms_of_rl_import_in_one_direction(path: Path) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[1] == "__init__":
        assert not imported(path)
        return
    above = ROOMS[ROOMS.index(parts[1]) + 1 :]
    assert not [module for module in imported(path) if module.startswith("rl.") and module.split(".")[1] in above]


def test_every_folder_can_be_taken_in_at_a_glance() -> None:
    counts = Counter(name(path.parent) for top in (*LAYERS, *AROUND) for path in (ROOT / top).rglob("*.py"))
    large = {folder: count for folder, count in counts.items() if count > MOST_MODULES}
    assert large.keys() <= LARGE_FOLDERS, large


def test_only_the_policy_imports_vllm() -> None:
    found = [name(path) for path in FILES if any(module.split(".")[0] == "vllm" for module in imported(path))]
    assert not [path for path in found if not path.startswith("rl/policy")]


def test_environments_and_agents_import_without_torch() -> None:
    """Each of their modules, in a process where the heavy packages cannot be imported."""
    modules = [name(path)[:-3].replace("/", ".").removesuffix(".__init__") for path in FILES]
    light = [module for module in modules if not module.startswith("rl") and not module.endswith("__main__")]
    script = f"""
import importlib, sys
for heavy in {HEAVY!r}:
    sys.modules[heavy] = None  # so that importing it raises
for module in {light!r}:
    importlib.import_module(module)
import envs
env = envs.make("math/Arithmetic-v0")
env.reset(seed=0)
print(env.step("1")[2])
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


@pytest.mark.parametrize("module", ["rl.train.__main__", "rl.evaluate.__main__", "rl.attribution"])
def test_a_command_begins_without_statistics(module: str) -> None:
    """`scipy.stats` takes longer to import than everything else of a command but torch."""
    script = f"import sys, {module}; print('scipy.stats' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (result.stdout, result.returncode) == ("False\n", 0), result.stderr


def test_the_packages_are_those_of_this_repository() -> None:
    """Other distributions ship top-level packages of the same names."""
    for package in (envs, agents):
        assert ROOT in Path(str(package.__file__)).resolve().parents


@pytest.mark.parametrize("path", FILES, ids=name)
def test_files_and_functions_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= LONGEST_FUNCTION, f"{node.name} has {lines} lines"


def test_a_module_is_named_by_what_it_gives() -> None:
    assert not [name(path) for path in FILES if UNTELLING & {path.stem, *path.relative_to(ROOT).parts}]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_product_code_draws_from_a_global_generator(path: Path) -> None:
    found = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module in ("random", "numpy.random"):
            found += [alias.name for alias in node.names if alias.name not in LOCAL_LUCK | {"Random"}]
        if not isinstance(node, ast.Call):
            continue
        called = dotted(node.func)
        owner, _, function = called.rpartition(".")
        drawn = owner in ("np.random", "numpy.random") and function not in LOCAL_LUCK | {"get_state", "set_state"}
        drawn |= owner == "random" and "random" in imported(path) and function not in ("Random", "getstate", "setstate")
        if drawn or called == "torch.manual_seed":
            found.append(called)
    assert not found


def test_every_setting_is_read_somewhere() -> None:
    """`chosen.lr`, `s.lr`, `self.settings.lr`, and `self.lr` within the class itself and those that it is made of."""
    read = set()
    for path in (ROOT / "rl").rglob("*.py"):
        names = {"settings", "chosen", "s", *(["self"] if path.name in ("settings.py", "schedule.py") else [])}
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and dotted(node.value).split(".")[-1] in names:
                read.add(node.attr)
    assert {field.name for field in fields(Settings)} <= read


def test_no_function_of_the_product_is_there_for_tests_alone() -> None:
    """Left out: what is found by its name in a text, as parts are, and what a package's `__init__` offers to others."""
    used = set()
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Name):
                used.add(node.id)
            elif isinstance(node, ast.Attribute):
                used.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.update(node.value.replace(":", ".").split("."))
    by_name = ("rl/methods/parts/", "rl/checks/", "sandboxes/checks/")
    functions = [
        f"{name(path)}: {node.name}"
        for path in FILES
        if not name(path).startswith(by_name) and path.name != "__init__.py"
        for node in tree(path).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and node.name not in used
    ]
    assert not functions
