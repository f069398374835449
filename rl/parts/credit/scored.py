"""Credit that a score part has worked out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rl.parts import tokens
from rl.parts.turns import Credit
from rl.records import Group

if TYPE_CHECKING:
    from rl.recipe import Recipe


def scored(groups: Sequence[Group], recipe: Recipe, *, stream: str = "reply_advantage") -> Credit:
    """Each token's number in `stream`, as it is: compared with nothing."""
    return tokens.nested(groups, tokens.stream(groups, stream))
