"""Predict what an environment answers to a reply: the task that a language model learns to become a world model."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from envs.env import Env
from envs.episodes.guide import Guide
from envs.procedural import drawn
from envs.simulated.inner import make_inner, play
from envs.simulated.prediction import GUIDE, read_prediction, transcript, write_prediction
from envs.types import Message, Messages, Outcome, Task, assistant, final_text, user

_drawing = threading.Lock()  # tasks are drawn in several threads, and all from one environment
LENGTHS = {"train": 20_000, "val": 200, "test": 200}


class Transitions(Env):
    """Predict what an environment answers to the last reply of an episode.

    Observation: the episode up to a reply, as `envs.simulated.prediction.transcript` writes it: the environment's
    texts, and each reply in a line after `> `.
    Action: in short style a sign and the environment's answer: `=16..18` if the episode goes on, `+` for an end with
    success and `-` for one without, each with the text that follows it, if any. In full style a line of JSON,
    `{"observation": "16..18", "terminated": false, "success": false}`.
    Reward: 1 for the recorded answer, else 0. Named rewards: `observation`, `outcome`, the two halves of it. Where the
    environment draws, or knows what the episode does not show, no model can be right always.
    Episode end: terminated by the first reply.
    Splits: the transitions come from episodes of the same split of the environment; a transcript stands in one split.
    Source and licence: played here, by the oracle with random replies among its own; DynaWeb trains its world model on
    such transitions. Version history: v0.

    Args:
        name: The environment, such as "games/GuessNumber-v0".
        mistakes: Mean share of random replies of an episode.
        env_args: Arguments of that environment.
        style: "full" or "short", also of that environment.
        **limits: Arguments of `Env`.

    Raises:
        ValueError: `name` is no environment that can be simulated, see `envs.simulated.inner.make_inner`.
    """

    def __init__(
        self,
        name: str,
        /,
        *,
        mistakes: float = 0.3,
        env_args: Mapping[str, Any] | None = None,
        style: Literal["full", "short"] = "full",
        **limits: Any,
    ) -> None:
        super().__init__(style=style, **limits)
        if not 0 <= mistakes <= 1:
            raise ValueError(f"mistakes {mistakes!r} is outside 0..1")
        self.name, self.mistakes, self.env_args = name, mistakes, dict(env_args or {})
        self._inner = make_inner(name, style, env_args)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return transitions of episodes that are played as they are needed."""
        key = f"transitions:{self.name}:{sorted(self.env_args.items())}:{self.mistakes}:{self.style}"
        draw = partial(self._draw, split)
        return drawn(split, LENGTHS[split], draw, key=key, same=lambda task: task.metadata)

    def start(self) -> Messages:
        """Return the transcript."""
        return (user(self.task.metadata["transcript"]),)

    def guide(self) -> Guide:
        """Return `envs.simulated.prediction.GUIDE`: whose answer has to be predicted, and in which form."""
        return GUIDE

    def reply(self, action: Message) -> Outcome:
        """Compare a prediction with what was recorded."""
        truth = read_prediction(self.task.answer, self.style)
        try:
            prediction = read_prediction(final_text(action).strip("\n"), self.style)
        except ValueError:
            return Outcome(terminated=True, valid=False, rewards={"observation": 0.0, "outcome": 0.0})
        parts = {
            "observation": float(prediction.observation.strip() == truth.observation.strip()),
            "outcome": float((prediction.terminated, prediction.success) == (truth.terminated, truth.success)),
        }
        is_right = all(parts.values())
        return Outcome(reward=float(is_right), terminated=True, success=is_right, rewards=parts)

    def oracle(self) -> Iterator[Message]:
        """Yield what was recorded."""
        yield assistant(self.task.answer)

    def _draw(self, split: str, rng: np.random.Generator) -> Task:
        """Play an episode and choose one of its transitions."""
        with _drawing:
            transitions = list(play(self._inner, rng, split, self.mistakes))
        dialogue, outcome = transitions[int(rng.integers(len(transitions)))]
        metadata = {"transcript": transcript(dialogue)}
        return Task("", answer=write_prediction(outcome, self.style), metadata=metadata)
