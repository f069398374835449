"""Test-time strategies, which spend several episodes on one attempt at a task.

    strategy = parse("best_of:n=8,scorer=logprob")

`best_of` and `majority` choose among independent samples, `listwise` lets the policy choose among them, and
`sequential` lets the policy revise its attempt.
"""

from __future__ import annotations

from dataclasses import fields

from rl.evaluate.strategies.listwise import Listwise
from rl.evaluate.strategies.selection import BestOf, Majority
from rl.evaluate.strategies.sequential import Sequential
from rl.evaluate.strategies.strategy import (
    Attempt,
    Strategy,
    StrategyContext,
    apply_strategy,
    widen_tickets,
    with_rounds,
)
from rl.methods import options

__all__ = [
    "STRATEGIES",
    "Attempt",
    "BestOf",
    "Listwise",
    "Majority",
    "Sequential",
    "Strategy",
    "StrategyContext",
    "apply_strategy",
    "format_spec",
    "parse",
    "widen_tickets",
    "with_rounds",
]

STRATEGIES = {"best_of": BestOf, "majority": Majority, "listwise": Listwise, "sequential": Sequential}


def parse(spec: str) -> Strategy:
    """Parse a strategy, `NAME` or `NAME:KEY=VALUE,...`, such as `best_of:n=8,scorer=env`; names are in `STRATEGIES`.

    Raises `ValueError` for an unknown name or key or a wrong value.
    """
    name, _, bindings = spec.partition(":")
    if name not in STRATEGIES:
        hint = options.did_you_mean(name, list(STRATEGIES)) or f"; choose from {', '.join(STRATEGIES)}"
        raise ValueError(f"--strategy {name}: unknown{hint}")
    return STRATEGIES[name](**options.read(f"--strategy {name}", STRATEGIES[name], bindings))  # type: ignore


def format_spec(strategy: Strategy) -> str:
    """Return the text that `parse` reads as this strategy, with every option: `best_of:n=8,scorer=env`."""
    name = next(name for name, kind in STRATEGIES.items() if isinstance(strategy, kind))
    bindings = {option.name: getattr(strategy, option.name) for option in fields(strategy) if option.init}  # type: ignore
    return f"{name}:{options.write(bindings, function=type(strategy))}"
