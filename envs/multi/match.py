"""Play one episode with a player in every seat, so that one that crashes or stalls spoils its own seat only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from envs.multi.multi_env import MultiEnv
from envs.types import Message, Messages, assistant

Player = Callable[[Messages, Mapping[str, Any]], Message | str]  # observation and info of its seat -> its reply
SILENCE = assistant("")


@dataclass
class SeatRecord:
    """What one seat has read, written and earned in an episode.

    Attributes:
        observations: Messages that it read, one tuple per reply; the last one, read at the end, may be empty.
        replies: Its replies.
        total_reward: Sum of its rewards.
        info: Its last info, with `success` and `stop`.
        fault: Why its player was replaced by silence, such as "TimeoutError: ..."; empty if it was not.
    """

    observations: list[Messages] = field(default_factory=list)
    replies: list[Message | str] = field(default_factory=list)
    total_reward: float = 0.0
    info: dict[str, Any] = field(default_factory=dict)
    fault: str = ""

    @property
    def success(self) -> bool:
        """Whether the seat's episode ended with success."""
        return bool(self.info.get("success"))


def play_match(
    env: MultiEnv,
    players: Mapping[str, Player],
    *,
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
    reply_seconds: Mapping[str, float] | None = None,
) -> dict[str, SeatRecord]:
    """Play one episode and return the records of all seats that took part.

    A player that raises an exception, replies with something that is no assistant message, or takes longer than
    its deadline, replies `""` from then on: its game treats that like any reply that names no move. The others play
    to the end.

    Args:
        env: The environment; it is reset first.
        players: One player for each seat.
        seed: Seed of the episode.
        options: Options of `reset`.
        reply_seconds: Deadline of a reply, by seat; seats without one have none. A player that misses it is left behind
            in a daemon thread.
    """
    env.reset(seed=seed, options=options)
    records: dict[str, SeatRecord] = {}
    for seat in env.agent_iter():
        record = records.setdefault(seat, SeatRecord())
        observation, reward, terminated, truncated, info = env.last()
        record.observations.append(observation or ())
        record.total_reward += reward
        record.info = dict(info)
        if terminated or truncated:
            env.step(None)
            continue
        reply = _ask(players[seat], observation or (), record, (reply_seconds or {}).get(seat))
        record.replies.append(reply)
        env.step(reply)
    return records


def _ask(player: Player, observation: Messages, record: SeatRecord, seconds: float | None) -> Message | str:
    """The player's reply, or silence if it has failed now or before."""
    if record.fault:
        return SILENCE
    results: list[Any] = []

    def call() -> None:
        try:
            results.append(player(observation, record.info))
        except Exception as error:
            record.fault = record.fault or f"{type(error).__name__}: {error}"

    if seconds is None:
        call()
    else:
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            record.fault = f"TimeoutError: no reply within {seconds:g} s"
    reply = results[0] if results and not record.fault else SILENCE
    if not isinstance(reply, str) and not (isinstance(reply, dict) and reply.get("role") == "assistant"):
        record.fault = f"TypeError: a reply is a text or an assistant message, not {type(reply).__name__}"
        return SILENCE
    return reply  # type: ignore[return-value]
