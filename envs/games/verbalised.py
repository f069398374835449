"""Any Gymnasium environment with discrete actions, played in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np

from envs.env import Env
from envs.grading.choice import find_choice
from envs.procedural import digest
from envs.types import Message, Messages, Outcome, Task, assistant, final_text, system, user

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
    The metric `points` is the game's own reward. With `explain`, `rules` open the episode as a system message, for
    models that have never played.
    """

    game: str = ""
    actions: Sequence[str] = ()
    rules: str = ""

    def __init__(self, *, explain: bool = False, **limits: Any) -> None:
        super().__init__(**limits)
        self.explain = bool(explain)
        self.inner: gymnasium.Env | None = None
        self.observation: Any = None
        self._made_with: dict[str, Any] = {}
        self._numbers: dict[str, int] = {}

    # What an author may override.

    def arguments(self) -> dict[str, Any]:
        """Arguments of `gymnasium.make` for `self.task`."""
        return {}

    def luck(self) -> int:
        """The seed of the game's own luck. Default: the task's, so that episodes of a task differ in nothing."""
        return int(self.task.metadata["seed"])

    def begin(self) -> Any:
        """Reset the game and return its first observation."""
        assert self.inner is not None
        return self.inner.reset(seed=self.luck())[0]

    def legal(self, action: int) -> bool:
        """Whether the action does anything now. One that does not is played all the same, and counted as invalid."""
        return True

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
        """Begin the game, the one at hand if it was made for such a task."""
        wanted = self.arguments()
        if self.inner is None or wanted != self._made_with:
            self.close()
            self.inner, self._made_with = self._made(wanted), wanted
        self.observation = self.begin()
        start = int(self.inner.action_space.start)  # type: ignore[attr-defined]
        self._numbers = {name.lower(): number for number, name in enumerate(self.actions, start)}
        opening = user(self.describe(self.observation))
        return (system(self.rules), opening) if self.explain and self.rules else (opening,)

    def state(self) -> str:
        """The task and the observation, whatever the turn."""
        return f"{self.task.id} {self.observation}"

    def reply(self, action: Message) -> Outcome:
        """Take the action that the reply names."""
        number = find_choice(final_text(action), self._numbers)
        if number is None:
            return Outcome((user(f"{'|'.join(self.actions)}?\n{self.describe(self.observation)}"),), valid=False)
        assert self.inner is not None
        legal = self.legal(number)
        self.observation, reward, terminated, truncated, _ = self.inner.step(number)
        if truncated:
            raise RuntimeError(f"{self.game} truncated itself after {self.turns + 1} turns; only max_turns may")
        won = self.won(float(reward), terminated)
        return Outcome(
            messages=() if terminated else (user(self.describe(self.observation)),),
            reward=self.pay(float(reward), won),
            terminated=terminated,
            success=won,
            valid=legal,
            metrics={"points": float(reward)},
        )

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

    def _made(self, arguments: dict[str, Any]) -> gymnasium.Env:
        made = gymnasium.make(self.game, max_episode_steps=-1, disable_env_checker=True, **arguments)
        if not isinstance(made.action_space, gymnasium.spaces.Discrete):
            raise TypeError(f"{self.game} has the action space {made.action_space}; only Discrete has names")
        if made.action_space.n != len(self.actions):
            raise ValueError(f"{self.game} has {made.action_space.n} actions, but {len(self.actions)} names")
        return made
