"""Negamax search with alpha-beta pruning over the positions of a board game of two."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Position = TypeVar("Position", bound=Hashable)
Move = TypeVar("Move", bound=Hashable)
WIN = 1000  # value of a won game; a win in n moves is worth WIN - n


def best_moves(
    position: Position,
    moves: Callable[[Position], Iterable[tuple[Move, Position]]],
    is_lost: Callable[[Position], bool],
    depth: int,
) -> tuple[int, list[Move]]:
    """Search `depth` moves ahead.

    Args:
        position: The position, as the player sees it who is to move.
        moves: Gives the legal moves, each with the position that it leads to, as the other player sees it.
        is_lost: Whether the last move has won the game, so that the player to move has lost it.
        depth: Moves to look ahead, at least 1. What lies further counts as a draw.

    Returns:
        The value for the player to move (`WIN` less the number of moves to a win, the negative for a loss, 0 for a draw
        or an open game) and all moves that reach it, in the order of `moves`.
    """
    bounds: dict[tuple[Position, int], tuple[int, int]] = {}  # value bounds of positions at a depth
    value = -WIN - 1
    best: list[Move] = []
    for move, child in moves(position):
        # One below the best value so far, so that moves of equal value are told apart from worse ones.
        score = -_search(child, moves, is_lost, depth - 1, -WIN, -(value - 1) if best else WIN, 1, bounds)
        if score > value:
            value, best = score, [move]
        elif score == value:
            best.append(move)
    return value, best


def _search(position, moves, is_lost, depth, alpha, beta, ply, bounds):  # type: ignore[no-untyped-def]
    if is_lost(position):
        return ply - WIN
    if depth == 0:
        return 0
    low, high = bounds.get((position, depth), (-WIN, WIN))
    if low >= beta or low == high:
        return low
    if high <= alpha:
        return high
    value, start = None, alpha
    for _, child in moves(position):
        score = -_search(child, moves, is_lost, depth - 1, -beta, -alpha, ply + 1, bounds)
        value = score if value is None else max(value, score)
        alpha = max(alpha, value)
        if alpha >= beta:
            break
    if value is None:  # no move: a draw
        return 0
    if value <= start:
        high = value
    elif value >= beta:
        low = value
    else:
        low = high = value
    bounds[position, depth] = (low, high)
    return value
