"""Lengths of replies and episodes follow from the environment and the model."""

from __future__ import annotations

import pytest

from rl.defaults import TINY_CONTEXT, lr_of_others
from rl.policy import tiny
from rl.settings import Settings
from tests.support.runs import SMALL, small_model, train, training_error


def lengths(settings, **facts):
    found = settings.with_defaults(**facts)
    return found.turn_tokens, found.max_tokens


def test_the_bundled_model_has_512_tokens_in_short_style_and_what_it_needs_in_full_style():
    assert TINY_CONTEXT == tiny.MAX_LENGTH
    short, full = Settings(style="short"), Settings(style="full")
    facts = {"max_turns": 4, "longest_reply": 3, "episode_tokens": 800}
    assert lengths(short, **facts) == (8, 512)
    assert lengths(full, **facts) == (8, 1792)
    assert lengths(Settings(env_arg=["style=full"]), **facts) == (8, 1792)
    assert lengths(full, **facts | {"episode_tokens": 5000}) == (8, 2048)


def test_another_model_has_room_to_think_in_every_turn():
    model = Settings(model="somewhere/model")
    assert lengths(model, max_turns=1, opening_tokens=300) == (1024, 1536)
    assert lengths(model, max_turns=5, opening_tokens=300) == (1024, 6144)
    assert lengths(model, max_turns=100, opening_tokens=300) == (1024, 16384)
    assert lengths(Settings(model="m", turn_tokens=4096), max_turns=2, opening_tokens=0) == (4096, 8448)
    assert lengths(Settings(model="m", max_tokens=600), max_turns=2) == (599, 600)
    with pytest.raises(ValueError, match="--turn-tokens 600: must be below --max-tokens 512"):
        Settings(turn_tokens=600).with_defaults(1)


def test_the_models_context_bounds_what_is_derived_and_nothing_else():
    derived = Settings(model="m").with_defaults(5)
    assert derived.within(100_000) is derived
    assert (derived.within(1000).turn_tokens, derived.within(1000).max_tokens) == (999, 1000)
    wanted = Settings(model="m", max_tokens=4000).with_defaults(5)
    assert wanted.within(1000) is wanted  # which the engine refuses


@pytest.mark.parametrize(
    ("parameters", "rate", "of_adapters"),
    [
        (7_000_000_000, 1e-6, 1e-5),
        (500_000_000, 1e-6, 1e-5),
        (135_000_000, 2.9e-6, 2.9e-5),
        (30_000_000, 9.5e-6, 7.5e-5),
        (800_000, 7.5e-5, 7.5e-5),
    ],
)
def test_a_small_model_takes_larger_steps_up_to_a_limit(parameters, rate, of_adapters):
    assert lr_of_others(parameters, lora=0) == rate
    assert lr_of_others(parameters, lora=8) == of_adapters


def test_a_run_prints_and_records_its_lengths():
    words = ["--env", "math/Arithmetic-v0", "--model", small_model(), *SMALL, "--dry-run"]
    out = train(*words).out
    assert "max_tokens = 512" in out and '"max_tokens"' in out.partition("derived = ")[2].partition("]")[0]
    longest = training_error(*words, "--max-tokens", "999999")
    assert "a context of 999999 tokens (--max-tokens)" in longest


def test_a_limit_below_a_prompt_is_named_with_one_that_has_room(tmp_path):
    error = training_error("--env", "tools/Workflow-v0", "--max-tokens", "40", *SMALL, "--out", tmp_path / "run")
    assert "--max-tokens 40: a prompt of tools/Workflow-v0 has" in error and "have room for replies" in error
