"""Credit that a score part has worked out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rl.methods.estimators import token_table
from rl.methods.estimators.turn_table import Credit
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def scored(groups: Sequence[Group], norm: Normalization, *, stream: str = "reply_advantage") -> Credit:
    """Each token's number in `stream`, as it is: compared with nothing."""
    return token_table.nested(groups, token_table.stream(groups, stream))
