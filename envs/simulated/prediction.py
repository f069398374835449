"""What a world model is asked and what it answers, and the text forms of both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from envs.episodes.guide import Guide
from envs.types import Message, Messages, final_line, text, user

REPLY_MARK = "> "  # begins the line of a reply in a transcript; the other lines are the environment's
GOES_ON, SUCCESS, FAILURE = "=", "+", "-"  # what a prediction in short form begins with
FIELDS = ("observation", "terminated", "success")  # of a prediction in full form
MAX_OBSERVATION = 20_000  # characters


@dataclass(frozen=True, slots=True)
class Prediction:
    """What follows a reply.

    Attributes:
        observation: The environment's answer; "" for none.
        terminated: Whether the episode ends.
        success: Whether the task is solved, if it ends.
        uncertainty: Between 0 and 1: how little the model knows of this situation; 0 also where it cannot tell.
        logprob: Log-probability of the prediction under the model; None where it has none.
    """

    observation: str
    terminated: bool = False
    success: bool = False
    uncertainty: float = 0.0
    logprob: float | None = None


class Simulator(Protocol):
    """A world model. Subclass it: `version` and `close` are inherited.

    `version` names the model in the `info` of every step, so that episodes of different models are never confused.
    """

    version: str = ""

    def predict(self, dialogue: Sequence[Message], rng: np.random.Generator, style: str) -> Prediction:
        """Predict what follows the last message of `dialogue`, which is a reply.

        Must draw from `rng` only, so that an episode can be repeated. It may be called by several threads at once.

        Args:
            dialogue: All messages of the episode: those of the environment, and the replies.
            rng: Generator of this step, equal for an equal seed of the episode and the same number of replies.
            style: Style of the environment that it stands in for, "full" or "short".

        Raises:
            Exception: An infrastructure fault: the episode is retried, never scored.
        """
        ...

    def close(self) -> None:
        """Free what the model holds."""
        return None


def transcript(dialogue: Sequence[Message]) -> str:
    """Return a dialogue as text: messages of the environment as they are, of each reply its last line after `> `.

    A reply is one line, whatever it holds, so it cannot pretend to be the environment. Lines of the environment that
    begin with `>` get a space before them.
    """
    lines = []
    for message in dialogue:
        if message["role"] == "assistant":
            lines.append(REPLY_MARK + " ".join(final_line(message).split()))
        else:
            lines += [f" {line}" if line.startswith(">") else line for line in text(message).splitlines()]
    return "\n".join(lines)


def write_prediction(prediction: Prediction, style: str) -> str:
    """Return a prediction as text.

    In short style a sign and the observation: `=16..18`, where `=` says that the episode goes on, `+` that it ends with
    success and `-` that it ends without. In full style a line of JSON with the keys `FIELDS`.
    """
    if style == "short":
        sign = GOES_ON if not prediction.terminated else SUCCESS if prediction.success else FAILURE
        return sign + prediction.observation
    return json.dumps({name: getattr(prediction, name) for name in FIELDS}, ensure_ascii=False)


def read_prediction(written: str, style: str) -> Prediction:
    """Return the prediction that `write_prediction` wrote. Raises ValueError for any other text."""
    if style == "short":
        sign, observation = written[:1], written[1:]
        if sign not in (GOES_ON, SUCCESS, FAILURE):
            raise ValueError(f"a prediction begins with =, + or -, not {sign!r}")
        return Prediction(observation[:MAX_OBSERVATION], sign != GOES_ON, sign == SUCCESS)
    lines = [line for line in written.splitlines() if line.strip()]
    try:
        record: Any = json.loads(lines[-1] if lines else "")
    except (ValueError, RecursionError):
        raise ValueError("a prediction is JSON on the last line") from None
    if not isinstance(record, dict) or set(record) != set(FIELDS):
        raise ValueError(f"a prediction is a JSON object with the keys {', '.join(FIELDS)}")
    observation, terminated, success = (record[name] for name in FIELDS)
    if not isinstance(observation, str) or not isinstance(terminated, bool) or not isinstance(success, bool):
        raise ValueError("observation is a string, terminated and success are true or false")
    return Prediction(observation[:MAX_OBSERVATION], terminated, success and terminated)


GUIDE = Guide(
    goal=(
        "Predict what an environment answers. Below stands an episode: the lines of the environment, and after the "
        "sign > the replies of a player. You succeed if you predict the environment's answer to the last reply, letter "
        "by letter, and whether and how the episode ends there."
    ),
    reply=(
        f"Reply with a JSON object in one line, with the keys {', '.join(FIELDS)}: the environment's answer as a "
        "string, empty if it gives none; whether its rules end the episode with this reply, true or false; and whether "
        "the player then has succeeded, true or false."
    ),
    noun="JSON object",
    example=write_prediction(Prediction("The door is locked."), "full"),
    invalid="A reply in another form counts as wrong.",
    heading="The episode:",
)


def request(dialogue: Sequence[Message], style: str) -> Messages:
    """Return the messages that ask a language model for the answer to the last reply of `dialogue`.

    In full style they say what to do and in which form, in short style they are the transcript alone.
    """
    messages = (user(transcript(dialogue)),)
    return GUIDE.open(messages, 1) if style == "full" else messages
