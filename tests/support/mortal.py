"""Environments that kill the process that they are in, once or always, and others that a worker has trouble with."""

from __future__ import annotations

import logging
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from envs.types import Outcome, text, user
from tests.support.episodes import Count
from tests.support.seats import Lows


def die_once(mark: str) -> None:
    """Kill this process, unless a file says that this has been done; with "" never."""
    if mark and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Mortal(Count):
    """Counts to 5; at task 1, its process is killed once: at the third reply or in `reset`."""

    goal = 5

    def __init__(self, where: str = "reply", mark: str = "") -> None:
        super().__init__()
        self.where, self.mark = where, mark

    def start(self):
        if self.where == "reset":
            die_once(self.mark)
        return super().start()

    def reply(self, action):
        if self.where == "reply" and self.turns == 2:
            die_once(self.mark)
        return super().reply(action)

    def snapshot(self):
        return lambda: None  # which cannot be sent


class BlockingMortal(Mortal):
    """Is called in a thread."""

    blocking = True


class Fickle(Mortal):
    """Answers otherwise in another process."""

    def reply(self, action):
        outcome = super().reply(action)
        return replace(outcome, messages=(user(f"{os.getpid()}"),))


class MortalGame(Lows):
    """A game of two seats whose process is killed once, in the third round."""

    def __init__(self, mark: str = "", **limits) -> None:
        super().__init__(**limits)
        self.mark = mark

    def reply(self, replies):
        if self.rounds == 2:
            die_once(self.mark)
        return super().reply(replies)


class Deadly(Count):
    """Kills its process at the reply `break kill`; with `everywhere`, at every reset."""

    goal = 4

    def __init__(self, everywhere: bool = False) -> None:
        super().__init__()
        self.everywhere = everywhere

    def start(self):
        if self.everywhere:
            print("no memory left", flush=True)
            os._exit(7)
        return super().start()

    def reply(self, action):
        if text(action) == "break kill":
            os._exit(7)
        return super().reply(action)


class Talker(Count):
    """Prints, logs, and answers with 300,000 characters."""

    def reply(self, action):
        print(f"a line of task {self.index}", flush=True)
        logging.getLogger("talker").warning("a warning of task %d", self.index)
        outcome = super().reply(action)
        return replace(outcome, messages=(user("x" * 300_000),))


class Stuck(Count):
    """Its first reply never ends: it sleeps, or holds the interpreter's lock."""

    def __init__(self, holds_lock: bool = False) -> None:
        super().__init__()
        self.holds_lock = holds_lock

    def reply(self, action):
        if text(action) == "go on":
            return Outcome(terminated=True, success=True)
        if self.holds_lock:
            sum(range(10**15))
        time.sleep(1000)
        return Outcome()
