"""A world model that counts: what followed the same observation and the same reply in episodes that it has seen."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from envs.env import Env
from envs.simulated.inner import play
from envs.simulated.prediction import Prediction, Simulator
from envs.types import Message, final_line, text

SEED = 0
Table = dict[tuple[str, str], Counter[Prediction]]  # how often what followed, by situation

_tables: dict[tuple, Table] = {}
_counting = threading.Lock()


class Counts(Simulator):
    """Draws what follows from what followed in `episodes` episodes of the real environment's training tasks.

    A situation is the environment's last text and the last line of the reply. In one that it has never seen, the model
    repeats the environment's last text with uncertainty 1: the episode goes on as if nothing had happened. So it fits
    environments whose last text says all that matters, with few different texts.

    Args:
        make_env: Makes the real environment, which is played when the first prediction is asked for.
        key: Equal for equal environments: models of one process with the same key and options share their counts.
        episodes: Number of episodes to play, at least 1.
        mistakes: Mean share of random replies in them, see `envs.simulated.inner.play`.
    """

    def __init__(
        self, make_env: Callable[[], Env], key: str = "", *, episodes: int = 2000, mistakes: float = 0.3
    ) -> None:
        if episodes < 1:
            raise ValueError(f"counts: episodes must be at least 1, not {episodes}")
        if not 0 <= mistakes <= 1:
            raise ValueError(f"counts: mistakes {mistakes!r} is outside 0..1")
        self.make_env, self.key, self.episodes, self.mistakes = make_env, key, episodes, mistakes
        self.version = f"counts:episodes={episodes},mistakes={mistakes}"

    def predict(self, dialogue: Sequence[Message], rng: np.random.Generator, style: str) -> Prediction:
        """Draw one of the outcomes that were seen in this situation, each as often as it was."""
        outcomes = self._counts().get(_situation(dialogue))
        if not outcomes:
            return Prediction(_last_text(dialogue), uncertainty=1.0)
        values = list(outcomes)
        shares = np.array([outcomes[value] for value in values], float)
        outcome = values[int(rng.choice(len(values), p=shares / shares.sum()))]
        share = outcomes[outcome] / outcomes.total()
        return Prediction(outcome.observation, outcome.terminated, outcome.success, logprob=float(np.log(share)))

    def _counts(self) -> Table:
        key = (self.key or id(self), self.episodes, self.mistakes)
        with _counting:
            if key not in _tables:
                _tables[key] = self._count()
            return _tables[key]

    def _count(self) -> Table:
        table: Table = defaultdict(Counter)
        rng = np.random.default_rng(SEED)
        env = self.make_env()
        try:
            for _ in range(self.episodes):
                for dialogue, outcome in play(env, rng, "train", self.mistakes):
                    table[_situation(dialogue)][outcome] += 1
        finally:
            env.close()
        return dict(table)


def _situation(dialogue: Sequence[Message]) -> tuple[str, str]:
    return _last_text(dialogue), " ".join(final_line(dialogue[-1]).split())


def _last_text(dialogue: Sequence[Message]) -> str:
    return next((text(message) for message in reversed(dialogue[:-1]) if message["role"] != "assistant"), "")
