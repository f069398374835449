"""Stacks of a run are counted for the learner, the engine or all else, and only those of its updates."""

from __future__ import annotations

import pytest

from benchmarks.steps.update_share import divide
from rl.cli import UserError

TRAIN = "run (rl/cli.py:1);Session.train (rl/train/session.py:1)"
TASK = f"{TRAIN};BaseEventLoop._run_once (asyncio/base_events.py:1)"


def test_what_is_on_the_stack_decides() -> None:
    shares = divide(
        [
            f"{TRAIN};Session._train (rl/train/session.py:2);step (rl/learner/learner.py:3);adam (torch/optim.py:4) 5",
            f"{TASK};Seat._sample (rl/rollout/seat.py:1);HFPolicy.sample (rl/policy/hf.py:2) 3",
            f"{TASK};Env.step (envs/env.py:9) 2",
            f"{TRAIN};load (rl/train/cold_start.py:3);step (rl/learner/learner.py:3) 90",
            "run (rl/cli.py:1);<module> (torch/__init__.py:9) 90",
            "Thread.run (threading.py:1);Condition.wait (threading.py:2) 90",
        ]
    )
    assert shares == {"learner": 0.5, "engine": 0.3, "else": 0.2}


def test_without_an_update_nothing_is_said() -> None:
    with pytest.raises(UserError, match="no update"):
        divide(["run (rl/cli.py:1);<module> (torch/__init__.py:9) 90"])
