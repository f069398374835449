"""Comparisons of methods: who is compared with whom, and what is measured besides areas."""

from __future__ import annotations

import pytest

from benchmarks import methods
from benchmarks.compare.arms import to_target
from benchmarks.compare.presets import PRESETS
from rl.cli import UserError
from rl.methods import recipe as recipes


def test_every_preset_names_recipes_and_parts_that_there_are() -> None:
    for preset in PRESETS.values():
        for arm in preset.arms:
            name, *words = arm.split()
            assert isinstance(recipes.load(name), recipes.Recipe)
            flags = dict(zip(words[::2], words[1::2], strict=True))
            slots = {flag[2:]: word for flag, word in flags.items() if flag[2:] in recipes.SLOTS}
            assert recipes.parse(slots).keys() == slots.keys()
        assert all(arm != parent for arm, parent in preset.pairs)


def test_an_arm_is_compared_with_the_recipe_that_it_differs_from() -> None:
    assert methods.parent_of("vade") == "grpo"
    assert methods.parent_of("ettrl") == "ttrl"
    assert methods.parent_of("vade --lag 2") == "vade"
    with pytest.raises(UserError, match="--arm grpo: it has no parent"):
        methods.parent_of("grpo")


def test_a_target_is_reached_where_success_stays_there_for_five_updates() -> None:
    found = {"success": [0.0, 0.9, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], "episodes": list(range(8, 96, 8))}
    assert to_target(found, 0.5, "updates") == 10
    assert to_target(found, 0.5, "episodes") == 80
    assert to_target(found, 0.9, "updates") == 11  # never: all of them


def test_evaluations_decide_when_a_target_is_reached_where_there_are_any() -> None:
    found = {"success": [1.0] * 6, "episodes": [8 * k for k in range(1, 7)], "tokens": [10 * k for k in range(1, 7)]}
    found["validation"] = [(20, 0.2), (40, 0.6), (60, 0.5)]
    assert (to_target(found, 0.5, "updates"), to_target(found, 0.5, "episodes")) == (4, 32)
    assert to_target(found, 0.7, "updates") == 6


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "give --preset NAME, or --env"),
        (["--env", "x", "--arm", "vade"], "--env needs --tokens N and one --arm"),
        (["--env", "x", "--tokens", "9", "--arm", "vade", "--against", "vade"], "compared with itself"),
    ],
)
def test_what_is_missing_is_said_in_one_line(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        methods.main(words)
