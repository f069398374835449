"""Any Gymnasium environment with discrete actions, played in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np

from envs.env import Env
from envs.procedural import digest
from envs.types import Message, Messages, Outcome, Task, assistant, system, text, user

LENGTHS = {"train": 10_000, "val": 200, "test": 200}


class Verbalised(Env):
    """A Gymnasium environment whose actions have names and whose observations are described.

    A subclass names the environment (`game`, an id for `gymnasium.make`, with `game_arguments`), its `actions` in
    their numeric order and `max_turns`, and defines `describe` and `oracle`:

        class CliffWalking(Verbalised):
            game, actions, max_turns = "CliffWalking-v1", ("up", "right", "down", "left"), 30
            def describe(self, observation): return "row {} column {}".format(*divmod(int(observation), 12))
            def won(self, reward, terminated): return terminated
            def oracle(self): yield from map(assistant, ["up", *["right"] * 11, "down"])

    A task is a seed of the game, other seeds in every split; override `tasks` and `arguments` where tasks are more.
    A reply means the one action that its last line names; if that names none or several, the reply is invalid: it
    costs a turn, and the answer repeats the names. The only limit is `max_turns`; the game's own step limit is lifted.
    With `explain`, `rules` open the episode as a system message, for models that have never played.
    """

    game: str = ""
    actions: Sequence[str] = ()
    rules: str = ""

    def __init__(self, *, explain: bool = False, **limits: Any) -> None:
        super().__init__(**limits)
        self.explain = bool(explain)
        self.inner: gymnasium.Env | None = None
        self.observation: Any = None

    # What an author may override.

    def arguments(self) -> dict[str, Any]:
        """Arguments of `gymnasium.make` for `self.task`."""
        return {}

    def luck(self) -> int:
        """The seed of the game's own luck. Default: the task's, so that episodes of a task differ in nothing."""
        return int(self.task.metadata["seed"])

    def describe(self, observation: Any) -> str:
        """The observation in words: all that the policy needs to know of it."""
        return str(observation)

    def won(self, reward: float, terminated: bool) -> bool:
        """Whether the turn has won the game, by the game's own reward."""
        return terminated and reward > 0

    def pay(self, reward: float, won: bool) -> float:
        """The turn's reward. Default: 1 for the win. To pass the game's on, return it and set `max_return` to match."""
        return float(won)

    def tasks(self, split: str) -> Sequence[Task]:
        """Seeds of the game."""
        return [
            Task(f"{split}/{i}", metadata={"seed": digest(self.game, split, i) >> 33}) for i in range(LENGTHS[split])
        ]

    # What is the same for all.

    def start(self) -> Messages:
        """Begin the game."""
        self.close()
        self.inner = gymnasium.make(self.game, max_episode_steps=-1, disable_env_checker=True, **self.arguments())
        if not isinstance(self.inner.action_space, gymnasium.spaces.Discrete):
            raise TypeError(f"{self.game} has the action space {self.inner.action_space}; only Discrete has names")
        if self.inner.action_space.n != len(self.actions):
            raise ValueError(f"{self.game} has {self.inner.action_space.n} actions, but {len(self.actions)} names")
        self.observation, _ = self.inner.reset(seed=self.luck())
        opening = user(self.describe(self.observation))
        return (system(self.rules), opening) if self.explain and self.rules else (opening,)

    def state(self) -> str:
        """The task and the observation, whatever the turn."""
        return f"{self.task.id} {self.observation}"

    def reply(self, action: Message) -> Outcome:
        """Take the action that the reply names."""
        name = self.named(text(action))
        if name is None:
            return Outcome((user(f"{'|'.join(self.actions)}?\n{self.describe(self.observation)}"),), valid=False)
        assert self.inner is not None
        start = int(self.inner.action_space.start)  # type: ignore[attr-defined]
        self.observation, reward, terminated, truncated, _ = self.inner.step(start + self.actions.index(name))
        if truncated:
            raise RuntimeError(f"{self.game} truncated itself after {self.turns + 1} turns; only max_turns may")
        won = self.won(float(reward), terminated)
        return Outcome(
            messages=() if terminated else (user(self.describe(self.observation)),),
            reward=self.pay(float(reward), won),
            terminated=terminated,
            success=won,
        )

    def named(self, reply: str) -> str | None:
        """The one action that the reply's last line names, or None."""
        lines = [line for line in reply[-1000:].lower().splitlines() if line.strip()]
        if not lines:
            return None
        found = {name for name in self.actions if re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", lines[-1])}
        return found.pop() if len(found) == 1 else None

    def oracle(self) -> Iterator[Message]:
        """Replies that win."""
        raise NotImplementedError(f"{type(self).__name__} must define oracle()")

    def random(self, rng: np.random.Generator) -> Message:
        """Any of the actions."""
        return assistant(self.actions[int(rng.integers(len(self.actions)))])

    def attacks(self) -> Sequence[str]:
        """Among others: several actions in one reply."""
        return (*super().attacks(), " ".join(self.actions), "|".join([*self.actions] * 50))

    def close(self) -> None:
        """Close the game."""
        if self.inner is not None:
            self.inner.close()
            self.inner = None
