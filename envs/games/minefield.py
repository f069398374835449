"""Minefields of Minesweeper: numbering and opening cells, and finding safe cells by logic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

MINE, CLOSED, EMPTY = "*", "#", "."
MAX_FACTS = 300  # number of facts at which a deduction gives up
MINE_COUNT_CELLS = 12  # with more closed cells the total number of mines is not used as a fact, as it rarely helps
Around = tuple[tuple[int, ...], ...]  # for every cell, numbered row by row, the cells around it


@lru_cache
def neighbours(size: int) -> Around:
    """Return for each cell of a square field the cells around it."""
    span = [range(max(0, at - 1), min(size, at + 2)) for at in range(size)]
    return tuple(
        tuple(r * size + c for r in span[row] for c in span[column] if (r, c) != (row, column))
        for row in range(size)
        for column in range(size)
    )


def build_field(mines: set[int], around: Around) -> str:
    """Return the open field, row by row: `*` for a mine, else the number of mines around the cell, `.` for none."""
    return "".join(
        MINE if cell in mines else str(len(mines.intersection(near)) or EMPTY) for cell, near in enumerate(around)
    )


def open_cell(view: list[str], field: str, cell: int, around: Around) -> int:
    """Open a closed cell of `view` in place, and all cells around each opened cell that has no mines around it.

    Returns the number of cells opened. `field` is the open field and `around` the neighbours of each cell.
    """
    view[cell] = field[cell]
    count, empty = 1, [cell] if field[cell] == EMPTY else []
    while empty:
        for near in around[empty.pop()]:
            if view[near] == CLOSED:
                view[near] = field[near]
                count += 1
                if field[near] == EMPTY:
                    empty.append(near)
    return count


def safe_cells(view: Sequence[str], mines: int, around: Around) -> list[int]:
    """Return closed cells of `view` that are safe by logic, in ascending order; empty if none can be found.

    A fact is a set of closed cells, the bits of an int, with the number of mines among them. The first facts are one
    per number on the field and, if few cells are closed, one for all of them. Pairs of facts are compared, and their
    conclusions are added as facts, until some set is free of mines; its cells are the result, so other safe cells may
    be missing.
    """
    closed = [cell for cell, mark in enumerate(view) if mark == CLOSED]
    facts = {sum(1 << cell for cell in closed): mines} if len(closed) <= MINE_COUNT_CELLS else {}
    for cell, mark in enumerate(view):
        if mark != CLOSED and mark != EMPTY:
            hidden = sum(1 << near for near in around[cell] if view[near] == CLOSED)
            if hidden:
                facts[hidden] = int(mark)
    fresh = dict(facts)
    while fresh and len(facts) < MAX_FACTS:
        free, fresh = _compare_facts(facts, fresh)
        if free:
            return [cell for cell in closed if free >> cell & 1]
        facts.update(fresh)
    return []


def count_moves_to_clear(field: str, first: int, mines: int, around: Around) -> int:
    """Return how many moves clear the field by logic alone after the cell `first` is open; 0 if guessing is needed."""
    view = [CLOSED] * len(field)
    left = len(field) - mines - open_cell(view, field, first, around)
    moves = 0
    while left:
        safe = safe_cells(view, mines, around)
        if not safe:
            return 0
        left -= open_cell(view, field, safe[0], around)
        moves += 1
    return moves


def _compare_facts(facts: dict[int, int], fresh: dict[int, int]) -> tuple[int, dict[int, int]]:
    """Compare the new facts `fresh` with all `facts`.

    Returns the set of cells that are free of mines, and the facts that follow from pairs of facts.
    """
    free, conclusions = 0, {}
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
                        conclusions[rest] = in_b - in_a
                elif in_b - in_a == rest.bit_count():  # the surplus of b fills all its cells outside a with mines
                    free |= a & ~b
                    if rest and rest not in facts:
                        conclusions[rest] = rest.bit_count()
    return free, conclusions
