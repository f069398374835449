"""Exact values of small games, computed by walking the environment itself: every deal, every legal word.

A policy maps a seat, all that the seat has read, and its legal words to a probability for each word.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from envs.types import text

Policy = Callable[[str, str, list[str]], list[float]]


@dataclass
class Node:
    """A decision of `seat`, or, with the seat None, the end with the first seat's `payoff`."""

    seat: str | None = None
    information: str = ""
    words: list[str] = field(default_factory=list)
    children: list["Node"] = field(default_factory=list)
    payoff: float = 0.0


def trees(env, indices: Iterable[int], split: str = "train") -> list[Node]:
    """Return the tree of each task; the tasks are equally likely deals."""
    roots = []
    for index in indices:
        env.reset(seed=0, options={"split": split, "index": index})
        roots.append(_walk(env, {seat: "" for seat in env.seats}))
    return roots


def _walk(env, read: dict[str, str]) -> Node:
    seat = env.agent_selection
    if env.terminations[seat]:
        return Node(payoff=env._cumulative_rewards[env.seats[0]])
    read = {**read, seat: read[seat] + "\n" + "\n".join(text(message) for message in env.observe(seat))}
    node = Node(seat, read[seat], [*env.legal()])
    for word in node.words:
        state = env.snapshot()
        env.step(word)
        node.children.append(_walk(env, {**read, seat: read[seat] + f"\n> {word}"}))
        env.restore(state)
    return node


def value(roots: list[Node], policy: Policy) -> float:
    """What the first seat earns on average when `policy` plays both seats."""

    def of(node: Node) -> float:
        if node.seat is None:
            return node.payoff
        odds = policy(node.seat, node.information, node.words)
        return sum(p * of(child) for p, child in zip(odds, node.children, strict=True) if p)

    return sum(map(of, roots)) / len(roots)


def best_response(roots: list[Node], policy: Policy, seat: str, sign: float) -> float:
    """What `seat` earns with the best reply to `policy`; `sign` is 1 for the first seat and -1 for the second."""
    sets = defaultdict(list)

    def collect(node: Node, reach: float) -> None:
        if node.seat is None:
            return
        odds = [1.0] * len(node.words) if node.seat == seat else policy(node.seat, node.information, node.words)
        if node.seat == seat:
            sets[node.information].append((reach, node))
        for p, child in zip(odds, node.children, strict=True):
            collect(child, reach * p)

    choices: dict[str, int] = {}

    def earned(node: Node) -> float:
        if node.seat is None:
            return sign * node.payoff
        if node.seat == seat:
            return earned(node.children[choice(node.information)])
        odds = policy(node.seat, node.information, node.words)
        return sum(p * earned(child) for p, child in zip(odds, node.children, strict=True) if p)

    def choice(information: str) -> int:
        if information not in choices:
            nodes = sets[information]
            totals = [sum(r * earned(n.children[i]) for r, n in nodes if r) for i in range(len(nodes[0][1].words))]
            choices[information] = totals.index(max(totals))
        return choices[information]

    for root in roots:
        collect(root, 1.0)
    return sum(map(earned, roots)) / len(roots)


def exploitability(roots: list[Node], policy: Policy, seats) -> float:
    """Mean gain of the two best responses; 0 exactly at an equilibrium."""
    first, second = seats
    return (best_response(roots, policy, first, 1.0) + best_response(roots, policy, second, -1.0)) / 2


def uniform(seat: str, information: str, words: list[str]) -> list[float]:
    """All legal words are equally likely."""
    return [1 / len(words)] * len(words)
