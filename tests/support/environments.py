"""Small environments: one that keeps every promise, and one for each promise that an environment can break."""

import os
import random
import tempfile
import threading

import numpy as np

from envs.data import MissingData
from envs.env import Env
from envs.types import Outcome, Task, assistant, final_line, text, user


class Echo(Env):
    """Say the word, then say it again."""

    max_turns = 3
    words = ("pear", "plum", "lime")

    def __init__(self, *, prefix: str = "", **limits):
        super().__init__(**limits)
        self.prefix = prefix

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"{self.prefix}{split} {w}"),), w[::-1]) for i, w in enumerate(self.words)]

    def start(self):
        self.hits = 0
        return self.task.prompt

    def reply(self, action):
        right = final_line(action) == self.task.answer
        self.hits += right
        success = self.hits == 2
        return Outcome((user("again"),) * (not success), 0.5 * right, success, success, valid=bool(text(action)))

    def oracle(self):
        while True:
            yield assistant(self.task.answer)


class SomeSplits(Echo):
    """Has data for the splits in `there` only."""

    def __init__(self, *, there: str = "test", **limits):
        super().__init__(**limits)
        self.there = there

    def tasks(self, split):
        if split not in self.there.split():
            raise MissingData(f"split {split!r} needs a file")
        return super().tasks(split)


class Unfinished(Env):
    """Has no tasks yet."""


class WeakOracle(Echo):
    def oracle(self):
        yield assistant(self.task.answer)
        while True:
            yield assistant("?")


class ReadsWholeReply(Echo):
    def reply(self, action):
        right = text(action) == self.task.answer
        return Outcome((), float(right), True, right)


class PaysSilence(Echo):
    def reply(self, action):
        return Outcome((user("again"),), 0.1 * (text(action) == ""))


class PaysEcho(Echo):
    def tasks(self, split):
        return [Task(f"{split}/0", (user(f"{split} ere"),), f"{split} ere")]

    def reply(self, action):
        right = text(action) == self.task.answer
        return Outcome((), float(right), True, right)


class PaysAttack(Echo):
    def attacks(self):
        return (*super().attacks(), self.task.answer)


class PaysChance(Echo):
    def random(self, rng):
        return assistant(self.task.answer)


class ShowsAnswer(Echo):
    def tasks(self, split):
        return [Task(f"{split}/0", (user(f"not {split}: erap"),), "erap")]


class ExcusedAnswer(ShowsAnswer):
    leaks = "the word is part of the game"


class SharesTasks(Echo):
    def tasks(self, split):
        return [Task(f"{split}/0", (user("pear"),), "raep")]


class SameIds(Echo):
    def tasks(self, split):
        return [Task(f"{split}/0", (user(f"{split} {word}"),), word[::-1]) for word in self.words]


class HashOrder(Echo):
    def tasks(self, split):
        return [
            Task(f"{split}/{i}", (user(f"{split} {w}"),), w[::-1]) for i, w in enumerate({*self.words, "fig", "kiwi"})
        ]


class GlobalLuck(Echo):
    def start(self):
        super().start()
        return (user(f"{self.task.prompt[0]['content']} {random.random()}"),)


class GlobalNumpy(Echo):
    def start(self):
        np.random.rand()  # noqa: NPY002
        return super().start()


class Crosstalk(Echo):
    replies: list = []  # noqa: RUF012 (shared on purpose)

    def start(self):
        Echo.start(self)
        self.replies.clear()
        return self.task.prompt

    def reply(self, action):
        self.replies.append(text(action))
        outcome = super().reply(action)
        return Outcome((user(f"heard {len(self.replies)}"),), outcome.reward, outcome.terminated, outcome.success)


class SharesObjects(Echo):
    def reset(self, **kwargs):
        messages, info = super().reset(**kwargs)
        info["tools"] = self.shelf
        return messages, info

    shelf: list = []  # noqa: RUF012 (shared on purpose)


class NotANumber(Echo):
    def reply(self, action):
        return Outcome((user("again"),), float("nan"))


class NeverEnds(Echo):
    def _limit(self):
        return None

    def oracle(self):
        yield assistant("?")


class EndsByLimit(Echo):
    """Calls the last turn its own end."""

    def step(self, action):
        messages, reward, terminated, truncated, info = super().step(action)
        return messages, reward, terminated or truncated, truncated, info


class Silent(Echo):
    def reply(self, action):
        outcome = super().reply(action)
        return Outcome((), outcome.reward, outcome.terminated, outcome.success)


class RawText(Echo):
    def step(self, action):
        messages, *rest = super().step(action)
        return (*messages, user(f"not {action}")), *rest


class ExtraInfo(Echo):
    def step(self, action):
        *most, info = super().step(action)
        return (*most, info | {"secret": 1})


class AcceptsAnything(Echo):
    def step(self, action):
        return super().step(action if isinstance(action, str) else "?")


class Unpicklable(Echo):
    def start(self):
        self.lock = threading.Lock()
        return super().start()


class LeavesFile(Echo):
    def start(self):
        tempfile.mkstemp()
        return super().start()


class LeavesThread(Echo):
    def start(self):
        if "PYTHONHASHSEED" in os.environ:
            threading.Thread(target=threading.Event().wait, args=(0.5,), name="lingering").start()
        return super().start()


class Fails(Echo):
    """Task 1 always fails; task 2 fails at first."""

    def __init__(self, *, everywhere=False, **limits):
        super().__init__(**limits)
        self.everywhere = everywhere

    has_failed = False

    def reply(self, action):
        if self.everywhere or self.index == 1:
            raise OSError(f"sandbox {self.index}\nis down")
        if self.index == 2 and not Fails.has_failed:
            Fails.has_failed = True
            raise OSError("sandbox 2 is starting")
        return super().reply(action)


class Picky(Echo):
    """Fails at every reply but the right one."""

    def reply(self, action):
        return {self.task.answer: super().reply(action)}[text(action)]


class LosingOracle(Echo):
    """A contest whose oracle plays valid replies and loses, where random ones win."""

    is_contest = True
    words = tuple(f"word{number}" for number in range(30))

    def oracle(self):
        while True:
            yield assistant("resign")

    def random(self, rng):
        return assistant(self.task.answer)
