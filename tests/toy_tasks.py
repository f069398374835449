"""Environments that a model without any training earns something in: each reply is paid by its share of low letters."""

from __future__ import annotations

from envs.env import Env
from envs.types import Outcome, Task, assistant, text, user


class Low(Env):
    """One reply, paid by how many of its letters come before `@`."""

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"{split[0]}{i}"),)) for i in range(12)]

    def reply(self, action):
        share = low(text(action))
        return Outcome(reward=share, terminated=True, success=share >= 0.5, rewards={"share": share})

    def oracle(self):
        yield assistant("1")


class Talk(Low):
    """The same for several turns; a reply that begins with a low letter ends it early."""

    max_turns = 4

    def reply(self, action):
        share = low(text(action))
        done = low(text(action)[:1]) == 1
        told = {"gain": share, "redundancy": 0.0, "matched": 1.0}
        more = () if done else (user("." * (1 + self.turns)),)
        return Outcome(more, share, done, done, rewards={"share": share}, metrics=told)


class Unpaid(Low):
    """Nothing helps."""

    def reply(self, action):
        return Outcome(terminated=True, success=False)


class Broken(Low):
    """Fails by itself, and says where."""

    def reply(self, action):
        raise OSError(f"no ink for task {self.index}")


def low(words):
    return sum(letter < "@" for letter in words) / max(len(words), 1)
