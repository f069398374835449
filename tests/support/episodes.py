"""Episodes without a model: environments that count, wait, fail and hang, an agent, and a policy told what to say."""

import asyncio
import threading
from collections import Counter
from dataclasses import replace

from agents.agent import Context
from envs.env import Env
from envs.types import Outcome, Task, assistant, text, user
from rl.methods.parts.strategy import independent
from rl.records import Completion, SamplingParams, Ticket
from rl.rollout.episode import episode
from rl.rollout.runner import Player
from rl.seeds import derive

END = 0


class Count(Env):
    """Says how many replies it has heard, and is content after `goal` of them."""

    max_turns = 9
    goal = 3

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"task {i}"),), str(i)) for i in range(4)]

    def reply(self, action):
        done = self.turns + 1 == self.goal
        return Outcome((user(f"{self.turns + 1}"),), 0.5 * done, done, done, metrics={"heard": len(text(action))})


class Waiting(Count):
    blocking = True


class Plain:
    """One token per letter, replies that end with token 0."""

    stop = (END,)

    def open(self, messages, tools=()):
        self.heard = []
        return Context(self._ids(messages))

    def act(self, ids):
        self.heard.append(tuple(ids))
        return assistant("".join(map(chr, ids[:-1])))

    def observe(self, messages):
        return Context(self._ids(messages))

    @staticmethod
    def _ids(messages):
        return tuple(ord(letter) for message in messages for letter in text(message))


class Says:
    """A policy that says what the test wants it to, and remembers what it was asked."""

    version = 0

    def __init__(self, reply=lambda prompt: (104, 105, END)):
        self.reply = reply
        self.asked = []
        self.released = Counter()

    async def sample(self, prompt, params, *, session="", received=None):
        self.asked.append((session, tuple(prompt), params, received))
        await asyncio.sleep(0)
        ids = tuple(self.reply(tuple(prompt)))[: params.max_tokens]
        logprobs = tuple(-0.1 * (k + 1) for k in range(len(ids)))
        return Completion(ids, logprobs, logprobs, (0,) * len(ids), "stop" if ids[-1] == END else "length")

    def release(self, session):
        self.released[session] += 1


def player(env=Count, policy=None, agent=Plain, *, reply_tokens=8, max_tokens=200, **limits):
    return Player(env, agent, policy or Says(), SamplingParams(max_tokens=reply_tokens), max_tokens, **limits)


def ticket(number=0, *, index=1, size=1):
    return Ticket(number, index, "train", seed=derive("test", number), size=size)


def play(stage, chosen=None, member=0, *, watched=False):
    """One episode, with a watchdog that looks often if it is to be `watched`."""

    async def one():
        return await asyncio.wait_for(episode(stage, chosen or ticket(), member), 20)

    if not watched:
        return asyncio.run(one())
    with stage.watchdog.started(0.02):
        return asyncio.run(one())


def group(stage, chosen):
    return asyncio.run(asyncio.wait_for(independent(stage, chosen), 20))


def timeless(trajectory):
    """The record without its clocks."""
    return replace(trajectory, turns=[replace(turn, sample_s=0.0, env_s=0.0) for turn in trajectory.turns])


def failing(where, times, env=Count, error=OSError):
    """Environments of which the first `times` fail in `where`; and a list of all that were made."""
    made = []

    class Fails(env):
        def __init__(self):
            super().__init__()
            self.number, self.closed, self.begun = len(made), 0, 0
            made.append(self)

        def start(self):
            self.begun += 1
            if where == "start" and self.number < times:
                raise error("no start")
            return super().start()

        def reply(self, action):
            if where == "reply" and self.number < times and self.turns == 1:
                raise error("no reply")
            return super().reply(action)

        def close(self):
            self.closed += 1

    return Fails, made


def hanging(env=Waiting):
    """Environments whose first reply waits until told otherwise, and what tells them."""
    gate = threading.Event()

    class Hangs(env):
        def reply(self, action):
            gate.wait(30)
            return super().reply(action)

        def close(self):
            gate.set()

    return Hangs, gate
