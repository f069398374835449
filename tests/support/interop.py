"""Environments of other projects: what their tests share."""

from __future__ import annotations

import json
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from rl.evaluate.__main__ import main as evaluate
from tests.support import runs


def needs(package: str, extra: str, oldest: tuple[int, int] = (0, 0)) -> list[pytest.MarkDecorator]:
    """Marks for a module whose tests need `package`: skipped, with the command that installs it, where it is absent.

    A version before `oldest`, which another project may have installed, counts as absent.
    """
    is_there = find_spec(package) is not None
    if is_there and oldest > (0, 0):
        is_there = tuple(map(int, version(package).split(".")[:2])) >= oldest
    reason = f"{package} is not installed: pip install -e '.[{extra}]'"
    return [pytest.mark.interop, pytest.mark.skipif(not is_there, reason=reason)]


def train_and_evaluate(folder: Path, spec: str, *env_args: str, max_tokens: int = 512) -> None:
    """Train one update of the bundled model on `spec`, without a cold start, and evaluate random replies and the run."""
    words = [word for argument in ("style=short", *env_args) for word in ("--env-arg", argument)]
    sizes = ["--cold-start", 0, "--updates", 1, "--groups", 1, "--size", 2, "--eval-episodes", 1, "--turn-tokens", 2]
    run = runs.train_run("--env", spec, *words, *map(str, sizes), "--max-tokens", str(max_tokens), out=folder / "run")
    metrics = runs.metrics(run)
    assert [line["update"] for line in metrics] == [1] and metrics[0]["episodes/errored"] == 0
    for policy in ("random", str(run)):
        report = folder / "report.json"
        assert evaluate(["--env", spec, *words, "--policy", policy, "--episodes", "2", "--json", str(report)]) == 0
        assert json.loads(report.read_text())["errors"] == 0
