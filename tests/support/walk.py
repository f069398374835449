"""A walk of three steps that experts have walked before, and what tests say and see on it."""

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
from rl.rollout.runner import Player
from tests.support.episodes import Says, player

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
        return Outcome((user(self.seen()),), 0.5 * done, done, done, valid=move is not None)

    def seen(self):
        return f"at {self.place}"

    def oracle(self):
        while True:
            yield assistant("east")


class Dark(Walk):
    """The same without a word about the place, which only the state knows."""

    def seen(self):
        return "dark"

    def state(self):
        return str(self.place)


class Forgetful(Dark):
    """Dark, and its state is the default: all that was said."""

    state = Env.state


class Unled(Walk):
    oracle = Env.oracle


class Lost(Walk):
    def oracle(self):
        while True:
            yield assistant("west")


class Moody(Walk):
    """Says how often it was asked before: another world at every reset."""

    begun = 0

    def start(self):
        type(self).begun += 1
        return super().start()

    def seen(self):
        return f"{super().seen()} {self.begun}"


@cache
def renderer() -> Renderer:
    return Renderer(byte_tokenizer())


def ids_of(words: str | bytes) -> tuple[int, ...]:
    """The tokens of a reply: one per byte, and its end."""
    if isinstance(words, str):
        return renderer().write(assistant(words))
    space = renderer().write(assistant(" "))
    return (*(byte + space[0] - 32 for byte in words), space[-1])


class Script(Says):
    """In its turn `k`, a member says `said[k]` whatever it is told."""

    def __init__(self, *said: str | bytes) -> None:
        super().__init__()
        self.said = [ids_of(words) for words in said]
        self.turns: dict[str, int] = {}

    async def sample(self, prompt, params, *, session="", received=None):
        turn = self.turns[session] = self.turns.get(session, -1) + 1
        self.asked.append((session, tuple(prompt), params, received))
        reply = await Says(lambda prompt: self.said[turn]).sample(prompt, params)
        return replace(reply, finish="stop")

    def prompts(self, session: str = "0/0") -> list[tuple[int, ...]]:
        return [prompt for asked, prompt, *_ in self.asked if asked == session]


def stage(env: Callable[[], Env], policy: Says) -> Player:
    return player(env, policy, lambda: ChatAgent(renderer()), reply_tokens=32, max_tokens=800, retries=1)


def ticket(number: int = 0, size: int = 1) -> Ticket:
    return Ticket(number, number % 4, "train", 7 + number, size)


def play(part: Callable, on: Player, chosen: Ticket | None = None) -> Group:
    return asyncio.run(asyncio.wait_for(part(on, chosen or ticket()), 20))


def told(record: Trajectory, name: str) -> list[float]:
    return [turn.metrics[name] for turn in record.turns]


def rendered(*messages: Message) -> tuple[int, ...]:
    return renderer().render(messages, generation=True)
