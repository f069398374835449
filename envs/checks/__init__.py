"""Check that an environment keeps the contract of `envs.env.Env`: `check_env("math/Arithmetic-v0")`."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from envs.catalogue import entry
from envs.checks import contract, isolation, opening, rewards, seats
from envs.checks.env_under_test import (
    MAX_TURNS,
    EnvUnderTest,
    Untestable,
    available_splits,
    noop_replies,
    oracle_replies,
    play,
)
from envs.env import SPLITS, Env
from envs.exits import EnvExit, call_contained, containment, error_text
from envs.watchdog import WATCHDOG, Overrun
from sandboxes import SandboxUnavailable
from sandboxes.source_files import user_code_line

Check = Callable[[EnvUnderTest], Iterator[str]]  # yields one line per fault; its docstring is the claim it tests

CHECKS: tuple[Check, ...] = (
    contract.gymnasium_check,
    contract.splits,
    contract.info_keys,
    contract.limits,
    contract.bad_input,
    contract.fresh_objects,
    rewards.oracle,
    rewards.thinking_aloud,
    rewards.noop_and_junk,
    rewards.attacks,
    rewards.random_floor,
    rewards.answer_leak,
    rewards.votes,
    isolation.states,
    isolation.determinism,
    isolation.independence,
    isolation.pickling,
    isolation.vector,
    isolation.processes,
    opening.opening_text,
    opening.example,
    opening.legend,
    opening.ending,
)
SEAT_CHECKS: tuple[Check, ...] = (seats.pettingzoo_tests, seats.full_games, seats.privacy, seats.hostile_seats)
MAX_FAULTS = 5  # that the report shows per check
STEPS_OF_CHECK = 10  # budgets of a step that a check may take, without the episodes that it plays


class Result(NamedTuple):
    """Result of one check.

    Attributes:
        name: Its name.
        claim: What it tests, in a sentence.
        faults: A line for each fault; none if it passed.
        lack: Why the claim could not be tested; empty if it was.
    """

    name: str
    claim: str
    faults: tuple[str, ...]
    lack: str = ""


class CheckFailure(AssertionError):
    """At least one check failed. The message lists every fault; `results` has the results of all checks."""

    def __init__(self, spec: str, results: list[Result]) -> None:
        lines = [f"{result.name}: {fault}" for result in results for fault in result.faults]
        super().__init__("\n".join([f"{spec} fails {sum(bool(result.faults) for result in results)} checks", *lines]))
        self.results = results


def check_env(spec: str, *, tasks: int | None = None, **arguments: Any) -> list[Result]:
    """Run every check on an environment and return the results in order.

    A split whose data are missing is left out, as long as another one is available.

    Args:
        spec: Any name that `envs.make` takes.
        tasks: Limit on the test tasks that each check plays, and on the seeds; None for all and for 4 seeds.
        **arguments: Arguments of the environment's constructor.

    Raises:
        CheckFailure: A check found a fault.
        ImportError, envs.data.MissingData, sandboxes.SandboxUnavailable: This machine lacks what the environment needs.
        ValueError: A wrong name or argument.
    """
    results = list(run(EnvUnderTest(spec, arguments, tasks)))
    if any(result.faults for result in results):
        raise CheckFailure(spec, results)
    return results


def run(under_test: EnvUnderTest) -> Iterator[Result]:
    """Yield the result of each check as soon as it is known; only the first one if the environment cannot be made.

    Raises ImportError or ValueError where a package or the data are missing, or a name or argument is wrong, and
    Overrun if a call takes too long.
    """
    claim, fault, checks = "The environment can be made and its splits can be loaded.", "", CHECKS
    try:
        with containment():
            env = under_test.make()
            try:
                available = set(available_splits(env))
                checks = CHECKS + SEAT_CHECKS * seats.has_seats(env)
                _play_once(env)
            finally:
                WATCHDOG.step_call(f"{under_test.spec}: close", env.close)
    except (ImportError, ValueError, Overrun):
        raise
    except Exception as error:
        fault = _fault_text(error, under_test)
    else:
        missing = [split for split in SPLITS if split not in available]
        claim += f" Left out, as their data are missing: {', '.join(missing)}." if missing else ""
    yield Result("construction", claim, (fault,) if fault else ())
    if not fault:
        check_of: dict[str, str] = {}  # the first check that met a fault, by its text
        for check in checks:
            result = run_check(check, under_test)
            faults = [
                fault
                if (first := check_of.setdefault(fault, result.name)) == result.name
                else f"as in {first}: {fault}"
                for fault in result.faults
            ]
            yield result._replace(faults=tuple(dict.fromkeys(faults)))


def _play_once(env: Env) -> None:
    """Play an episode of the oracle and a turn of the no-op, so that a call that hangs is named before the checks.

    Raises Overrun; faults are left to the checks.
    """
    for replies, turns in ((oracle_replies, MAX_TURNS), (noop_replies, 1)):
        try:
            call_contained(play, env, replies, turns=turns)
        except Overrun:
            raise
        except Exception:  # the checks will meet it again, and say what it breaks
            continue


def run_check(check: Check, under_test: EnvUnderTest) -> Result:
    """Run one check and return its result with at most `MAX_FAULTS` faults, then "and more".

    An exception of the environment is a fault; SandboxUnavailable and Overrun pass through.
    """
    faults: list[str] = []
    lack = ""

    def collect() -> None:
        for fault in check(under_test):
            faults.append(fault)
            if len(faults) > MAX_FAULTS:
                faults[-1] = "and more"
                break

    try:
        # Many calls of a check have a deadline of their own, and their time does not count here.
        label, deadline_s = f"{under_test.spec}: check {check.__name__}", STEPS_OF_CHECK * WATCHDOG.budgets.step
        call_contained(WATCHDOG.call, label, deadline_s, collect, flag=f"{STEPS_OF_CHECK} times --step-seconds")
    except (SandboxUnavailable, Overrun):
        raise
    except Untestable as error:
        lack = str(error)
    except Exception as error:
        faults.append(_fault_text(error, under_test))
    claim = (check.__doc__ or "").strip().splitlines()[0]
    return Result(check.__name__, claim, tuple(faults), lack)


def _fault_text(error: Exception, under_test: EnvUnderTest) -> str:
    """The type and text of an error in one line, with the last line of a user's code that led to it.

    Without one, the last line of the file that defines the environment.
    """
    text = " ".join(error_text(error).split())
    cause = (error.__cause__ or error) if isinstance(error, EnvExit) else error
    if line := user_code_line(cause):
        return f"{text} ({line})"
    with suppress(Exception):  # what cannot be made has no file
        target = entry(under_test.spec)
        file = inspect.getfile(getattr(target, "game", target))
        places = [frame for frame in traceback.extract_tb(cause.__traceback__) if frame.filename == file]
        return f"{text} ({file}, line {places[-1].lineno})"
    return text
