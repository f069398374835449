"""A Turnwise environment as the `environment_factory` of TRL's GRPOTrainer. It needs no import of TRL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import envs
from envs.types import text

PROMPT = (  # TRL appends the opening to it
    "Play the episode below. Answer it with the tool `reply`, once for each turn, until the episode is over.\n\n"
)
OVER = "The episode is over."


def environment_class(spec: str, *, split: str = "train", **arguments: Any) -> type:
    """Return a class for TRL's `environment_factory`: `reset(index)`, the tool `reply(message)` and `get_reward()`.

    TRL resets all members of a group with the same row, so a column `index` (see `rows`) gives them the same task. The
    reward is the return of the episode. TRL turns an exception of a tool into a message and scores the episode; a fault
    of the environment is therefore raised again by `get_reward`, which ends the run.

    Args:
        spec: What `envs.make` takes.
        split: "train", "val" or "test".
        **arguments: Arguments of the environment.

    Raises:
        ValueError: There is no such environment or argument.
    """
    envs.make(spec, **arguments).close()  # a mistake is an error now, not when the trainer makes the first instance

    class TurnwiseEnvironment:
        """One conversation with the environment."""

        def __init__(self) -> None:
            self._env: Any = None
            self._fault: Exception | None = None

        def reset(self, index: int = 0, **_: Any) -> str:
            """Start the episode of task `index` and return its opening."""
            if self._env is None:
                self._env = envs.make(spec, **arguments)
            self._return, self._is_over, self._fault = 0.0, False, None
            messages, _info = self._env.reset(seed=index, options={"split": split, "index": index})
            return _joined(messages)

        def reply(self, message: str) -> str:
            """Answer the environment, and return what it says next.

            Args:
                message: Your answer, in the form that the environment asks for.
            """
            if self._is_over:
                return OVER
            try:
                messages, reward, terminated, truncated, _info = self._env.step(str(message))
            except Exception as error:
                self._fault, self._is_over = error, True
                raise
            self._return += reward
            self._is_over = terminated or truncated
            return "\n".join(part for part in (_joined(messages), OVER if self._is_over else "") if part)

        def get_reward(self) -> float:
            """Return the sum of the episode's rewards. Raises RuntimeError if the environment failed."""
            if self._fault is not None:
                raise RuntimeError(f"{spec} failed; the episode has no score") from self._fault
            return self._return

    return TurnwiseEnvironment


def rows(spec: str, number: int, *, split: str = "train", **arguments: Any) -> list[dict[str, Any]]:
    """Return `number` rows for TRL's dataset, one per task, or all if there are fewer: `prompt` and `index`."""
    env: Any = envs.make(spec, **arguments)
    count = min(number, len(env.unwrapped.load(split)))
    env.close()
    return [{"prompt": [{"role": "user", "content": PROMPT}], "index": index} for index in range(count)]


def _joined(messages: Sequence[Any]) -> str:
    return "\n\n".join(text(message) for message in messages)
