"""An environment that replies can break in many ways, and a policy that does."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from envs.types import Outcome, assistant, text, user
from sandboxes import SandboxDied
from tests.support.episodes import END, Count, FixedPolicy


class Away(BaseException):
    """Derives from nothing that programs catch."""


def kill_worker() -> None:
    """Let a worker process die in the middle of its work, as a grader's may."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(os._exit, 1).result()


RAISES: dict[str, Any] = {
    "os": OSError("no disk"),
    "died": SandboxDied("the place is gone"),
    "memory": MemoryError(),
    "recursion": RecursionError("too deep"),
    "exit": SystemExit(3),
    "generator": GeneratorExit(),
    "stop": StopIteration(),
    "cancel": asyncio.CancelledError(),
    "away": Away("by"),
    "interrupt": KeyboardInterrupt(),
    "group": BaseExceptionGroup("two", [Away(), OSError()]),
}
RETURNS: dict[str, Any] = {
    "nan": ((user("on"),), float("nan"), False, False, {}),
    "text reward": ((user("on"),), "much", False, False, {}),
    "nothing": None,
    "short": ((user("on"),), 1.0),
    "no messages": (7, 1.0, False, False, {}),
    "no info": ((user("on"),), 1.0, False, False, None),
    "no metrics": ((user("on"),), 1.0, False, False, {"metrics": {"x": object()}}),
    "report": ((user("on"),), 1.0, False, True, {"stop": "error", "error": "the browser crashed"}),
    "wrong end": ((user("on"),), 1.0, True, False, {"stop": "because"}),
}
WAYS = (*RAISES, *RETURNS, "hang", "loop", "kill")


class Breakable(Count):
    """Counts to `goal` like `Count`, pays 0.25 for each reply, and breaks at a reply that names one of `WAYS`."""

    goal = 4
    released = threading.Event()  # ends the threads that hang

    def reply(self, action):
        done = self.turns + 1 == self.goal
        return Outcome((user(f"{self.turns + 1}"),), 0.25, done, done)

    def step(self, action):
        way = text(action).removeprefix("break ")
        if way in RAISES:
            raise RAISES[way]
        if way in RETURNS:
            return RETURNS[way]
        if way == "hang":
            self.released.wait(30)
        while way == "loop":
            pass
        if way == "kill":
            kill_worker()
        return super().step(action)

    def oracle(self):
        while True:
            yield assistant("well")


class BlockingBreakable(Breakable):
    """Is called in a thread."""

    blocking = True


def breaking_policy(way: str, turn: int = 2) -> FixedPolicy:
    """A policy that replies `ok`, and in turn number `turn`, from 0, with what breaks the environment that way."""

    def reply(prompt):
        turns = prompt.count(END)
        return (*map(ord, f"break {way}" if turns == turn else "ok"), END)

    return FixedPolicy(reply)
