"""Names in product code: no assignment to a bare participle such as `found`, `kept` or `told`, which names no thing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

LAYERS = ("sandboxes", "envs", "agents", "rl")
ALLOWED_SHARE = 0.005
IRREGULAR = frozenset(
    """
    asked begun born bought broken brought built caught chosen dealt drawn driven fallen fed felt forgotten found given
    gone gotten grown heard held hidden hung kept known laid led lent lost made met paid proven risen said seen sent
    shaken shown sold sought spent spoken spun stolen stood struck stuck sunk sworn taken taught thrown told torn
    understood unsaid won worn woven written
    """.split()  # noqa: SIM905
)
FIELD_TERMS = frozenset("closed done expected fixed terminated truncated".split())  # noqa: SIM905
NOT_VERBS = frozenset("bed embed exceed feed hundred indeed need red seed speed succeed".split())  # noqa: SIM905


def is_bare_participle(name: str) -> bool:
    word = name.strip("_")
    if word in FIELD_TERMS or word in NOT_VERBS or "_" in word:
        return False
    return word in IRREGULAR or (word.endswith("ed") and len(word) > 4)


def assignment_targets(path: Path) -> Iterator[tuple[str, int]]:
    """Names and attributes that a file assigns to, with their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


@pytest.mark.parametrize("layer", LAYERS)
def test_variables_are_nouns(layer: str) -> None:
    targets = [
        (name, f"{path.relative_to(ROOT)}:{line}: {name}")
        for path in sorted((ROOT / layer).rglob("*.py"))
        for name, line in assignment_targets(path)
    ]
    participles = [place for name, place in targets if is_bare_participle(name)]
    assert len(participles) <= ALLOWED_SHARE * len(targets), "\n".join(participles)


@pytest.mark.parametrize("name", ["found", "kept", "_told", "cached", "scored"])
def test_the_habit_is_recognised(name: str) -> None:
    assert is_bare_participle(name)


@pytest.mark.parametrize("name", ["seed", "truncated", "kept_groups", "is_cached", "speed", "message"])
def test_field_terms_and_phrases_are_allowed(name: str) -> None:
    assert not is_bare_participle(name)
