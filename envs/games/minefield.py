"""Minefields: how they are numbered and opened, and what can be concluded from what is seen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

MINE, CLOSED, EMPTY = "*", "#", "."
FACTS = 300  # facts at which a deduction gives up
COUNTED = 12  # closed cells from which on the number of all mines counts as a fact; before, it says too little
Around = tuple[tuple[int, ...], ...]  # for every cell, numbered row by row, the cells around it


@lru_cache
def neighbours(size: int) -> Around:
    """The cells around each cell of a square field."""
    span = [range(max(0, at - 1), min(size, at + 2)) for at in range(size)]
    return tuple(
        tuple(r * size + c for r in span[row] for c in span[column] if (r, c) != (row, column))
        for row in range(size)
        for column in range(size)
    )


def field(mines: set[int], around: Around) -> str:
    """The whole field, row by row: `*` a mine, else the number of mines around the cell, `.` for none."""
    return "".join(
        MINE if cell in mines else str(len(mines.intersection(near)) or EMPTY) for cell, near in enumerate(around)
    )


def open_up(seen: list[str], whole: str, cell: int, around: Around) -> int:
    """Open a closed cell of `seen` and, from every cell with no mine around, all around it; return how many."""
    seen[cell] = whole[cell]
    count, empty = 1, [cell] if whole[cell] == EMPTY else []
    while empty:
        for near in around[empty.pop()]:
            if seen[near] == CLOSED:
                seen[near] = whole[near]
                count += 1
                if whole[near] == EMPTY:
                    empty.append(near)
    return count


def safe_cells(seen: Sequence[str], mines: int, around: Around) -> list[int]:
    """The closed cells that comparing numbers shows to hide no mine, in order; of them all only the first found.

    A fact is a set of closed cells, as the bits of an int, with the mines in it: one for each number and, when few
    cells are closed, one for all of them. Any two facts are compared, what follows is a fact too, until a set without
    mines is found.
    """
    closed = [cell for cell, mark in enumerate(seen) if mark == CLOSED]
    facts = {sum(1 << cell for cell in closed): mines} if len(closed) <= COUNTED else {}
    for cell, mark in enumerate(seen):
        if mark != CLOSED and mark != EMPTY:
            hidden = sum(1 << near for near in around[cell] if seen[near] == CLOSED)
            if hidden:
                facts[hidden] = int(mark)
    fresh = dict(facts)
    while fresh and len(facts) < FACTS:
        free, fresh = _compared(facts, fresh)
        if free:
            return [cell for cell in closed if free >> cell & 1]
        facts.update(fresh)
    return []


def moves_to_clear(whole: str, first: int, mines: int, around: Around) -> int:
    """How many cells logic opens one after the other to clear the field after `first`; 0 if it cannot."""
    seen = [CLOSED] * len(whole)
    left = len(whole) - mines - open_up(seen, whole, first, around)
    moves = 0
    while left:
        safe = safe_cells(seen, mines, around)
        if not safe:
            return 0
        left -= open_up(seen, whole, safe[0], around)
        moves += 1
    return moves


def _compared(facts: dict[int, int], fresh: dict[int, int]) -> tuple[int, dict[int, int]]:
    """The cells free of mines by `facts`, of which `fresh` are new, and else the facts that follow from two of them."""
    free, found = 0, {}
    for one, mines in fresh.items():
        if mines == 0:
            free |= one
    if free:
        return free, {}
    for one, mines in fresh.items():
        for other, others in facts.items():
            if not one & other or one == other:
                continue
            for a, in_a, b, in_b in ((one, mines, other, others), (other, others, one, mines)):
                rest = b & ~a
                if not a & ~b:  # a lies in b
                    if rest and rest not in facts:
                        found[rest] = in_b - in_a
                elif in_b - in_a == rest.bit_count():  # b's surplus fills all of it that is not in a
                    free |= a & ~b
                    if rest and rest not in facts:
                        found[rest] = rest.bit_count()
    return free, found
