"""A run with trainers, engines and workers in processes of their own is killed again and again, and loses nothing."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.rl.train.trainers.test_runs import assert_alike, when_gone
from tests.support.process_tree import descendants
from tests.support.runs import Child, flags, metrics, train_run

KILLS = int(os.environ.get("TURNWISE_KILLS", "4"))
UPDATES = 12


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_run_that_is_killed_at_random_moments_trains_every_ticket_once(tmp_path: Path) -> None:
    several = "--trainers", "2", "--engines", "2", "--workers", "2"
    words = flags("Talk", updates=UPDATES, save_every=1)
    left_alone = train_run(*words, *several, out=tmp_path / "alone")
    rng, run, kills = random.Random(0), tmp_path / "run", 0
    while True:
        again = ("--resume", "--out", str(run)) if (run / "config.toml").exists() else (*words, "--out", str(run))
        child = Child(*again, *several, log=tmp_path / f"log-{kills}")
        if kills == KILLS:
            assert child.wait().code == 0, child.output()
            break
        child.wait_for("resuming" if kills else "update  1/", 120)
        time.sleep(rng.uniform(0, 3))
        assert child.process.pid
        started = descendants(child.process.pid)
        child.signal(signal.SIGKILL)
        child.process.join(60)
        kills += 1
        assert when_gone(started), "processes are left"
    lines = metrics(run)
    assert [line["update"] for line in lines] == list(range(1, UPDATES + 1))
    assert_alike(left_alone, run, tolerance=2e-3)
