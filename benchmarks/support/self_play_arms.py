"""The ways to learn that `benchmarks.seats.self_play` compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl.methods import recipe as recipes
from rl.methods.recipe import Recipe

ENV = "multi/Kuhn-v0"
PLAIN = {"scale": "none", "reduce": "token_mean"}


@dataclass(frozen=True)
class Arm:
    """One way to learn: a recipe, with other parts in some slots, and settings of the run."""

    about: str
    algo: str = "grpo"
    parts: Mapping[str, Any] = field(default_factory=lambda: PLAIN)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def recipe(self) -> Recipe:
        """The parts of the method."""
        recipe = recipes.load(self.algo)
        return recipe.but(**recipes.parse(self.parts))


@dataclass(frozen=True)
class Field:
    """The arms of one kind of policy, and the settings that they share."""

    updates: int
    every: int  # updates between two points of the curve
    settings: Mapping[str, Any]
    arms: Mapping[str, Arm]
    start: Sequence[str] = ()  # flags of a run without updates, whose model all runs begin with


ENTROPY = {"penalty": ["entropy_bonus:coef=0.1"]}
ANNEALED = {"schedule": "linear:floor=0.1"}
PULL = {"penalty": ["kl_k2:coef=0.4"]}  # of a KL estimate, the one with the right gradient on policy
FIELDS = {
    "table": Field(
        updates=600,
        every=10,
        settings={"groups": 12, "size": 16, "lr": 6.0},
        arms={
            "plain": Arm("less the mean of the group, no scale"),
            "std": Arm("divided by the group's deviation", parts={"reduce": "token_mean"}),
            "entropy": Arm("plain, pulled towards random play", parts={**PLAIN, **ENTROPY}),
            "entropy-std": Arm("the same, divided by the group's deviation", parts={"reduce": "token_mean", **ENTROPY}),
            "annealed": Arm("pulled towards random play, falling rate", parts={**PLAIN, **ENTROPY, **ANNEALED}),
            "annealed-to-0": Arm("the same, the rate falls to 0", parts={**PLAIN, **ENTROPY, "schedule": "linear"}),
            "spiral": Arm(
                "annealed, less an average of the seat instead of the group",
                algo="spiral",
                parts={**PLAIN, **ENTROPY, **ANNEALED},
            ),
        },
    ),
    "tiny": Field(
        updates=120,
        every=5,
        settings={
            **{"groups": 12, "size": 8, "minibatches": 1, "lr": 1.2e-4, "turn_tokens": 8, "max_tokens": 256},
            **{"env_arg": ["style=short"], "cold_start": 0, "save_every": 1000, "save_minutes": 60.0},
        },
        arms={
            "pull": Arm("pulled towards the start with coefficient 0.4", parts={**PLAIN, **PULL, **ANNEALED}),
            "weak-pull": Arm("the coefficient is 0.1", parts={**PLAIN, "penalty": ["kl_k2:coef=0.1"], **ANNEALED}),
            "no-pull": Arm("no pull", parts={**PLAIN, **ANNEALED}),
            "pull-std": Arm(
                "pull, divided by the group's deviation", parts={"reduce": "token_mean", **PULL, **ANNEALED}
            ),
            "pull-slow": Arm(
                "pull, half the rate, which does not fall", parts={**PLAIN, **PULL}, settings={"lr": 6e-5}
            ),
            "spiral": Arm(
                "pull, less an average of the seat instead of the group",
                algo="spiral",
                parts={**PLAIN, **PULL, **ANNEALED},
            ),
        },
        start=(
            *("--env", "benchmarks/support/soft_kuhn.py:SoftKuhn", "--env-arg", "style=short"),
            *("--turn-tokens", "8", "--cold-start", "8000", "--cold-start-until", "0.98", "--eval-episodes", "0"),
        ),
    ),
}
