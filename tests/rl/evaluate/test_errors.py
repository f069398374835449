"""What an evaluation says of episodes that failed, and of those whose replies broke their place."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from envs.types import Stop
from rl import cli
from rl.evaluate import __main__ as evaluate
from rl.evaluate.comparison import compare
from rl.evaluate.console import comparison_table
from rl.evaluate.report import Report
from rl.records import Group, Ticket, Trajectory

HERE = Path(__file__).parents[2] / "support" / "places.py"


def play(capsys: pytest.CaptureFixture[str], out: Path, *words: object) -> tuple[int, Report, str, str]:
    """Run `rl.evaluate`; return the status, the report, standard output and standard error."""
    with pytest.raises(SystemExit) as stop:
        cli.run(partial(evaluate.main, [*map(str, words), "--json", str(out)]))
    return (int(stop.value.code or 0), Report.from_json(out), *capsys.readouterr())


def test_who_solves_one_task_in_five_and_breaks_its_place_otherwise_has_solved_one_in_five(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ("--env", f"{HERE}:Place", "--policy", "random")
    status, report, out, _ = play(capsys, tmp_path / "r.json", *flags)
    assert (status, report.success.mean, report.errors, report.policy_faults) == (0, 0.2, 0, 16)
    assert report.success_counting_errors == report.success
    assert report.stops[Stop.POLICY_FAULT].episodes == 16
    assert [row.stop for row in report.per_task].count(["policy_fault"]) == 16
    assert "policy_fault 16 80.0% 0.0%" in " ".join(out.split())


def test_errors_are_counted_as_failures_beside_and_warned_of(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ("--env", f"{HERE}:Place", "--policy", "random", "--env-arg", "busy=true")
    status, report, out, err = play(capsys, tmp_path / "r.json", *flags)
    assert (status, report.success.mean, report.errors, report.policy_faults) == (0, 1.0, 16, 0)
    assert report.success_counting_errors.mean == 0.2
    assert report.success_counting_errors.low and report.success_counting_errors.high
    assert "errors as failures 20.0%" in " ".join(out.split())
    warning = "warning: above 1% errors, which success leaves out: 16 of 20 episodes failed; the first: test/1: Sandbox"
    assert sum(warning in line for line in err.splitlines()) == 1


def make_report(num_errors: int) -> Report:
    groups = [Group(Ticket(n, n, "test", n, 1), [Trajectory([], Stop.TERMINATED, task=f"test/{n}")]) for n in range(9)]
    for group in groups[:num_errors]:
        group.errored = [Trajectory([], Stop.ERROR, task=group.trajectories.pop().task, error="OSError: x")]
    return Report.from_groups(groups, env="e", policy="p", seed=0)


def test_a_comparison_says_whether_errors_differ() -> None:
    def text_of(new: int, old: int) -> str:
        page = io.StringIO()
        Console(file=page, width=80).print(comparison_table(compare(make_report(new), make_report(old))))
        return page.getvalue()

    assert "3 here, 1 there: left out" in text_of(3, 1)
    assert "here" not in text_of(1, 1)
