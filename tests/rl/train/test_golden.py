"""A seeded run of the bundled model gives the numbers it always gave.

They are in `golden/talk.json`. A change that is meant to change them writes them anew and says so:

    python tests/rl/train/test_golden.py

Metrics are compared to four digits, because processors differ in the last ones. The first update's tokens are exact.
There is no cold start, which would make of those last digits other first ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.runs import TASKS, metrics, rollouts, trained

GOLDEN = Path(__file__).with_name("golden") / "talk.json"
KEYS = ("reward/mean", "success/mean", "entropy", "grad_norm", "loss", "kl/sampler_trainer", "tokens/trained")
RUN = (
    *("--env", f"{TASKS}:Talk", "--groups", "4", "--size", "4", "--updates", "4", "--turn-tokens", "6"),
    *("--epochs", "2", "--lr", "0.001", "--cold-start", "0", "--eval-episodes", "4", "--threads", "1"),
)


def numbers(out: Path) -> dict[str, Any]:
    """What is compared."""
    run = trained(*RUN, out=out)
    replies = {
        f"{line['group']}/{line['member']}": " | ".join(" ".join(map(str, turn["ids"])) for turn in line["turns"])
        for line in rollouts(run, 1)
    }
    return {"metrics": [{key: line[key] for key in KEYS} for line in metrics(run)], "replies": replies}


def test_a_seeded_run_gives_the_numbers_on_record(tmp_path: Path) -> None:
    golden = json.loads(GOLDEN.read_text())
    found = numbers(tmp_path / "run")
    assert found["replies"] == golden["replies"]
    assert len(found["metrics"]) == len(golden["metrics"])
    for mine, recorded in zip(found["metrics"], golden["metrics"], strict=True):
        assert mine == pytest.approx(recorded, rel=1e-4, abs=1e-6)


if __name__ == "__main__":
    with TemporaryDirectory() as home:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(numbers(Path(home) / "run"), indent=1) + "\n")
