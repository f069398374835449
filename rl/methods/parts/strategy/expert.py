"""An expert's recorded episode, and environments that follow it and judge whether a reply does what the expert's did.

The expert is the environment's own oracle, recorded on the same ticket. Backend are compared by their consequences, not
by their text: a reply does what the expert's did if it takes the environment from the same state to the same messages,
reward and state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

import gymnasium

from agents.scripted import oracle
from envs.env import Env
from envs.types import Message, Messages, Stop
from rl.records import Ticket, Trajectory, Turn
from rl.rollout.runner import Runner, environment_class
from rl.rollout.scripted import play_script_on
from rl.rollout.turn_records import is_success

Step = tuple[Messages, SupportsFloat, bool, bool, dict[str, Any]]  # obs, reward, terminated, truncated, info


async def record_expert(runner: Runner, ticket: Ticket) -> Trajectory:
    """Play `ticket`, which names a task and its seed, with the environment's oracle; return the trajectory.

    It is errored (`Stop.ERROR`) where the environment has no oracle, or the oracle no success.
    """
    label = f"the oracle on task {ticket.split}/{ticket.index} seed {ticket.seed}"
    expert, failed_env = await play_script_on(runner, ticket, oracle, label=label)
    if failed_env is not None:
        runner.discard(failed_env)
    if expert.stop != Stop.ERROR and not expert.success:
        expert.stop, expert.error = Stop.ERROR, f"{label} has no success: there is nothing to follow"
    return expert


class EnvironmentDiverged(RuntimeError):
    """An environment depends on more than its seed and the replies, which is no fault of a reply."""


class WrappingRunner(Runner):
    """A runner that shares the state of `runner` and wraps its environments with `wrap` while they are played."""

    def __init__(self, runner: Runner, wrap: Callable[[gymnasium.Env], gymnasium.Wrapper]) -> None:
        vars(self).update(vars(runner))  # episodes under way are known to both
        self.runner, self.wrap = runner, wrap

    def take(self, *, fresh: bool = False) -> gymnasium.Env:
        """Return an environment of the other runner, wrapped: an idle one, else a new one; with `fresh` a new one."""
        return self.wrap(self.runner.take(fresh=fresh))

    def put(self, env: gymnasium.Env) -> None:
        """Return the environment inside the wrapper `env` to the other runner, which may reuse it."""
        assert isinstance(env, gymnasium.Wrapper)
        self.runner.put(env.env)

    def discard(self, env: gymnasium.Env) -> None:
        """Close the environment inside the wrapper `env`, which failed."""
        assert isinstance(env, gymnasium.Wrapper)
        self.runner.discard(env.env)


class ExpertEnv(gymnasium.Wrapper):
    """An environment that can be brought to any turn of `expert`'s episode, and whose episodes begin at `turn`."""

    def __init__(self, env: gymnasium.Env, expert: Trajectory, turn: int = 0) -> None:
        super().__init__(env)
        self.expert, self.turn, self._first = expert, turn, turn
        env_type = environment_class(env)
        # The default state repeats the messages, so it would tell replies apart by their text.
        self._has_state = not issubclass(env_type, Env) or env_type.state is not Env.state

    def replay(self, turns: int) -> tuple[Messages, dict[str, Any]]:
        """Reset the environment and give it the expert's first `turns` replies; return the result of the reset.

        Raises `EnvironmentDiverged` where the environment does not answer as it answered the expert.
        """
        reset_result = self.env.reset(**self._reset_kwargs)
        for turn in range(turns):
            if not self.matches_expert(turn, self.env.step(self.expert_reply(turn))):
                raise EnvironmentDiverged(
                    f"the environment answers the oracle's reply {turn} differently when it is replayed: "
                    "it depends on more than its seed"
                )
        return reset_result

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Begin an episode; the observation is all messages of `expert` before its reply in the first turn.

        The environment itself has been given the expert's replies up to there. Raises `EnvironmentDiverged` where it
        does not answer as it answered the expert.
        """
        self._reset_kwargs: dict[str, Any] = {"seed": seed, "options": options}
        self.turn = self._first
        _, info = self.replay(self.turn)
        history = [
            message
            for turn in range(self.turn)
            for message in (*self._expert_turn(turn).observation, self.expert_reply(turn))
        ]
        first = self._expert_turn(self.turn)
        return (*history, *first.observation), {**info, "state": first.state}

    def expert_reply(self, turn: int) -> Message:
        """Return the expert's reply in turn number `turn`, from 0."""
        reply = self._expert_turn(turn).reply
        assert reply is not None
        return reply

    def matches_expert(self, turn: int, result: Step) -> bool:
        """Whether `result`, of a step in `turn`, is what the environment answered to the expert's reply.

        Where the expert's episode ends, it is enough to succeed with the same reward.
        """
        messages, step_reward, terminated, truncated, info = result
        reward = float(step_reward)
        expert_turn = self._expert_turn(turn)
        is_last = turn + 1 == len(self.expert.turns)
        if (terminated or truncated) != is_last or reward != expert_turn.reward:
            return False
        if is_last:
            return is_success(info, terminated, reward)  # type: ignore[arg-type]
        next_turn = self._expert_turn(turn + 1)
        is_same_answer = info.get("valid", True) == expert_turn.valid and (
            _without_call_ids(messages) == _without_call_ids(next_turn.observation)
        )
        return is_same_answer and (not self._has_state or info.get("state", "") == next_turn.state)

    def _expert_turn(self, turn: int) -> Turn:
        return self.expert.turns[turn]


def _without_call_ids(messages: Messages) -> list[Mapping[str, Any]]:
    """The messages without the ids of the tool calls they answer, which differ between equal replies."""
    return [{key: value for key, value in message.items() if key != "tool_call_id"} for message in messages]
