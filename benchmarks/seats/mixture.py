"""The policy that draws one of several before a game, in games of `envs.multi.game_tree`."""

from __future__ import annotations

from collections.abc import Sequence

from envs.multi.game_tree import Node, Odds, Policy, uniform


def mixture(tree: Node, policies: Sequence[Policy]) -> Policy:
    """Return the policy whose play is that of drawing one of `policies` for each seat at the start of a game.

    In an information state each policy weighs as much as its own earlier moves make that state probable (Kuhn 1953).
    A state that none of them reaches has equal probabilities.

    Raises ValueError as `expected_value`.
    """
    totals: dict[str, list[float]] = {}
    for policy in policies:
        odds = Odds(policy)
        visited: set[str] = set()

        def add(node: Node, reach: tuple[float, float], odds: Odds = odds, visited: set[str] = visited) -> None:
            own = odds(node) if node.seat is not None else (1.0,) * len(node.children)
            if node.seat is not None and node.information not in visited:
                visited.add(node.information)
                sums = totals.setdefault(node.information, [0.0] * len(own))
                totals[node.information] = [total + reach[node.seat] * p for total, p in zip(sums, own, strict=True)]
            for p, child in zip(own, node.children, strict=True):
                add(child, tuple(r * p if node.seat == i else r for i, r in enumerate(reach)))  # type: ignore[arg-type]

        add(tree, (1.0, 1.0))

    def mixed(information: str, words: Sequence[str]) -> list[float]:
        sums = totals[information]
        return [total / sum(sums) for total in sums] if sum(sums) else uniform(information, words)

    return mixed
