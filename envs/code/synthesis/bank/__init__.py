"""The bank of functions to write: templates with constants, a reference for each, and random inputs for it."""

from __future__ import annotations

from functools import cache

from envs.code.synthesis.bank import algorithms, expressions, loops, puzzles, sequences
from envs.code.synthesis.bank.template import Problem, Template

__all__ = ["LEVELS", "Problem", "Template", "find_template", "level_templates"]

LEVELS = (expressions.TEMPLATES, sequences.TEMPLATES, loops.TEMPLATES, algorithms.TEMPLATES, puzzles.TEMPLATES)


def level_templates(level: int) -> tuple[Template, ...]:
    """Return the templates, families of functions, of a level from 0 (expressions) to 4 (small algorithms)."""
    return LEVELS[level]


def find_template(name: str) -> Template:
    """Return the template, a family of functions, called `name`. Raises KeyError where there is none."""
    return _by_name()[name]


@cache
def _by_name() -> dict[str, Template]:
    return {template.name: template for level in LEVELS for template in level}
