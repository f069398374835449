"""Exact values of small games of two, computed by playing every move of every deal with the environment itself.

    tree = build_tree(Leduc())
    expected_value(tree, uniform)     # -0.078125
    exploitability(tree, uniform)     # 2.3736...

A policy is a function of an information state, such as `Qb` in Kuhn poker, and of the legal words there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from envs.types import assistant

Policy = Callable[[str, Sequence[str]], Sequence[float]]
CHANCE = "chance"
ROUNDING = 1e-9


class DealtGame(Protocol):
    """What a `TurnGame` must have for `build_tree`: Kuhn and Leduc poker do."""

    seats: Sequence[str]
    mover: str

    @property
    def deals(self) -> Mapping[str, float]:
        """Probability of each value that `metadata["deal"]` of a task may have."""

    def information(self, seat: str) -> str:
        """Return a text that is equal for two moments exactly if the seat cannot tell them apart."""

    def legal(self) -> Mapping[str, Any]:
        """Return the words that `mover` may say."""

    def payoff(self) -> float | None:
        """Return what the first seat has won; None while the game goes on."""


@dataclass(frozen=True, slots=True)
class Node:
    """A moment of a game.

    Attributes:
        seat: 0 or 1, the seat that is to move; None where the deal is drawn, and at the end.
        information: What this seat knows.
        words: Its legal words, in order; the deals, where they are drawn.
        children: What follows each word.
        odds: Probability of each child where the deal is drawn.
        payoff: At the end, what seat 0 has won.
    """

    seat: int | None = None
    information: str = ""
    words: tuple[str, ...] = ()
    children: tuple[Node, ...] = ()
    odds: tuple[float, ...] = ()
    payoff: float = 0.0


def build_tree(env: Any) -> Node:
    """Return the whole tree of a game whose only chance is the deal.

    Args:
        env: A `TurnGame` that is also a `DealtGame`. Its episode is replaced.

    Raises:
        ValueError: No task of the split "train" has one of the deals.
    """
    indices: dict[str, int] = {}
    for index, task in enumerate(env.load("train")):
        indices.setdefault(task.metadata["deal"], index)
        if len(indices) == len(env.deals):
            break
    missing = sorted(env.deals.keys() - indices.keys())
    if missing:
        raise ValueError(f"{type(env).__name__}: no task has the deal {missing[0]}")
    children = []
    for deal in env.deals:
        env.reset(seed=0, options={"split": "train", "index": indices[deal]})
        children.append(_walk(env))
    return Node(None, CHANCE, (*env.deals,), tuple(children), (*env.deals.values(),))


def expected_value(tree: Node, policy: Policy) -> float:
    """Return what seat 0 wins on average when `policy` plays both seats.

    Raises ValueError if the policy's probabilities for an information state are not as many as its legal words, are
    negative or do not sum to 1.
    """
    return _expected(tree, Odds(policy))


def best_response_value(tree: Node, policy: Policy, seat: int) -> float:
    """Return what seat 0 or 1 wins on average with the best reply to `policy` in the other seat.

    Raises ValueError as `expected_value`.
    """
    if seat not in (0, 1):
        raise ValueError(f"seat {seat!r} is neither 0 nor 1")
    response = _BestResponse(tree, Odds(policy), seat)
    return response.value(tree)


def exploitability(tree: Node, policy: Policy) -> float:
    """Return the mean gain of the two best responses: NashConv / 2, which is 0 exactly at an equilibrium.

    Raises ValueError as `expected_value`.
    """
    return (best_response_value(tree, policy, 0) + best_response_value(tree, policy, 1)) / 2


def uniform(information: str, words: Sequence[str]) -> list[float]:
    """Return equal probabilities for all legal words."""
    return [1 / len(words)] * len(words)


def information_states(tree: Node) -> dict[str, tuple[str, ...]]:
    """Return every information state of both seats with its legal words, in the order of play."""
    own = {tree.information: tree.words} if tree.seat is not None else {}
    for child in tree.children:
        own |= information_states(child)
    return own


def _walk(env: Any) -> Node:
    payoff = env.payoff()
    if payoff is not None:
        return Node(payoff=payoff)
    seat, words, children = env.mover, tuple(env.legal()), []
    node = (env.seats.index(seat), env.information(seat), words)
    for word in words:
        state = env.snapshot()
        env.step(assistant(word))
        children.append(_walk(env))
        env.restore(state)
    return Node(*node, tuple(children))


class Odds:
    """Probabilities of the children of a node, checked, and asked of the policy once for each information state."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.known: dict[str, tuple[float, ...]] = {}

    def __call__(self, node: Node) -> tuple[float, ...]:
        """Return the probabilities of the children of `node`. Raises ValueError for numbers that are none."""
        if node.seat is None:
            return node.odds
        if node.information not in self.known:
            odds = tuple(float(p) for p in self.policy(node.information, node.words))
            fits = len(odds) == len(node.words) and all(p >= 0 for p in odds) and abs(sum(odds) - 1) < ROUNDING
            if not fits:
                raise ValueError(f"{node.information}: {odds} are no probabilities of {', '.join(node.words)}")
            self.known[node.information] = odds
        return self.known[node.information]


def _expected(node: Node, odds: Odds) -> float:
    if not node.children:
        return node.payoff
    return sum(p * _expected(child, odds) for p, child in zip(odds(node), node.children, strict=True) if p)


class _BestResponse:
    """The best reply of one seat to a policy: in each information set the word with the highest value."""

    def __init__(self, tree: Node, odds: Odds, seat: int) -> None:
        self.odds, self.seat = odds, seat
        self.sets: dict[str, list[tuple[float, Node]]] = defaultdict(
            list
        )  # with the probability that others play there
        self.choices: dict[str, int] = {}
        self.values: dict[int, float] = {}
        self._collect(tree, 1.0)

    def value(self, node: Node) -> float:
        """What the seat wins from `node` on."""
        if not node.children:
            return node.payoff if self.seat == 0 else -node.payoff
        if id(node) not in self.values:
            if node.seat == self.seat:
                value = self.value(node.children[self._choice(node.information)])
            else:
                value = sum(self._weighted(node))
            self.values[id(node)] = value
        return self.values[id(node)]

    def _weighted(self, node: Node) -> Iterable[float]:
        return (p * self.value(child) for p, child in zip(self.odds(node), node.children, strict=True) if p)

    def _collect(self, node: Node, reach: float) -> None:
        is_own = node.seat == self.seat
        if is_own:
            self.sets[node.information].append((reach, node))
        odds = (1.0,) * len(node.children) if is_own or not node.children else self.odds(node)
        for p, child in zip(odds, node.children, strict=True):
            self._collect(child, reach * p)

    def _choice(self, information: str) -> int:
        if information not in self.choices:
            nodes = self.sets[information]
            totals = [
                sum(reach * self.value(node.children[i]) for reach, node in nodes if reach)
                for i in range(len(nodes[0][1].words))
            ]
            self.choices[information] = totals.index(max(totals))
        return self.choices[information]
