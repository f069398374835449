"""Credit that a score part has computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rl.methods.estimators import token_table
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def scored(groups: Sequence[Group], norm: Normalization, *, stream: str = "reply_advantage") -> TokenAdvantages:
    """The numbers of `stream` as advantages of their tokens, unchanged; neither baseline nor scale is read.

    A stream is numbers per sampled token in `Turn.streams`, here those that a score part has written. Raises
    `PartError` where a turn lacks it.
    """
    return token_table.nest(groups, token_table.read_stream(groups, stream))
