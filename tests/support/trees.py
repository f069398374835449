"""Trees of episodes without a model: a policy whose replies depend on their seeds, as slow as a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from envs.types import Outcome, user
from rl.records import Completion, Group, Ticket
from rl.rollout.runner import Player
from rl.seeds import generator
from tests.support.episodes import END, Count, Plain, player, ticket, timeless

Strategy = Callable[[Player, Ticket], Coroutine[Any, Any, Group]]


class Chat(Count):
    """Ends when it hears an `a`; every other reply is answered with its letters in reverse."""

    max_turns = 5

    def reply(self, action):
        said = action["content"]
        done = "a" in said
        return Outcome((user(said[::-1] + "?"),), 0.125 * len(said), done, done, metrics={"heard": len(said)})


class Babble:
    """Says one to four letters drawn by the seed it is given, after as many rounds of the loop as `slow` says."""

    version = 0

    def __init__(self, slow: Callable[[str, int], int] = lambda session, length: 1, letters: str = "abcdefg") -> None:
        self.slow, self.letters = slow, letters
        self.asked: list[str] = []

    async def sample(self, prompt, params, *, session="", received=None):
        for _ in range(self.slow(session, len(prompt))):
            await asyncio.sleep(0)
        self.asked.append(session)
        rng = generator(params.seed)
        said = [ord(letter) for letter in rng.choice(list(self.letters), int(rng.integers(1, 5)))]
        ids = (*said, END)[: params.max_tokens]
        logprobs = tuple((-rng.exponential(1.0, len(ids))).tolist())
        return Completion(ids, logprobs, logprobs, (0,) * len(ids))


def stage(policy=None, env=Chat, **more):
    """A player of it."""
    return player(env, policy or Babble(), Plain, **more)


def grown(strategy: Strategy, chosen=None, playing=None) -> Group:
    """The group of one ticket, by default of eight members."""
    chosen = chosen or ticket(size=8)
    return asyncio.run(asyncio.wait_for(strategy(playing or stage(), chosen), 20))


def same(group: Group) -> Group:
    """The group without its clocks."""
    return replace(group, trajectories=[timeless(trajectory) for trajectory in group.trajectories])


def own_turns(group: Group) -> int:
    """Turns that were sampled for the members that have them."""
    return sum(len(t.turns) - (t.fork.turns if t.fork else 0) for t in group.trajectories)
