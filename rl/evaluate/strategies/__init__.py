"""Test-time scaling: strategies that spend several episodes on one attempt at a task.

    strategy = parse("best_of:n=8,scorer=logprob")

`best_of` and `majority` choose among samples, `listwise` lets the policy choose, `sequential` lets it revise.
"""

from __future__ import annotations

from dataclasses import fields

from rl.evaluate.strategies.listwise import Listwise
from rl.evaluate.strategies.selection import BestOf, Majority
from rl.evaluate.strategies.sequential import Sequential
from rl.evaluate.strategies.strategy import Attempt, Stage, Strategy, regrouped, widened, with_rounds
from rl.methods import options

__all__ = [
    "STRATEGIES",
    "Attempt",
    "BestOf",
    "Listwise",
    "Majority",
    "Sequential",
    "Stage",
    "Strategy",
    "label",
    "parse",
    "regrouped",
    "widened",
    "with_rounds",
]

STRATEGIES = {"best_of": BestOf, "majority": Majority, "listwise": Listwise, "sequential": Sequential}


def parse(word: str) -> Strategy:
    """The strategy that `name` or `name:key=value,...` says. Raises ValueError for a wrong name, key or value."""
    name, _, bindings = word.partition(":")
    if name not in STRATEGIES:
        hint = options.did_you_mean(name, list(STRATEGIES)) or f"; choose from {', '.join(STRATEGIES)}"
        raise ValueError(f"--strategy {name}: unknown{hint}")
    return STRATEGIES[name](**options.read(f"--strategy {name}", STRATEGIES[name], bindings))  # type: ignore


def label(strategy: Strategy) -> str:
    """The word that `parse` reads as this strategy, every option named."""
    name = next(name for name, kind in STRATEGIES.items() if isinstance(strategy, kind))
    bound = {option.name: getattr(strategy, option.name) for option in fields(strategy) if option.init}  # type: ignore
    return f"{name}:{options.write(bound)}"
