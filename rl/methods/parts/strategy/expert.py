"""An expert's recorded episode, and environments that lead along it and judge whether a reply does what its own did.

The expert is the environment's own oracle, recorded on the same ticket. Doing the same is a matter of consequences,
not of words: a reply does if it brings the environment from the same place to the same messages, reward and state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

import gymnasium

from agents.scripted import oracle
from envs.env import Env
from envs.types import Message, Messages, Stop
from rl.records import Ticket, Trajectory, Turn
from rl.rollout.runner import Runner
from rl.rollout.scripted import play_script_on

Answer = tuple[Messages, SupportsFloat, bool, bool, dict[str, Any]]  # what `step` returns


async def recorded(runner: Runner, ticket: Ticket) -> Trajectory:
    """The oracle's episode of `ticket`; errored where there is no oracle, or where it has no success."""
    label = f"the oracle on task {ticket.split}/{ticket.index} seed {ticket.seed}"
    expert, failed_env = await play_script_on(runner, ticket, oracle, label=label)
    if failed_env is not None:
        runner.discard(failed_env)
    if expert.stop != Stop.ERROR and not expert.success:
        expert.stop, expert.error = Stop.ERROR, f"{label} has no success: there is nothing to follow"
    return expert


class Following(Runner):
    """A runner whose environments are wrapped while they are played."""

    def __init__(self, runner: Runner, wrap: Callable[[gymnasium.Env], gymnasium.Wrapper]) -> None:
        vars(self).update(vars(runner))  # what is under way is known to both
        self.runner, self.wrap = runner, wrap

    def take(self) -> gymnasium.Env:
        """An environment that nobody plays, wrapped."""
        return self.wrap(self.runner.take())

    def put(self, env: gymnasium.Env) -> None:
        """Give the environment inside back."""
        assert isinstance(env, gymnasium.Wrapper)
        self.runner.put(env.env)

    def discard(self, env: gymnasium.Env) -> None:
        """Close the environment inside."""
        assert isinstance(env, gymnasium.Wrapper)
        self.runner.discard(env.env)


class Led(gymnasium.Wrapper):
    """An environment that can be led along its expert's episode, and begins it at `turn`."""

    def __init__(self, env: gymnasium.Env, expert: Trajectory, turn: int = 0) -> None:
        super().__init__(env)
        self.expert, self.turn, self._first = expert, turn, turn
        own = type(env.unwrapped)
        self._has_state = not issubclass(own, Env) or own.state is not Env.state  # the default tells words apart too

    def lead(self, turns: int) -> tuple[Messages, dict[str, Any]]:
        """Begin again and give the expert's first replies; what the reset said.

        Raises `RuntimeError` where the environment answers other than to the expert.
        """
        began = self.env.reset(**self._began)
        for turn in range(turns):
            if not self.does_the_same(turn, self.env.step(self.said(turn))):
                raise RuntimeError(
                    f"the environment answers the oracle's reply {turn} otherwise than the first time: "
                    "it does not depend on its seed alone"
                )
        return began

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Begin with what was said before the first turn."""
        self._began: dict[str, Any] = {"seed": seed, "options": options}
        self.turn = self._first
        _, info = self.lead(self.turn)
        said = [message for turn in range(self.turn) for message in (*self._turn(turn).observation, self.said(turn))]
        first = self._turn(self.turn)
        return (*said, *first.observation), {**info, "state": first.state}

    def said(self, turn: int) -> Message:
        """The expert's reply."""
        reply = self._turn(turn).reply
        assert reply is not None
        return reply

    def does_the_same(self, turn: int, answer: Answer) -> bool:
        """Whether the environment answers a reply in `turn` as it answered the expert's.

        Where the expert's episode ends, it is enough to succeed with the same reward.
        """
        messages, paid, terminated, truncated, told = answer
        reward = float(paid)
        theirs = self._turn(turn)
        last = turn + 1 == len(self.expert.turns)
        if (terminated or truncated) != last or reward != theirs.reward:
            return False
        if last:
            return bool(told.get("success", terminated and reward > 0))
        after = self._turn(turn + 1)
        same = told.get("valid", True) == theirs.valid and _spoken(messages) == _spoken(after.observation)
        return same and (not self._has_state or told.get("state", "") == after.state)

    def _turn(self, turn: int) -> Turn:
        return self.expert.turns[turn]


def _spoken(messages: Messages) -> list[Mapping[str, Any]]:
    """The messages without the ids of the calls they answer, which everyone chooses alone."""
    return [{key: value for key, value in message.items() if key != "tool_call_id"} for message in messages]
