"""Environments that a model without any training earns something in: each reply is paid by its share of low letters."""

from __future__ import annotations

from envs.env import Env
from envs.types import Outcome, Task, assistant, text, user


class Low(Env):
    """One reply, paid by how many of its letters come before `@`."""

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"{split[0]}{i}"),), "1") for i in range(12)]

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


class Steps(Low):
    """Three turns, in each of which only the first letter matters: whether it is low."""

    max_turns = 3

    def start(self):
        self.steps = ""
        return self.task.prompt

    def reply(self, action):
        self.steps += "ny"[low(text(action)[:1]) == 1]
        done = len(self.steps) == 3
        return Outcome((user("." * len(self.steps)),), float(done and self.steps == "yyy"), done, self.steps == "yyy")

    def state(self):
        return self.steps

    def oracle(self):
        yield from (assistant("1") for _ in range(3))


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
