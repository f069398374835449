"""An environment of three steps with an oracle, variants of it, and a policy of scripted replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from agents.chat import ChatAgent
from agents.render import Renderer
from envs.env import Env
from envs.types import Message, Outcome, Task, assistant, text, user
from rl.policy.tiny import byte_tokenizer
from rl.records import Group, Ticket, Trajectory
from rl.rollout.runner import Runner
from tests.support.episodes import FixedPolicy, make_runner

EAST = b"\xff\xfe east"  # no text, but it ends with the right word


class Walk(Env):
    """Three steps to the east; a reply counts by its last word."""

    max_turns = 5

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"go {i}"),)) for i in range(4)]

    def start(self):
        self.place = 0
        return self.task.prompt

    def reply(self, action):
        move = {"east": 1, "west": -1}.get((text(action).split() or [""])[-1])
        self.place += move or 0
        done = self.place == 3
        return Outcome((user(self.observation()),), 0.5 * done, done, done, valid=move is not None)

    def observation(self):
        return f"at {self.place}"

    def oracle(self):
        while True:
            yield assistant("east")


class Dark(Walk):
    """A walk whose messages hide the place; only the state shows it."""

    def observation(self):
        return "dark"

    def state(self):
        return str(self.place)


class Forgetful(Dark):
    """Dark with the default state, which is the dialogue."""

    state = Env.state


class NoOracle(Walk):
    """A walk without an oracle."""

    oracle = Env.oracle


class LostOracle(Walk):
    """A walk whose oracle fails."""

    def oracle(self):
        while True:
            yield assistant("west")


class Moody(Walk):
    """Answers differently after every reset."""

    num_starts = 0

    def start(self):
        type(self).num_starts += 1
        return super().start()

    def observation(self):
        return f"{super().observation()} {self.num_starts}"


@cache
def renderer() -> Renderer:
    return Renderer(byte_tokenizer())


def ids_of(words: str | bytes) -> tuple[int, ...]:
    """The tokens of a reply: one per byte, and the end token."""
    if isinstance(words, str):
        return renderer().write(assistant(words))
    space = renderer().write(assistant(" "))
    return (*(byte + space[0] - 32 for byte in words), space[-1])


class Script(FixedPolicy):
    """Backend with `replies[k]` in turn `k` of any session."""

    def __init__(self, *replies: str | bytes) -> None:
        super().__init__()
        self.replies = [ids_of(words) for words in replies]
        self.turns: dict[str, int] = {}

    async def sample(self, prompt, params, *, session="", resume_from=None):
        turn = self.turns[session] = self.turns.get(session, -1) + 1
        self.requests.append((session, tuple(prompt), params, resume_from))
        reply = await FixedPolicy(lambda prompt: self.replies[turn]).sample(prompt, params)
        return replace(reply, finish="stop")

    def prompts(self, session: str = "0/0") -> list[tuple[int, ...]]:
        return [prompt for requester, prompt, *_ in self.requests if requester == session]


def make_walk_runner(env: Callable[[], Env], policy: FixedPolicy) -> Runner:
    return make_runner(env, policy, lambda: ChatAgent(renderer()), reply_tokens=32, max_tokens=800, retries=1)


def make_ticket(number: int = 0, size: int = 1) -> Ticket:
    return Ticket(number, number % 4, "train", 7 + number, size)


def play_strategy(part: Callable, runner: Runner, ticket: Ticket | None = None) -> Group:
    """The group that a strategy makes of a ticket."""
    (group,) = asyncio.run(asyncio.wait_for(part(runner, ticket or make_ticket()), 20))
    return group


def metric_values(record: Trajectory, name: str) -> list[float]:
    return [turn.metrics[name] for turn in record.turns]


def render(*messages: Message) -> tuple[int, ...]:
    return renderer().render(messages, generation=True)
