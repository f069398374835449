"""Base class that turns a Gymnasium environment with discrete actions into a text environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np

from envs.env import Env
from envs.episodes.guide import Guide, listing
from envs.grading.choice import find_choice
from envs.procedural import digest
from envs.types import Message, Messages, Outcome, Task, assistant, final_text, system, user

LENGTHS = {"train": 10_000, "val": 200, "test": 200}


class Verbalised(Env):
    """A Gymnasium environment whose actions have names and whose observations are described as text.

    A subclass sets `game` (an id for `gymnasium.make`), `actions` (the names of the actions in numeric order) and
    `max_turns`, and defines `describe` and `oracle`:

        class CliffWalking(Verbalised):
            game, actions, max_turns = "CliffWalking-v1", ("up", "right", "down", "left"), 30
            def describe(self, observation): return "row {} column {}".format(*divmod(int(observation), 12))
            def won(self, reward, terminated): return terminated
            def oracle(self): yield from map(assistant, ["up", *["right"] * 11, "down"])

    By default a task is a seed of the game, and the splits have different seeds. Override `tasks` and
    `game_arguments` for tasks that consist of more.

    A subclass may define `guide` for the opening in full style; by default it is made of `rules`, if there are any.

    A reply means the one action that its last line names. If the line names none or several, the reply is invalid: it
    costs a turn, and the answer repeats the names of the actions. `synonyms` are further names, which count on a line
    without one of the actions. The only limit is `max_turns`; the game's own step
    limit is switched off. The metric `points` is the sum of the game's own rewards in the episode so far.

    Args:
        **limits: Arguments of `Env`: `style`, `max_turns`, `max_seconds`, `render_mode`.

    Raises:
        TypeError: The action space of the game is not discrete. Raised by `reset`.
        ValueError: The number of `actions` differs from that of the game. Raised by `reset`.
    """

    game: str = ""
    actions: Sequence[str] = ()
    rules: str = ""
    synonyms: Mapping[str, str] = MappingProxyType({})  # other names of actions, where a reply names no action

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.inner: gymnasium.Env | None = None
        self.observation: Any = None
        self.points = 0.0  # the game's own rewards in this episode so far
        self._game_arguments: dict[str, Any] = {}
        self._numbers: dict[str, int] = {}

    # Methods that a subclass may override.

    def game_arguments(self) -> dict[str, Any]:
        """Keyword arguments of `gymnasium.make` for `self.task`. The game is created anew where they change."""
        return {}

    def game_seed(self) -> int:
        """Seed with which the game is reset.

        Default: the task's seed, so that all episodes of a task are the same game.
        """
        return int(self.task.metadata["seed"])

    def reset_game(self) -> Any:
        """Reset the game and return its first observation."""
        assert self.inner is not None
        return self.inner.reset(seed=self.game_seed())[0]

    def is_legal(self, action: int) -> bool:
        """Whether the action has an effect now.

        An action without effect is still played, but counts as an invalid reply.
        """
        return True

    def describe(self, observation: Any) -> str:
        """Describe an observation as text, with all that the policy needs to know."""
        return str(observation)

    def is_won(self, reward: float, terminated: bool) -> bool:
        """Whether a turn with this reward of the game wins. Default: a positive reward at the end of the game."""
        return terminated and reward > 0

    def ending(self, outcome: Outcome) -> str:
        """Say in full style how the game has ended. Default: whether it is won."""
        return "You have won the game." if outcome.success else "You have lost the game."

    def turn_reward(self, reward: float, is_won: bool) -> float:
        """Reward of the turn.

        Default: 1 for a win, else 0. To use the game's own `reward`, return it and set `max_return`.
        """
        return float(is_won)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return one task per seed of the game; the seeds differ between the splits."""
        return [
            Task(f"{split}/{i}", metadata={"seed": digest(self.game, split, i) >> 33}) for i in range(LENGTHS[split])
        ]

    def guide(self) -> Guide | None:
        """Return a guide with `rules` as the goal and the names of the actions; None without rules."""
        return self.action_guide(self.rules) if self.rules else None

    # Methods that all subclasses share.

    def action_guide(self, goal: str, **texts: Any) -> Guide:
        """Return a guide of a game whose replies are the names of actions; `texts` are other fields of `Guide`."""
        return Guide(
            **{
                "goal": goal,
                "reply": f"Reply with one action: {listing(self.actions, 'or')}. Only one action counts per reply.",
                "noun": "action",
                "example": self.actions[0],
                "invalid": "A reply that names no action, or several, changes nothing and uses up a reply.",
                **texts,
            }
        )

    def start(self) -> Messages:
        """Start the game and describe its first observation.

        A game that was created with the same arguments is reused.
        """
        game_arguments = self.game_arguments()
        if self.inner is None or game_arguments != self._game_arguments:
            self.close()
            self.inner, self._game_arguments = self._make_game(game_arguments), game_arguments
        self.observation, self.points = self.reset_game(), 0.0
        self._first_action = int(self.inner.action_space.start)  # type: ignore[attr-defined]
        self._numbers = {name.lower(): number for number, name in enumerate(self.actions, self._first_action)}
        opening = user(self.describe(self.observation))
        return (system(self.rules), opening) if self.style == "v1" and self.rules else (opening,)

    def state(self) -> str:
        """Return the id of the task and the game's observation; the number of turns does not count."""
        return f"{self.task.id} {self.observation}"

    def reply(self, action: Message) -> Outcome:
        """Play the action that the reply names. Raises RuntimeError if the game truncates the episode itself."""
        synonyms = {name: self._numbers[word] for name, word in self.synonyms.items() if word in self._numbers}
        number = find_choice(final_text(action), self._numbers, synonyms)
        if number is None:
            table, fault = self.describe(self.observation), "Your reply does not name exactly one action."
            short = f"{'|'.join(self.actions)}?\n{table}"
            answer = user(self.correction(fault, table, short=short))
            return Outcome((answer,), valid=False, metrics={"points": self.points})
        assert self.inner is not None
        is_legal = self.is_legal(number)
        self.observation, reward, terminated, truncated, _ = self.inner.step(number)
        if truncated:
            raise RuntimeError(f"{self.game} truncated itself after {self.turns + 1} turns; only max_turns may")
        self.points += float(reward)
        success = self.is_won(float(reward), terminated)
        description = "" if terminated else self.describe(self.observation)
        if self.style == "full" and not is_legal:
            description = f"The action {self.actions[number - self._first_action]} has no effect here.\n{description}"
        return Outcome(
            messages=() if terminated else (user(description),),
            reward=self.turn_reward(float(reward), success),
            terminated=terminated,
            success=success,
            valid=is_legal,
            metrics={"points": self.points},
        )

    def oracle(self) -> Iterator[Message]:
        """Yield replies that win. A subclass must define it."""
        raise NotImplementedError(f"{type(self).__name__} must define oracle()")

    def random(self, rng: np.random.Generator) -> Message:
        """Return the name of one of the actions, each equally likely."""
        return assistant(self.actions[int(rng.integers(len(self.actions)))])

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0, among them all actions in one reply."""
        return (*super().attacks(), " ".join(self.actions), "|".join([*self.actions] * 50))

    def close(self) -> None:
        """Close the game's environment."""
        if self.inner is not None:
            self.inner.close()
            self.inner = None

    def _make_game(self, game_arguments: dict[str, Any]) -> gymnasium.Env:
        env = gymnasium.make(self.game, max_episode_steps=-1, disable_env_checker=True, **game_arguments)
        if not isinstance(env.action_space, gymnasium.spaces.Discrete):
            raise TypeError(f"{self.game} has the action space {env.action_space}; only Discrete has names")
        if env.action_space.n != len(self.actions):
            raise ValueError(f"{self.game} has {env.action_space.n} actions, but {len(self.actions)} names")
        return env
