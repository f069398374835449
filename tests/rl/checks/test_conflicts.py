"""Parts that must not be combined are refused before a run begins, in one line that names both."""

from __future__ import annotations

import pytest

from rl.checks import RecipeFault, check_recipe
from rl.methods import recipe as recipes
from rl.methods.conflicts import find_conflict
from rl.train.precision import decouple
from tests.support.runs import flags, training_error


@pytest.mark.parametrize(
    "name, words, line",
    [
        ("cispo_sampler", {"select": "mismatch_tis"}, "ratio sampler with select mismatch_tis: .*count twice"),
        ("vespo", {"select": "mismatch_icepop"}, "ratio sequence_product with select mismatch_icepop"),
        ("dppo", {"step": "normalised_tis"}, "ratio sampler with step normalised_tis"),
        ("sapo", {"select": ["every_token", "mismatch_tis"]}, "surrogate soft_gate with select mismatch_tis: the gate"),
        ("mc_grpo", {"scale": "group_std"}, "baseline group_median with scale group_std: .*group_mad or none"),
        ("vcpo", {"baseline": "leave_one_out"}, "credit minimum_variance with baseline leave_one_out"),
        ("otb", {"scale": "group_std"}, "credit optimal_token with scale group_std"),
    ],
)
def test_two_parts_that_exclude_each_other_are_refused(name: str, words: dict, line: str) -> None:
    recipe = recipes.load(name).but(**recipes.parse(words))
    with pytest.raises(RecipeFault, match=line) as fault:
        check_recipe(recipe)
    assert "\n" not in str(fault.value)


def test_a_method_of_single_episodes_is_refused_with_groups() -> None:
    line = training_error(*flags("Low", algo="mssr", updates=1))
    assert "credit beta_value with --size 4: it compares a task with its own past; use --size 1" in line


def test_one_advantage_per_trajectory_is_asked_for_where_a_method_needs_it() -> None:
    recipe = recipes.load("gmpo").but(**recipes.parse({"credit": "turn_returns"}))
    with pytest.raises(RecipeFault, match=r"surrogate geometric_clip.*one advantage per trajectory"):
        check_recipe(recipe)


@pytest.mark.parametrize("name", [name for name, _ in recipes.catalogue()])
def test_no_bundled_recipe_is_in_conflict_also_when_it_is_decoupled(name: str) -> None:
    recipe = recipes.load(name)
    assert find_conflict(recipe, 1) == ""
    assert find_conflict(decouple(recipe), 1) == ""
