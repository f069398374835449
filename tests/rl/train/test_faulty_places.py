"""A training run whose policy breaks its places."""

from __future__ import annotations

from pathlib import Path

from tests.support.runs import metrics, rollouts, train_run

PLACE = Path(__file__).parents[2] / "support" / "places.py"
RUN = ("--groups", "2", "--size", "2", "--updates", "1", "--cold-start", "0", "--eval-episodes", "0", "--threads", "1")


def test_places_that_are_broken_in_training_are_failures_and_the_line_says_so(tmp_path: Path) -> None:
    run = train_run("--env", f"{PLACE}:Place", *RUN, "--keep", "any_group", out=tmp_path / "run")
    (line,) = metrics(run)
    assert (line["episodes/played"], line["episodes/policy_faults"], line["episodes/errored"]) == (4, 4, 0)
    assert (line["attempts/errored"], line["success/mean"], line["reward/mean"]) == (0, 0, 0)
    assert {(row["stop"], row["error"]) for row in rollouts(run, 1)} == {
        ("policy_fault", "SandboxDied: the place is gone")
    }
