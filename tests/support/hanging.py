"""An environment that hangs where and how its arguments say, and commands that are run against it in a child process."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import re
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from envs.env import Env
from envs.types import Message, Outcome, Task, assistant, text, user

ENV = f"{Path(__file__)}:Hangs"
PATIENCE_S = 120.0  # of a test, against a command that would hang forever


def loop() -> None:
    while True:
        pass


def sleep() -> None:
    time.sleep(1e6)


def swallow() -> None:
    """Loop, and catch what ends an ordinary loop."""
    while True:
        try:
            loop()
        except Exception:
            continue


def swallow_once() -> None:
    try:
        loop()
    except BaseException:
        loop()


def swallow_all() -> None:
    while True:
        try:
            loop()
        except BaseException:
            continue


def search() -> None:
    """Search for an expression that takes exponential time, with the interpreter's lock held."""
    re.match(r"(a|a)*b", "a" * 64)


def native() -> None:
    """Loop in C with the interpreter's lock held, and look for no signal."""
    sum(range(10**18))


def native_sleep() -> None:
    """Sleep in C without the interpreter's lock, again after each signal."""
    while True:
        ctypes.CDLL(None).pause()


class Hangs(Env):
    """Repeats a number; hangs in the method called `where`, in the way called `how`."""

    def __init__(self, *, where: str = "", how: str = "loop", blocking: bool = False, **limits: Any) -> None:
        super().__init__(**limits)
        self.where, self.how, self.blocking = where, how, blocking
        self._hang("init")

    def _hang(self, where: str) -> None:
        if where == self.where:
            globals()[self.how]()

    def tasks(self, split: str) -> list[Task]:
        self._hang("tasks")
        return [Task(f"{split}/{i}", (user(f"{split} {i}"),), str(i)) for i in range(40)]

    def start(self) -> tuple[Message, ...]:
        self._hang("reset")
        return self.task.prompt

    def reply(self, action: Message) -> Outcome:
        self._hang("step")
        success = text(action) == self.task.answer
        return Outcome(reward=float(success), terminated=True, success=success)

    def oracle(self) -> Iterator[Message]:
        self._hang("oracle")
        yield assistant(self.task.answer)

    def close(self) -> None:
        self._hang("close")


class Result(NamedTuple):
    """Exit code and output, standard error included, of a command."""

    code: int
    output: str


def run_command(module: str, *words: object, log: Path) -> Result:
    """Run `python -m MODULE WORDS` in a child process that is forked after the imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["tests.support.hanging", "rl.train.session", "rl.evaluate.__main__", "envs.__main__"]
    )
    process = context.Process(target=_child, args=(module, tuple(map(str, words)), str(log)))
    process.start()
    process.join(PATIENCE_S)
    if process.exitcode is None:
        process.kill()
        raise AssertionError(f"still running: {log.read_text()}")
    return Result(process.exitcode, log.read_text())


def _child(module: str, words: tuple[str, ...], log: str) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    main = import_module(module).main
    if module.startswith("rl."):
        from rl.cli import run

        run(lambda: main(words))
    raise SystemExit(main(words))
