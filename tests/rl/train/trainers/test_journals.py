"""A journal beside several trainers: no finished group is sampled again, whoever is killed, and updates are the same."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.rl.train.journal.test_journal import RESULTS, WORDS, assert_nothing_was_sampled_again, ready, records
from tests.rl.train.trainers.test_runs import ranks_of, when_gone
from tests.support.runs import Child, metrics, train

TRAINERS = ("--trainers", "2")


@pytest.mark.long
@pytest.mark.parametrize(("who", "after"), [("the run", 2), ("the run", 1), ("a trainer", 2)])
def test_a_journal_goes_on_with_trainers_whoever_is_killed(who: str, after: int, tmp_path: Path) -> None:
    """With one trainer after the kill, updates are the same but for rounding."""
    run = tmp_path / "run"
    child = Child(*WORDS, *TRAINERS, "--out", str(run), log=tmp_path / "log")
    assert child.wait_for("update 4/", 120), child.output()
    ranks = ranks_of(child.process.pid or 0)
    if who == "the run":
        child.signal(signal.SIGKILL)
        child.wait()
        assert when_gone(ranks)
        finished, before = ready(run), metrics(run)
        result = train("--resume", "--out", str(run), "--trainers", str(after))
        assert result.code == 0, result.err
        output = result.out
    else:
        finished, before = ready(run), metrics(run)
        os.kill(ranks[1], signal.SIGKILL)
        assert child.wait().code == 0, child.output()
        output = child.output()
        assert "starting again after update 0" in output
    assert "journal since update 0: " in output and len(ranks) == 2
    assert len(finished) >= 2 * len(before) >= 8
    assert_nothing_was_sampled_again(run, finished)
    lines = metrics(run)
    assert [line["update"] for line in lines] == list(range(1, 9))
    for line, same in zip(before, lines, strict=False):
        expected = {name: line[name] for name in RESULTS}
        tolerance = 0.0 if after == 2 else 1e-3
        assert {name: same[name] for name in RESULTS} == pytest.approx(expected, rel=tolerance, abs=tolerance)
    claims = [number for record in records(run) if record["kind"] == "CLAIM" for number, _ in record["tickets"]]
    assert len(set(claims)) == len(claims) == 16
