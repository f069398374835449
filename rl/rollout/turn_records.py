"""What is recorded of a turn and of the end of an episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsFloat

from envs.episodes.results import read_flag, read_number, read_numbers
from envs.step_info import StepInfo
from envs.types import Messages, Stop
from rl.records import Completion, Trajectory, Turn, check_reward

Step = tuple[Messages, SupportsFloat, bool, bool, StepInfo]  # obs, reward, terminated, truncated, info


def make_turn(context: Sequence[int], completion: Completion, messages: Messages, info: StepInfo) -> Turn:
    """Return the record of a turn that the environment has not answered; `messages` and `info` came before the reply.

    `context` are the token ids before the reply that are new since the last one; `completion` is the sampled reply.
    """
    return Turn(tuple(context), completion, tuple(messages), state=info.get("state", ""), valid=False)


def answer_turn(turn: Turn, reward: SupportsFloat, info: StepInfo) -> Turn:
    """Put what the environment answered into the record of a turn, and return it.

    `reward` and `info` are those of its step. Raises `TypeError` or `ValueError`, and changes nothing, for a reward, a
    named reward or a metric that is no number, and for a reward that is too large.
    """
    number = check_reward(read_number("the reward", reward))
    rewards = read_numbers("info['rewards']", info.get("rewards", {}), finite=True)
    valid = read_flag("info['valid']", info.get("valid", True))
    turn.metrics = read_numbers("info['metrics']", info.get("metrics", {}))
    turn.reward, turn.rewards, turn.valid = number, rewards, valid
    return turn


def end_episode(trajectory: Trajectory, messages: Messages, info: StepInfo, terminated: bool) -> None:
    """Record how an episode ended: its stop reason, success and last messages.

    `info` is that of the last step, which says `terminated` or was truncated. Without `info["success"]`, a terminated
    episode with a positive return counts as a success. Raises `RuntimeError` if the environment reports an error.
    """
    stop = Stop(info.get("stop", Stop.TERMINATED if terminated else Stop.TURN_LIMIT))
    if stop == Stop.ERROR:
        raise RuntimeError(info.get("error") or "the environment reports a fault of its own")
    trajectory.final = tuple(messages)
    trajectory.success = is_success(info, terminated, trajectory.reward)
    trajectory.stop = stop


def is_success(info: StepInfo, terminated: bool, episode_return: float) -> bool:
    """Whether an episode that is over is a success: `info["success"]`, else a positive return if it `terminated`.

    `info` is that of its last step. Raises `TypeError` for a success that is neither True nor False.
    """
    return read_flag("info['success']", info.get("success", bool(terminated and episode_return > 0)))
