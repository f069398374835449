"""A seeded run of the bundled model gives the numbers that are recorded in `golden/talk.json`.

Record them again, and say so, with a change that is meant to change them:

    python tests/rl/train/test_golden.py

Metrics are compared to four digits, because processors differ in the last ones. The tokens of the first update are
compared exactly. There is no cold start, which would amplify differences in the last digits.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.runs import TASKS, metrics, rollouts, train_run

GOLDEN = Path(__file__).with_name("golden") / "talk.json"
KEYS = ("reward/mean", "success/mean", "entropy", "grad_norm", "loss", "kl/sampler_trainer", "tokens/trained")
RUN = (
    *("--env", f"{TASKS}:Talk", "--groups", "4", "--size", "4", "--updates", "4", "--turn-tokens", "6"),
    *("--epochs", "2", "--lr", "0.001", "--cold-start", "0", "--eval-episodes", "4", "--threads", "1"),
)


def numbers(out: Path) -> dict[str, Any]:
    """Run, and return the numbers that are compared."""
    run = train_run(*RUN, out=out)
    replies = {
        f"{line['group']}/{line['member']}": " | ".join(" ".join(map(str, turn["ids"])) for turn in line["turns"])
        for line in rollouts(run, 1)
    }
    return {"metrics": [{key: line[key] for key in KEYS} for line in metrics(run)], "replies": replies}


def test_a_seeded_run_gives_the_numbers_on_record(tmp_path: Path) -> None:
    golden = json.loads(GOLDEN.read_text())
    current = numbers(tmp_path / "run")
    assert current["replies"] == golden["replies"]
    assert len(current["metrics"]) == len(golden["metrics"])
    for actual, expected in zip(current["metrics"], golden["metrics"], strict=True):
        assert actual == pytest.approx(expected, rel=1e-4, abs=1e-6)


if __name__ == "__main__":
    with TemporaryDirectory() as home:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(numbers(Path(home) / "run"), indent=1) + "\n")
