"""Functions to write: templates with constants, a reference for each, and hidden inputs drawn for it."""

from __future__ import annotations

from functools import cache

from envs.code.synthesis.bank import algorithms, expressions, loops, puzzles, sequences
from envs.code.synthesis.bank.template import Problem, Template

__all__ = ["LEVELS", "Problem", "Template", "at_level", "named"]

LEVELS = (expressions.TEMPLATES, sequences.TEMPLATES, loops.TEMPLATES, algorithms.TEMPLATES, puzzles.TEMPLATES)


def at_level(level: int) -> tuple[Template, ...]:
    """The templates of a level, from 0, expressions, to 4, small algorithms."""
    return LEVELS[level]


def named(name: str) -> Template:
    """The template of that name. KeyError where there is none."""
    return _by_name()[name]


@cache
def _by_name() -> dict[str, Template]:
    return {template.name: template for level in LEVELS for template in level}
