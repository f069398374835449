"""The page `docs/add_a_method.md` does what it says."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from rl.learner.loss import policy_loss
from rl.methods import recipe as recipes
from rl.methods.parts import ratio, reduce
from rl.methods.recipe import Recipe
from tests.support.batches import make_tokens, off_policy, toy_groups
from tests.support.paths import DOCS, VECTORS

PAGE = (DOCS / "add_a_method.md").read_text(encoding="utf-8")
METHOD, CHECK = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sapo.py").write_text(METHOD, encoding="utf-8")
    return recipes.load("sapo.py")


def test_the_page_lists_every_slot_in_order() -> None:
    listed = re.findall(r"^\| `(\w+)`(\*?) \|", PAGE, flags=re.MULTILINE)
    assert [slot for slot, _ in listed] == list(recipes.SLOTS)
    assert [slot for slot, star in listed if star] == list(recipes.MANY)


def test_the_example_is_a_method_of_its_own(method: Recipe) -> None:
    losses = {}
    for name, recipe in (("sapo", method), ("grpo", recipes.load("grpo"))):
        batch = off_policy(toy_groups(), recipe)
        policy_loss(batch, recipe).backward()
        losses[name] = batch.logp.grad
    assert torch.isfinite(losses["sapo"]).all()
    assert not torch.allclose(losses["sapo"], losses["grpo"], atol=1e-6)


def test_the_check_on_the_page_passes(method: Recipe) -> None:
    exec(compile(CHECK, "docs/add_a_method.md", "exec"), {})


def test_the_flags_on_the_page_are_understood_and_written_back(method: Recipe) -> None:
    commands = [line.split() for line in re.findall(r"^python -m rl\.train .*$", PAGE, flags=re.MULTILINE)]
    assert len(commands) == 3
    for words in commands:
        flags = dict(zip(words[3::2], words[4::2], strict=True))
        slots = {key[2:]: value for key, value in flags.items() if key[2:] in recipes.SLOTS}
        chosen = recipes.load(flags["--algo"]).but(**recipes.parse(slots))
        written = recipes.words(chosen)
        assert "sapo.py:soft_gate" in written["surrogate"]
        assert recipes.words(Recipe().but(**recipes.parse(written))) == written


@pytest.mark.parametrize("note", ["sapo on mild", "sapo on wide"])
def test_the_example_gives_the_numbers_of_another_trainer(method: Recipe, note: str) -> None:
    file = json.loads((VECTORS / "verl_policy_losses.json").read_text(encoding="utf-8"))
    (case,) = [case for case in file["cases"] if case["note"] == note]
    inputs = case["inputs"]
    batch = make_tokens(inputs["logp"], inputs["old_logp"], inputs["advantages"], inputs["response_mask"])
    loss = (method.surrogate(ratio.token(batch), batch) * reduce.sequence_mean(batch.mask.double(), batch.labels)).sum()
    loss.backward()
    close = partial(np.testing.assert_allclose, **file["tolerance"])
    close(loss.item(), case["expected"]["loss"])
    close(batch.logp.grad.numpy(), case["expected"]["grad_logp"])
