"""An environment that a world model plays: the opening is real, what follows is predicted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from envs.env import Env
from envs.simulated.inner import make_inner
from envs.simulated.prediction import Prediction
from envs.simulated.simulators import open_simulator
from envs.types import Message, Messages, Outcome, Task, user


class Simulated(Env):
    """An environment whose answers a world model predicts.

    Observation: the real environment's opening; then what the model predicts.
    Action: that of the environment.
    Reward: 1 if the model says that the task is solved, else 0.
    Metrics: `uncertainty` and, where the model has one, `logprob` of its prediction; `depth`, the number of predictions
    since the real opening.
    Episode end: terminated where the model says so; truncated at the environment's own limit of turns.
    Splits and tasks: those of the environment. State: the task and the dialogue.
    Source and licence: the setting of DynaWeb and ImagineBench; own code. Version history: v0.

    Only the environment's own score counts in the end: a policy can learn to please the model. Measure with
    `python -m rl.evaluate --env ID`, and compare both scores. There is no oracle, since the real one reads what the
    environment hides.

    Args:
        name: The environment, such as "games/GuessNumber-v0". It has one seat and offers no tools natively.
        simulator: The world model, see `envs.simulated.simulators.open_simulator`.
        env_args: Arguments of the environment.
        style: "full" or "short", also of the environment and of the model's texts.
        max_turns: Limit of turns; by default that of the environment.
        **limits: Arguments of `Env`.

    Raises:
        ValueError: The environment cannot be simulated, or there is no such world model.
    """

    blocking = True

    def __init__(
        self,
        name: str,
        /,
        *,
        simulator: str = "counts",
        env_args: Mapping[str, Any] | None = None,
        style: Literal["full", "short"] = "full",
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        self._inner = make_inner(name, style, env_args)
        super().__init__(style=style, max_turns=self._inner.max_turns if max_turns is None else max_turns, **limits)
        self.name = name
        key = json.dumps([name, style, env_args or {}], sort_keys=True, default=repr)
        self._simulator = open_simulator(simulator, partial(make_inner, name, style, env_args), key)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the environment's tasks."""
        return self._inner.load(split)

    def start(self) -> Messages:
        """Open the same episode of the real environment; no step of it is ever played."""
        self._episode_seed = int(self.np_random.integers(2**63))
        opening, _ = self._inner.reset(
            seed=self._episode_seed % 2**31, options={"split": self.split, "index": self.index}
        )
        return opening

    def reply(self, action: Message) -> Outcome:
        """Ask the world model what follows."""
        rng = np.random.default_rng([self._episode_seed, self.turns])
        prediction = self._simulator.predict([*self.dialogue, action], rng, self.style)
        if not isinstance(prediction, Prediction):
            kind = type(prediction).__name__
            raise TypeError(f"{type(self._simulator).__name__}.predict must return a Prediction, not {kind}")
        metrics = {"uncertainty": float(prediction.uncertainty), "depth": self.turns + 1.0}
        if prediction.logprob is not None:
            metrics["logprob"] = float(prediction.logprob)
        is_solved = prediction.terminated and prediction.success
        return Outcome(
            messages=(user(prediction.observation),) if prediction.observation else (),
            reward=float(is_solved),
            terminated=prediction.terminated,
            success=is_solved,
            metrics=metrics,
        )

    def oracle(self) -> Any:
        """A world model has no oracle. Raises NotImplementedError."""
        raise NotImplementedError(f"simulated:{self.name} has no oracle; train it with --cold-start 0")

    def noop(self) -> Message:
        """Return the environment's own reply that does nothing."""
        return self._inner.noop()

    def random(self, rng: np.random.Generator) -> Message:
        """Return a random reply of the environment, which stands at its opening."""
        return self._inner.random(rng)

    def attacks(self) -> Sequence[str]:
        """Return the environment's own attacks. A world model that believes one is no better than it was made."""
        return self._inner.attacks()

    def release(self) -> None:
        """Give back what the real environment holds."""
        self._inner.release()

    def close(self) -> None:
        """Close the real environment and the model."""
        self._inner.close()
        self._simulator.close()
