"""What one round of an environment with several seats gives: messages, rewards and ends for each seat."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envs.episodes.results import read_numbers, read_reward
from envs.suggestions import unknown_message
from envs.types import Message, Messages

BY_SEAT, OF_SEATS = ("messages", "rewards", "success", "parts"), ("to_move", "leave", "invalid")  # fields of a Round


class Observation(tuple):
    """A tuple of messages. PettingZoo's `api_test` asks it for a `dtype` and compares that with the space's, None."""

    __slots__ = ()
    dtype = None


@dataclass(slots=True)
class Round:
    """Result of one round, and what `start` returns.

    Attributes:
        messages: Messages by seat. Each is read by its seat only.
        rewards: Rewards by seat; a seat without one earns 0. One that has left, or has not joined, can only have 0, and
            so can all in what `start` returns, before any reply.
        to_move: Seats that reply next, together. Empty: the episode is over for all. A seat that was not there joins.
        leave: Seats whose episode ends now, while the others go on; none of `to_move`.
        success: Whether the task is solved, for each seat whose episode ends; a seat without an entry has failed.
        invalid: Seats whose reply the environment could not act on.
        parts: Named components of the rewards, by seat, for multi-reward methods; empty if there is only one.
    """

    messages: Mapping[str, Messages] = field(default_factory=dict)
    rewards: Mapping[str, float] = field(default_factory=dict)
    to_move: Sequence[str] = ()
    leave: Sequence[str] = ()
    success: Mapping[str, bool] = field(default_factory=dict)
    invalid: Sequence[str] = ()
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def check_round(outcome: Any, seats: Sequence[str], label: str) -> Round:
    """Return `outcome` if it is a `Round` of these seats.

    A message or a reward for a seat that is not there would be lost. Raises TypeError, which begins with `label`, for
    anything else than a Round, and TypeError or ValueError for a field of another type or with an unknown seat, and for
    a seat that leaves and is to move.
    """
    if not isinstance(outcome, Round):
        raise TypeError(f"{label} must return a Round, not {type(outcome).__name__}")
    for name in BY_SEAT:
        if not isinstance(value := getattr(outcome, name), Mapping):
            raise TypeError(f"Round.{name} must be a dict by seat, not {value!r:.60}")
    for name in OF_SEATS:
        if isinstance(value := getattr(outcome, name), str) or not isinstance(value, Iterable):
            hint = f"; write ({value!r},)" if value in seats else ""
            raise TypeError(f"Round.{name} must be a tuple of seats, not {value!r:.60}{hint}")
    for name in (*BY_SEAT, *OF_SEATS):
        for seat in getattr(outcome, name):
            if seat not in seats:
                raise ValueError(unknown_message("seat", str(seat), seats, of=f"Round.{name}"))
    if outcome.leave and (seat := next((seat for seat in outcome.to_move if seat in outcome.leave), None)) is not None:
        raise ValueError(f"Round.to_move and Round.leave both name {seat!r}; a seat that leaves cannot move again")
    return outcome


def check_opening(outcome: Any, seats: Sequence[str], label: str) -> Round:
    """Return `outcome`, what `start` returns, if it is a `Round` of these seats that pays nothing.

    A reward belongs to a reply, of which there is none yet, so that it would be lost. Raises what `check_round` does,
    TypeError or ValueError for a reward, or a part of one, that is no finite number, and ValueError for one that is
    not 0.
    """
    opening = check_round(outcome, seats, label)
    if not (opening.rewards or opening.parts):  # as nearly always
        return opening
    values = {f"rewards[{seat!r}]": value for seat, value in read_rewards(opening, seats).items()}
    for seat, parts in opening.parts.items():
        numbers = read_numbers(f"Round.parts[{seat!r}]", parts, finite=True)
        values |= {f"parts[{seat!r}][{name!r}]": value for name, value in numbers.items()}
    for name, value in values.items():
        if value:
            raise ValueError(
                f"{label}: Round.{name} is {value:g}, but no seat has replied yet; pay it in the Round of reply()"
            )
    return opening


def read_rewards(outcome: Round, live: Collection[str]) -> dict[str, float]:
    """Return the rewards of the seats that are `live`. Raises TypeError or ValueError for what is no finite number.

    Those of other seats must be 0 and are left out: PettingZoo has no reward of an agent that is gone, so that any
    other value would be lost. Raises ValueError for one.
    """
    rewards = {}
    for seat, reward in outcome.rewards.items():
        value = read_reward(f"Round.rewards[{seat!r}]", reward)
        if seat in live:
            rewards[seat] = value
        elif value:
            raise ValueError(
                f"Round.rewards[{seat!r}] is {value:g}, but {seat} has left the episode or not joined it; pay a seat "
                "in the round in which it leaves at the latest"
            )
    return rewards


def merge_user_messages(messages: Sequence[Message]) -> Messages:
    """Join consecutive user messages of plain text into one, with line breaks, because chat templates alternate roles.

    Several reach a seat when others move more than once between two of its own replies.
    """
    joint: list[Message] = []
    for message in messages:
        is_text = message["role"] == "user" and isinstance(message["content"], str)
        if is_text and joint and joint[-1]["role"] == "user" and isinstance(joint[-1]["content"], str):
            joint[-1] = {**joint[-1], "content": f"{joint[-1]['content']}\n{message['content']}"}
        else:
            joint.append({**message})
    return tuple(joint)
