"""A game of gem-llm as an environment of messages: `gem:game:GuessTheNumber-v0-easy`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from envs.adapters.foreign_env import ForeignEnv, Style, finite_reward
from envs.adapters.schemes import import_extra
from envs.games.textarena import GLOBAL_GENERATORS, preserve_global_generators
from envs.suggestions import unknown_message
from envs.types import Message, Messages, Outcome, assistant, final_text, system, user

DEFAULT_TURNS = 100
TERMINAL = "TERMINAL_STATE"  # part of the observation with which gem ends some games
RULES = (
    "You may think first; only the answer in the form that the task asks for counts, the last one if there are "
    "several. The episode ends at the latest after {turns} turns, and an answer in another form may end it at once."
)


class GemEnv(ForeignEnv):
    r"""A game, or a task, of gem-llm with one player and texts as actions.

    gem seeds and draws from the process's global generators, so that two games in turns would disturb each other. Here
    each episode has states of its own of Python's and NumPy's generators; they are the process's during a call of the
    game only, under a lock, and what was before is restored.

    Observation: gem's text, followed by the suffix that it passes in `info`.
    Action: the text of the reply, without its reasoning block; most games want `\boxed{...}`. An invalid one ends many
    games.
    Reward: gem's. A lost game may pay for nearness.
    Episode end: terminated by the game, truncated when only its limit of turns is reached, or after `max_turns`.
    Splits: a task is a seed.

    Args:
        name: Id of the registry: "game:...", "rg:...". Those of "math:", "code:" and "qa:" need a download.
        success_at: Least reward of the last turn that counts as success.
        game_args: Keyword arguments of `gem.make`.
        style: "full" puts a sentence about thinking and the limit before the task, "short" does not.
        max_turns: Default: the game's own limit, else 100.
        **limits: Other arguments of `Env`.

    Raises:
        ValueError: There is no such id.
        ImportError: The package gem-llm, or one that the game needs, is not installed.
    """

    def __init__(
        self,
        name: str,
        /,
        *,
        success_at: float = 1.0,
        game_args: Mapping[str, Any] | None = None,
        style: Style = "full",
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        with preserve_global_generators():  # imports draw from them, too
            self.gem = import_extra("gem", "gem")
            registry = import_extra("gem.envs.registration", "gem").ENV_REGISTRY
        if name not in registry:
            raise ValueError(unknown_message("game", name, registry, of="gem"))
        self.game_args = dict(game_args or {})
        own_limit = {**registry[name].kwargs, **self.game_args}.get("max_turns")
        limit = own_limit or DEFAULT_TURNS if max_turns is None else max_turns
        super().__init__(name, style=style, max_turns=limit, **limits)
        self.success_at = float(success_at)
        self.inner: Any = None
        self._generators: list[Any] | None = None  # the episode's states

    def start(self) -> Messages:
        """Reset the game with the task's seed. The game is made, with seed 0, at the first episode."""
        self.is_truncated = False
        if self.inner is None:
            self._generators = generator_states(0)
            self.inner = self._call(lambda: self.gem.make(self.name, **self.game_args))
        self._generators = generator_states(0)
        observation, info = self._call(lambda: self.inner.reset(seed=int(self.task.metadata["seed"])))
        opening = user(_text(observation, info))
        return (system(RULES.format(turns=self.max_turns)), opening) if self.style == "full" else (opening,)

    def reply(self, action: Message) -> Outcome:
        """Play a turn of the game. Raises RuntimeError for a reward that is no finite number."""
        observation, payment, terminated, truncated, info = self._call(lambda: self.inner.step(final_text(action)))
        reward = finite_reward(payment, self.name)
        is_over = bool(terminated or truncated)
        self.is_truncated = is_over and not terminated
        return Outcome(
            messages=() if is_over else (user(_text(observation, info)),),
            reward=reward,
            terminated=bool(terminated),
            success=is_over and reward >= self.success_at,
        )

    def random(self, rng: np.random.Generator) -> Message:
        """Return a random move of the game, where it can draw one, else random letters."""
        try:
            with borrowed_generators(generator_states(int(rng.integers(2**32)))):
                return assistant(str(self.inner.sample_random_action()))
        except NotImplementedError:
            return super().random(rng)

    def close(self) -> None:
        """Drop the game."""
        self.inner = None

    def _call(self, function: Callable[[], Any]) -> Any:
        """Call gem with the episode's generators, and keep their states for the next call."""
        assert self._generators is not None
        with borrowed_generators(self._generators) as leave:
            try:
                return function()
            finally:
                self._generators = leave()


def generator_states(seed: int) -> list[Any]:
    """Return states of the process's random generators that follow from `seed`, in [0, 2**32), as gem sets them.

    Raises ImportError if gem-llm is not installed.
    """
    with preserve_global_generators():
        import_extra("gem.utils.seeding", "gem").set_seed(seed)
        return [read() for read, _ in GLOBAL_GENERATORS]


@contextmanager
def borrowed_generators(states: Sequence[Any]) -> Iterator[Callable[[], list[Any]]]:
    """Put the process's random generators into these states during the block; yields a function that reads them."""
    with preserve_global_generators():
        for (_, write), state in zip(GLOBAL_GENERATORS, states, strict=True):
            write(state)
        yield lambda: [read() for read, _ in GLOBAL_GENERATORS]


def _text(observation: Any, info: Mapping[str, Any]) -> str:
    """The observation and its suffix, without gem's mark of the end."""
    parts = (str(observation), str(info.get("suffix") or ""))
    return "\n".join(part for part in parts if part and TERMINAL not in part)
