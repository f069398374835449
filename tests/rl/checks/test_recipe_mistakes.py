"""Mistakes in a recipe or a part of one's own that would otherwise train without a word, or end in an error far away."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rl.checks import check_recipe
from rl.checks.parts import RecipeFault
from rl.methods import recipe as recipes
from rl.methods.parts import needs
from rl.methods.recipe import Recipe


def takes_a_mean(log_ratio: Any, tokens: Any) -> Any:
    return -(tokens.adv - tokens.adv[tokens.mask].mean()) * log_ratio.exp()


def takes_a_mean_of_the_padding(log_ratio: Any, tokens: Any) -> Any:
    return -(tokens.adv - tokens.adv.mean(1, keepdim=True)) * log_ratio.exp()


def draws_anywhere(history: Any, rng: Any) -> int:
    return int(np.random.default_rng().integers(1_000_000) % history.num_tasks)


def fails_on_few_rows(log_ratio: Any, tokens: Any) -> Any:
    if len(tokens.adv) < 20:
        raise ValueError("batch too small")
    return -tokens.adv * log_ratio.exp()


@dataclass
class Counts:
    """Counts its calls, and tells no checkpoint."""

    calls: float = 0.0

    def __call__(self, log_ratio: Any, tokens: Any) -> Any:
        self.calls += 1
        return -tokens.adv * log_ratio.exp()


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"surrogate": takes_a_mean}, "gives a token other numbers in another micro-batch"),
        ({"surrogate": takes_a_mean_of_the_padding}, "gives a token other numbers in another micro-batch"),
        (
            {"surrogate": fails_on_few_rows},
            r"^surrogate fails_on_few_rows: raised ValueError: batch too small \(.*line \d+\)",
        ),
        ({"sampler": draws_anywhere}, "gives the task by chance"),
        ({"surrogate": Counts()}, "keeps numbers between calls that no checkpoint holds"),
    ],
)
def test_what_would_change_with_the_machine_is_named(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(RecipeFault, match=word):
        check_recipe(recipes.load("grpo").but(**changes))


def test_a_stream_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match=r"unknown stream 'reff' in @needs; did you mean 'ref'\?"):
        needs("reff")


@pytest.mark.parametrize("changes", [{"surrogate": "clip"}, {"surrogate": None}, {"penalty": ("kl_k3",)}])
def test_a_part_that_cannot_be_called_is_named(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is no part; name a function, as in rl\.parts"):
        recipes.load("grpo").but(**changes)


def test_a_module_in_place_of_a_recipe_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from rl.recipes import grpo\nrecipe = grpo\n")
    with pytest.raises(ValueError, match="but a module; write"):
        recipes.load(str(file))


PARTS_OF_A_FILE = """
class Keeps:
    def __init__(self, c=1.0):
        self.other = c

    def __call__(self, log_ratio, tokens):
        return -self.other * tokens.adv * log_ratio.exp()


def plain(log_ratio, tokens, *, c=2.0, names=()):
    return -c * tokens.adv * log_ratio.exp()


def positional(log_ratio, tokens, c=2.0):
    return -c * tokens.adv * log_ratio.exp()
"""


def test_options_without_annotations_have_the_type_of_their_default(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PARTS_OF_A_FILE)
    part: Any = recipes.part("surrogate", f"{file}:plain:c=3")
    assert part.keywords == {"c": 3.0}
    for text, word in [
        ("plain:names=a", "names has no type that text can be read as; annotate it"),
        ("positional:c=3", r"no option 'c'; write `\*, c` in its signature"),
    ]:
        with pytest.raises(ValueError, match=word):
            recipes.part("surrogate", f"{file}:{text}")
    with pytest.raises(ValueError, match="Keeps keeps no attribute 'c' for its option; make it a dataclass"):
        recipes.words(Recipe(surrogate=recipes.part("surrogate", f"{file}:Keeps")))


def test_gradients_that_an_environment_has_switched_off_are_no_fault_of_the_method() -> None:
    torch.set_grad_enabled(False)
    try:
        check_recipe(recipes.load("grpo"))
    finally:
        torch.set_grad_enabled(True)
