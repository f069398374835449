"""The smallest project: two functions, one of which calls the other."""

from __future__ import annotations

from math import prod

from envs.code.repo_tools.projects.project import Project
from envs.code.shell_tools.tree_builder import WORDS

OPERATORS = ("+", "-", "*")
_CONSTANTS = range(2, 30)
_CHOICES = (len(WORDS), len(WORDS) - 1, len(OPERATORS), len(OPERATORS), len(_CONSTANTS), len(_CONSTANTS))
PAIR_COUNT = prod(_CHOICES)


def build_pair(number: int) -> Project:
    """Build the project of a number below `PAIR_COUNT`: two modules that are named after their functions.

    Operands are so large that a result shows which operator gave it.
    """
    places = []
    for choices in _CHOICES:
        number, place = divmod(number, choices)
        places.append(place)
    inner, outer = WORDS[places[0]], WORDS[places[1] + (places[1] >= places[0])]
    first, last = OPERATORS[places[2]], OPERATORS[places[3]]
    k, j = _CONSTANTS[places[4]], _CONSTANTS[places[5]]
    modules = {
        inner: f"def {inner}(a, b):\n    return a {first} b\n",
        outer: f"from {inner} import {inner}\n\n\ndef {outer}(a):\n    return {inner}(a, {k}) {last} {j}\n",
    }
    signatures = {f"{inner}.{inner}": "operand, operand", f"{outer}.{outer}": "operand"}
    return Project("pair", modules, signatures, {})
