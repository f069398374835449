"""Environments in which an untrained model gets rewards: a reply is worth its share of characters before `@`."""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress
from pathlib import Path

from envs.env import Env
from envs.types import Outcome, Task, assistant, text, user


class Low(Env):
    """One turn, whose reward is the share of the reply's characters that come before `@` in ASCII (low ones)."""

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"{split[0]}{i}"),), "1") for i in range(12)]

    def reply(self, action):
        share = low(text(action))
        return Outcome(reward=share, terminated=True, success=share >= 0.5, rewards={"share": share})

    def oracle(self):
        yield assistant("1")


class Talk(Low):
    """Up to four such turns; a reply that begins with a low character ends the episode."""

    max_turns = 4

    def reply(self, action):
        share = low(text(action))
        done = low(text(action)[:1]) == 1
        metrics = {"gain": share, "redundancy": 0.0, "matched": 1.0}
        messages = () if done else (user("." * (1 + self.turns)),)
        return Outcome(messages, share, done, done, rewards={"share": share}, metrics=metrics)


class Slow(Talk):
    """`Talk` in a thread of its own; a step takes up to `most_s` seconds, by the task and the turn."""

    blocking = True

    def __init__(self, *, most_s: float = 0.3, **arguments):
        super().__init__(**arguments)
        self.most_s = most_s

    def reply(self, action):
        time.sleep(self.most_s * ((self.turns + len(self.task.id)) % 4 + 1) / 4)
        return super().reply(action)


class Logged(Slow):
    """`Slow`, which adds the seed of each episode to the file `log` as it begins."""

    def __init__(self, *, log: str = "", **arguments):
        super().__init__(**arguments)
        self.log = log

    def start(self):
        with open(self.log, "a") as file:
            file.write(f"{self.np_random_seed}\n")
        return super().start()


class Steps(Low):
    """Three turns; the reward is 1 if the first character of every reply is low."""

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
    """Every reward is 0."""

    def reply(self, action):
        return Outcome(terminated=True, success=False)


class Broken(Low):
    """Every reply raises an `OSError` that names the task."""

    def reply(self, action):
        raise OSError(f"no ink for task {self.index}")


def low(reply):
    """Return the share of characters that are low."""
    return sum(character < "@" for character in reply) / max(len(reply), 1)


class OtherOrder(Low):
    """The same tasks, in another order in every process."""

    def tasks(self, split):
        numbers = random.Random(os.getpid()).sample(range(12), 12)
        return [Task("", (user(f"{split[0]}{i}"),), "1") for i in numbers]


class OneOther(Low):
    """The same tasks everywhere but in the first process other than `main` that makes them; `folder` says which."""

    def __init__(self, *, folder, main, **limits):
        super().__init__(**limits)
        self.odd, self.main = Path(folder) / "odd", main

    def tasks(self, split):
        if os.getpid() != self.main:
            with suppress(FileExistsError), self.odd.open("x") as file:
                file.write(str(os.getpid()))
        is_odd = self.odd.exists() and self.odd.read_text() == str(os.getpid())
        return super().tasks(split)[:: -1 if is_odd else 1]
