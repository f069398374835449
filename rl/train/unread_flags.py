"""Flags of `rl.train` that nothing would read beside the other settings of a run, which refuses them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields
from typing import NamedTuple

from rl.cli import UserError
from rl.flag_fields import flag_name
from rl.methods.recipe import Recipe
from rl.methods.streams import needs
from rl.settings import Settings


class Reader(NamedTuple):
    """When a run reads a setting, and what to say of its flag where it does not: why not, and what it goes with.

    Where the flag of the setting `switch` was typed too, it is off on purpose, as in a sweep, and nothing is said.
    """

    is_there: Callable[[Settings, Recipe], bool]
    reason: str
    switch: str = ""


def check(settings: Settings, recipe: Recipe, typed: Collection[str]) -> None:
    """Raise `UserError` for a setting among `typed`, those that flags have set, that a run of `recipe` would not read.

    One that is at its default changes nothing, and is not refused.
    """
    defaults = {setting.name: setting.default for setting in fields(Settings)}
    for name, reader in READERS.items():
        value = getattr(settings, name)
        is_meant = name in typed and value != defaults[name] and reader.switch not in typed
        if is_meant and not reader.is_there(settings, recipe):
            text = flag_name(name) if isinstance(value, bool) else f"{flag_name(name)} {value}"
            raise UserError(f"{text}: {reader.reason}, or leave it out")
    evaluation_note(settings, typed)


def evaluation_note(settings: Settings, typed: Collection[str]) -> str:
    """Return a line if the run ends before the first evaluation of an `eval_every` that comes from a file, else "".

    It is "" too where the number of updates is not known yet, and for 0 updates, which are there on purpose. Raises
    `UserError`, with the same words, if `eval_every` is among `typed`, the settings that flags have set.
    """
    every, updates = settings.eval_every, settings.updates
    if not updates or every <= updates:
        return ""
    length = f"{updates} updates" + " (default)" * ("updates" in settings.derived)
    reason = f"the run ends before, after {length}; lower --eval-every or raise --updates"
    if "eval_every" in typed:
        raise UserError(f"--eval-every {every}: {reason}")
    return f"warning: eval_every = {every} of the file: {reason}"


def _samples_ahead(settings: Settings, recipe: Recipe) -> bool:
    """Whether groups are in flight while the weights change."""
    return settings.outstanding(settings.groups) > settings.groups


def _has_cold_start(settings: Settings, recipe: Recipe) -> bool:
    return settings.is_tiny if settings.cold_start is None else settings.cold_start > 0


def _can_decouple(settings: Settings, recipe: Recipe) -> bool:
    from rl.train.precision import decouple  # imports torch

    return not settings.decoupled or needs(recipe, "proximal") or decouple(recipe) is not recipe


_NO_CRITIC = "the method has no critic with this rate; take --algo ppo"
_NO_COLD_START = "there is no cold start; add --cold-start N, such as 4000"
_AHEAD = "with --lag 0 and --over-provision 1 nothing is in flight when the weights change; add --lag 1 or more"
READERS = {
    "critic_lr": Reader(lambda settings, recipe: needs(recipe, "value"), _NO_CRITIC),
    "max_lag": Reader(_samples_ahead, _AHEAD, "lag"),
    "in_flight": Reader(_samples_ahead, _AHEAD, "lag"),
    "cold_start_until": Reader(_has_cold_start, _NO_COLD_START, "cold_start"),
    "cold_start_valid": Reader(_has_cold_start, _NO_COLD_START, "cold_start"),
    "cold_start_from": Reader(_has_cold_start, f"{_NO_COLD_START}, or train its model as it is, with --model"),
    "decoupled": Reader(_can_decouple, "the method has a ratio of its own, or none; take --algo grpo"),
}
