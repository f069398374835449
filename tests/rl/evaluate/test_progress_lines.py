"""Progress where output is no terminal: a plain line from time to time."""

from __future__ import annotations

import pytest

from rl.evaluate.console import progress_bar
from rl.evaluate.progress_lines import ProgressLines
from rl.train.console import Console
from rl.train.imitation import Measurement, Progress
from tests.support.batches import make_group, make_trajectory


class Clock:
    """Seconds that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_line_says_how_far_the_phase_is_and_no_two_come_within_half_a_minute() -> None:
    clock, lines = Clock(), list[str]()
    progress = ProgressLines("test tasks", lines.append, clock)
    group = make_group(make_trajectory((1, 1.0)))
    for clock.now_s in (1.0, 29.0, 31.0, 45.0, 60.0, 61.0):
        progress.count(group, 200)
    success = sum(trajectory.success for trajectory in group.trajectories)
    assert lines == [f"test tasks: 3 of 200 tasks, success {success:.3f}, 31 s", lines[1]]
    assert lines[1].startswith("test tasks: 6 of 200 tasks") and lines[1].endswith("61 s")


@pytest.fixture
def no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl.evaluate.progress_lines.INTERVAL_S", 0.0)


@pytest.mark.usefixtures("no_interval")
def test_an_evaluation_writes_them_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    group = make_group(make_trajectory((1, 1.0)))
    with progress_bar(2) as on_group:
        on_group(group)
    out, err = capsys.readouterr()
    assert not out and "1 of 2 tasks" in err and "\r" not in err and err.count("\n") == 1
    with progress_bar(2, enabled=False) as on_group:
        on_group(group)
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("no_interval")
def test_cold_start_and_held_out_play_print_them(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(10)
    console.cold_start(Progress(30, 900), Measurement(0.25, 0.5, 0.9))
    console.greedy_groups("test", 200)(make_group(make_trajectory((1, 1.0))))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "cold start: 900 oracle episodes in 30 steps; sampled success 0.25, unequal rewards in 0.50 of the groups, "
        "0.90 of the replies valid, 0 s"
    )
    assert lines[1].startswith("test tasks: 1 of 200 tasks, success ")
