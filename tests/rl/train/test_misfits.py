"""A part that cannot work with what a run gives it: one line and exit code 2, with nothing lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl.methods import recipe as recipes
from rl.methods.estimators import turn_table
from rl.methods.options import PartError
from rl.methods.parts import scale
from tests.rl.methods.test_credit_properties import flat
from tests.support.batches import make_group, make_trajectory
from tests.support.runs import training_error

TINY = "--env math/Arithmetic-v0 --updates 1 --groups 2 --size 2 --cold-start 0 --eval-episodes 0 --turn-tokens 4"


def spread() -> list:
    return [
        make_group(make_trajectory((1, 0.0), (1, 1.0)), make_trajectory((2, 1.0), (1, 1.0)), make_trajectory((1, 0.0)))
    ]


@pytest.mark.parametrize("algo", ["turn_grpo", "trloo", "mcts"])
def test_credit_by_turns_refuses_a_scale_that_has_no_unit_for_it(algo: str) -> None:
    recipe = recipes.load(algo)
    assert np.any(flat(recipe.credit(spread(), recipe.normalization)))
    misfit = recipe.but(scale=scale.bounded_std)
    with pytest.raises(PartError, match="group_std"):
        misfit.credit(spread(), misfit.normalization)


def test_groups_without_spread_have_no_unit_and_are_no_misfit() -> None:
    same = [make_group(make_trajectory((1, 1.0)), make_trajectory((1, 1.0)))]
    recipe = recipes.load("turn_grpo")
    assert not np.any(flat(recipe.credit(same, recipe.normalization)))
    assert turn_table.inverse_unit(np.array([0.5, 0.5]), np.array([0, 0]), recipe).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "flags, word",
    [
        ("--algo step_search", "reads 'gain'"),
        ("--credit scored", "reply_advantage"),
        ("--credit decoupled:weights=foo:2", "no reward is named 'foo'"),
        ("--surrogate dual_clip:cap=0.5", "cap='0.5' is not a number above 1"),
    ],
)
def test_a_run_with_one_ends_in_a_line(flags: str, word: str, tmp_path: Path) -> None:
    assert word in training_error(*TINY.split(), *flags.split(), "--out", str(tmp_path / "run"))


@pytest.mark.parametrize(
    "line, word",
    [
        ("Recipe(shape=(lambda groups: groups,))", "cannot be named in words"),
        ("Recipe(penalty=penalty.kl_k2)", "penalty takes a tuple of parts"),
    ],
)
def test_a_method_of_ones_own_with_such_a_slip_ends_in_a_line(line: str, word: str, tmp_path: Path) -> None:
    method = tmp_path / "mine.py"
    method.write_text(
        f"from rl.methods.parts import penalty\nfrom rl.methods.recipe import Recipe\n\nrecipe = {line}\n"
    )
    assert word in training_error(*TINY.split(), "--algo", str(method), "--dry-run")
