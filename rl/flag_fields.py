"""Fields of `rl.settings.Settings` that are flags too."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import field
from typing import Any


def flag(default: Any, help: str, kind: Callable[[str], Any] = str, **options: Any) -> Any:
    """Return a field whose flag has this `help`, is parsed by `kind`, and takes further `options` of argparse."""
    kwargs: dict[str, Any] = {"default_factory": list} if default == [] else {"default": default}
    return field(**kwargs, metadata={"help": help, "type": kind, **options})


def switch(help: str, default: bool | None = False) -> Any:
    """Return a field whose flag is `--name` or `--no-name`."""
    return field(default=default, metadata={"help": help, "action": argparse.BooleanOptionalAction})


def flag_name(name: str) -> str:
    """Return the flag of a setting or slot: `save_every` is `--save-every`."""
    return "--" + name.replace("_", "-")


def rollouts_choice(text: str) -> str:
    """Return the text of `--rollouts` if it is one. Raises `argparse.ArgumentTypeError` otherwise."""
    name, _, count = text.partition(":")
    if text not in ("all", "none") and not (name == "sample" and count.isdecimal() and int(count) > 0):
        raise argparse.ArgumentTypeError("choose from all, none, sample:N (N episodes of each update)")
    return text
