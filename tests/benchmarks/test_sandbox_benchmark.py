"""The benchmark of sandboxes: it notices what long use may spoil, and races only what computes the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from benchmarks import sandboxes as benchmark
from benchmarks.long_use import HOSTILE_EVERY, long_use
from benchmarks.support.sandbox_races import RACES, Race, in_turn
from sandboxes import Result, Status


class Faithful:
    """Prints the number that a program is asked to print; `harm` is what else each call does."""

    def run(self, program: str, **_: object) -> Result:
        self.harm()
        return Result(Status.OK, stdout=program[6:-1] + "\n" if program.startswith("print(") else "")

    def harm(self) -> None:
        pass


class Leaky(Faithful):
    def __init__(self) -> None:
        self.held: list[int] = []

    def harm(self) -> None:
        self.held.append(os.dup(0))


class Fat(Faithful):
    def __init__(self) -> None:
        self.held: list[bytearray] = []

    def harm(self) -> None:
        self.held.append(bytearray(b"x" * 100_000))


class Undertaker(Faithful):
    def __init__(self) -> None:
        self.dead: list[subprocess.Popen[bytes]] = []
        self.lock = threading.Lock()

    def harm(self) -> None:
        if self.lock.acquire(blocking=False):  # once
            self.dead.append(subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE))
            self.dead[0].stdout.read()  # type: ignore[union-attr]  # it ends, and nobody collects it


def test_a_faithful_sandbox_is_the_same_after_long_use() -> None:
    found = long_use(Faithful(), 2000)  # type: ignore[arg-type]
    assert found["after"]["descriptors"] <= found["before"]["descriptors"]  # those of earlier tests may close
    assert found["after"]["zombies"] == 0 and found["growth_mb"] < 8 and len(found["tenths_per_s"]) == 10


def test_what_long_use_leaves_is_seen() -> None:
    leaky = Leaky()
    found = long_use(leaky, 100)  # type: ignore[arg-type]
    for descriptor in leaky.held:
        os.close(descriptor)
    assert found["after"]["descriptors"] >= found["before"]["descriptors"] + 100 and not found["met"]
    assert not long_use(Fat(), 200)["met"]  # type: ignore[arg-type]
    undertaker = Undertaker()
    found = long_use(undertaker, 100)  # type: ignore[arg-type]
    assert found["after"]["zombies"] == 1 and not found["met"]
    undertaker.dead[0].communicate()


def test_a_harmless_call_that_goes_wrong_is_named() -> None:
    class Forgetful(Faithful):
        def run(self, program: str, **_: object) -> Result:
            return Result(Status.OK, stdout="" if program == f"print({HOSTILE_EVERY})" else program[6:-1] + "\n")

    with pytest.raises(ValueError, match=f"call {HOSTILE_EVERY}: "):
        long_use(Forgetful(), 100)  # type: ignore[arg-type]


def test_rivals_that_print_something_else_are_not_raced() -> None:
    race = Race("a call", "42\n", lambda: "42\n", {"another": lambda: "41\n"}, {})
    with pytest.raises(ValueError, match="a call: another printed '41"):
        benchmark.held(race, 4, 1)


def test_a_rate_that_is_wanted_is_judged_beside_the_rivals() -> None:
    race = Race("a cell", "1", lambda: "1", {"another": lambda: "1"}, {"another": 1e9}, 2, wanted_per_s=1.0)
    wanted, rival = benchmark.held(race, 4, 1)
    assert (wanted["rival"], wanted["target"], wanted["met"]) == (None, 1.0, True)
    assert (rival["rival"], rival["met"]) == ("another", False)


def test_each_of_several_calls_serves_one_thread_at_a_time() -> None:
    made: list[str] = []
    call = in_turn([lambda name=name: made.append(name) or name for name in "ab"])  # type: ignore[misc]
    assert {call() for _ in range(4)} == {"a", "b"} and made == ["a", "b", "a", "b"]


def test_the_whole_of_it_runs_and_is_saved(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Sandbox(Faithful):
        class isolation:
            tier, memory = "none", "nobody"

        def __enter__(self) -> Sandbox:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def races(sandbox: Sandbox, absent: list[str]) -> Iterator[Race]:
        absent.append("another is not there")
        yield Race("a call", "1\n", lambda: sandbox.run("print(1)").stdout, {"it": lambda: "1\n"}, {"it": 1.0})

    assert {race.__name__ for race in RACES} >= {"trivial", "symbolic", "cells"}
    monkeypatch.setattr(benchmark, "RACES", (races,))
    monkeypatch.setattr(benchmark, "graded", lambda *_: iter(()))
    monkeypatch.setattr("sandboxes.open", lambda name: Sandbox())
    out = os.path.join(tmp_path, "found.json")
    assert benchmark.main(["--quick", "--out", out]) == 0
    with open(out, encoding="utf-8") as file:
        found = json.load(file)
    assert found["absent"] == ["another is not there"] and found["long_use"]["calls"] == 400
    assert [race["met"] for race in found["races"]] == [None]  # too little to judge by
