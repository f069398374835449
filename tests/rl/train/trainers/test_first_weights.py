"""The ranks are sent the first weights once, and again only if something has changed them before the first order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from rl.train.trainers.far_learner import FarLearner


class Recorded:
    """Stands in for the processes: it notes the orders."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.verbs = folder, list[str]()

    def call(self, verb: str, content: tuple[Any, ...] = (), files: Sequence[Path] = ()) -> None:
        self.verbs.append(verb)


@pytest.mark.parametrize("is_changed", [False, True])
def test_the_first_weights_are_sent_once_unless_they_change(is_changed: bool, tmp_path: Path) -> None:
    learner = FarLearner.__new__(FarLearner)
    learner.model, learner._are_alike, learner._sent_digest = nn.Linear(2, 2), False, ""
    processes = Recorded(tmp_path)
    learner.processes = processes  # type: ignore[assignment]
    learner._send_weights("open")
    if is_changed:
        with torch.no_grad():
            learner.model.weight += 1
    learner._begin()
    learner._begin()
    assert processes.verbs == ["open", "set_weights"][: 1 + is_changed]
    assert not any(tmp_path.iterdir())
