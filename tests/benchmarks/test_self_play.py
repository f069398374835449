"""Self-play of a table of logits through the trainer's loop: its gradient, and that it approaches an equilibrium."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.seats import self_play
from benchmarks.support.self_play_arms import PLAIN
from benchmarks.support.table_policy import Table, TableAgent, TableLearner
from envs.types import text, user
from rl.methods import recipe as recipes
from rl.methods.inputs import Row

STATES = {"J": ("check", "bet"), "Jb": ("call", "fold"), "Q": ("check",)}


def row(prefix, ids, mask, adv):
    size = len(ids)
    old = np.full(size, np.log(0.5), np.float32) * np.array(mask)
    turn = np.cumsum(mask) * np.array(mask) - 1
    arrays = (np.array(ids), np.array(mask, bool), old, np.array(adv, np.float32), turn)
    return Row(prefix, *arrays, streams={}, trajectory=0, group=0)


def test_a_word_with_an_advantage_becomes_more_probable_in_its_state_alone():
    """One token of advantage 1 at odds 1/2 and one of advantage 0: the mean gradient of the logits is -/+ 1/4."""
    table = Table(STATES)
    first = table.first_word
    recipe = recipes.load("grpo").but(**recipes.parse(PLAIN))
    TableLearner(table, lr=1.0).update([row((0,), [first + 1, 1, first], [1, 0, 1], [1, 0, 0])], recipe)
    expected = torch.tensor([[-0.25, 0.25], [0, 0], [0, 0]], dtype=torch.float64)
    assert torch.allclose(table.logits.detach(), expected, atol=1e-6)
    assert table.strategy()["Q"] == [1.0]


def test_an_agent_reads_the_state_and_says_its_legal_words():
    agent = TableAgent(Table(STATES))
    assert agent.open((user("J check|bet?"),)).ids == (0,)
    assert text(agent.act([agent.table.first_word + 1])) == "bet"
    assert agent.observe((user("Jb call|fold?"),)).ids == (1,)
    assert text(agent.act([agent.table.first_word])) == "call"


def test_self_play_through_the_loop_makes_a_table_less_exploitable(tmp_path):
    found = self_play.one("table", "annealed", 0, 20, tmp_path)
    assert [point["update"] for point in found["curve"]] == [0, 10, 20]
    assert found["start"] == pytest.approx(0.4583333, abs=1e-6)
    assert found["last"] < 0.3
