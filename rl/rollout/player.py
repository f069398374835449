"""Who plays the seats of an environment, if not all of them are the runner's own policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from agents.agent import Agent
from envs.types import Message
from rl.policy.engine import Policy
from rl.records import SamplingParams

if TYPE_CHECKING:  # imports PettingZoo
    from envs.multi.multi_env import MultiEnv

Reply = Callable[["MultiEnv", str, np.random.Generator], Message | str]


@dataclass(frozen=True, slots=True)
class Player:
    """A policy and how it plays a seat.

    Attributes:
        name: What rollouts call it; "" for the runner's own policy.
        make_agent: Creates the agent of one episode.
        policy: Samples the replies.
        params: How replies are sampled.
        max_tokens: Most tokens of an episode, context included.
        is_opponent: Whether it plays for others than the policy that is trained or measured. Its trajectories stand
            apart (`Group.others`), and a fault of the environment at its replies is never blamed on the policy.
        must_reply: Whether running out of room is an error of the episode, which is played again, and not silence,
            which the game may count as a loss.
        has_own_ids: Whether the ids of its completions mean nothing in another process, as those of whole messages.
    """

    name: str
    make_agent: Callable[[], Agent]
    policy: Policy
    params: SamplingParams
    max_tokens: int
    is_opponent: bool = False
    must_reply: bool = False
    has_own_ids: bool = False


@dataclass(frozen=True, slots=True)
class ScriptPlayer:
    """A function that plays a seat, with access to the whole environment (`envs.multi.opponents`).

    Attributes:
        name: What rollouts call it.
        reply: Returns the reply of a seat; its generator is seeded by the episode, the seat and the turn.
        is_opponent: As that of `Player`.
    """

    name: str
    reply: Reply
    is_opponent: bool = False


@dataclass(frozen=True, slots=True)
class TeamPlayer:
    """Players with seats of their own, such as the policies of several roles that were trained together.

    Attributes:
        name: What rollouts call it.
        by_seat: Who plays each seat.
    """

    name: str
    by_seat: Mapping[str, AnyPlayer]


def in_seat(player: AnyPlayer | TeamPlayer, seat: str, *, name: str = "", is_opponent: bool) -> AnyPlayer:
    """Return who plays a seat for `player`, perhaps with another name (default: its own) or as an opponent."""
    one = player.by_seat[seat] if isinstance(player, TeamPlayer) else player
    return replace(one, name=name or one.name, is_opponent=is_opponent)


AnyPlayer = Player | ScriptPlayer
Lineup = Mapping[str, AnyPlayer]  # by seat; the runner's own policy plays the others
