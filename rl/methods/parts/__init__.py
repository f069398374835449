"""One module per slot of a recipe; its public functions are the parts of that slot, each found by its name.

The other modules are no slots: they hold the arithmetic that parts share, as functions of arrays and labels. A part
that keeps numbers between updates is a dataclass with `__call__`, `state_dict` and `load_state_dict` in place of a
function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Part = TypeVar("Part", bound=Callable)


def needs(*streams: str, when: str = "") -> Callable[[Part], Part]:
    """Mark a part as a reader of streams that a run computes only where a part asks: `"ref"`, `"value"`, `"entropy"`.

    With `when`, the need holds only where the option of that name is bound to something true.
    """

    def mark(part: Part) -> Part:
        part.__dict__.update(needs=streams, needs_when=when)
        return part

    return mark
