"""Trees of episodes without a model: a policy whose replies depend on their seeds, as slow as a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from envs.types import Outcome, user
from rl.policy.engine import Policy
from rl.records import Completion, Group, Ticket
from rl.rollout.runner import Runner
from rl.seeds import generator
from tests.support.episodes import END, Count, LetterAgent, make_runner, make_ticket, without_times

Strategy = Callable[[Runner, Ticket], Coroutine[Any, Any, Group]]


class Chat(Count):
    """Ends when it hears an `a`; every other reply is answered with its letters in reverse."""

    max_turns = 5

    def reply(self, action):
        letters = action["content"]
        done = "a" in letters
        return Outcome((user(letters[::-1] + "?"),), 0.125 * len(letters), done, done, metrics={"heard": len(letters)})


class RandomLetters(Policy):
    """Backend with one to four letters drawn by the request's seed, after `slow(session, length)` rounds of the loop."""

    version = 0

    def __init__(self, slow: Callable[[str, int], int] = lambda session, length: 1, letters: str = "abcdefg") -> None:
        self.slow, self.letters = slow, letters
        self.requests: list[str] = []

    async def sample(self, prompt, params, *, session="", resume_from=None):
        for _ in range(self.slow(session, len(prompt))):
            await asyncio.sleep(0)
        self.requests.append(session)
        rng = generator(params.seed)
        tokens = [ord(letter) for letter in rng.choice(list(self.letters), int(rng.integers(1, 5)))]
        ids = (*tokens, END)[: params.max_tokens]
        logprobs = tuple((-rng.exponential(1.0, len(ids))).tolist())
        return Completion(ids, logprobs, logprobs, (0,) * len(ids))


def make_tree_runner(policy=None, env=Chat, **more):
    """A runner of random letters."""
    return make_runner(env, policy or RandomLetters(), LetterAgent, **more)


def play_tree(strategy: Strategy, ticket=None, runner=None) -> Group:
    """The group of one ticket, by default of eight members."""
    ticket = ticket or make_ticket(size=8)
    (group,) = asyncio.run(asyncio.wait_for(strategy(runner or make_tree_runner(), ticket), 20))
    return group


def without_group_times(group: Group) -> Group:
    """The group without measured seconds."""
    return replace(group, trajectories=[without_times(trajectory) for trajectory in group.trajectories])


def own_turns(group: Group) -> int:
    """Number of turns that were sampled for their own member, not shared by a fork."""
    return sum(len(t.turns) - (t.fork.turns if t.fork else 0) for t in group.trajectories)
