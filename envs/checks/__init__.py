"""The environment doctor: tests whether an environment keeps what its users rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from envs.checks import contract, isolation, rewards
from envs.checks.examined import Subject, there
from envs.env import SPLITS
from sandboxes import SandboxUnavailable

CHECKS: tuple[Callable[[Subject], Iterator[str]], ...] = (
    contract.gymnasium_check,
    contract.splits,
    contract.info_keys,
    contract.limits,
    contract.bad_input,
    contract.fresh_objects,
    rewards.oracle,
    rewards.noop_and_junk,
    rewards.attacks,
    rewards.random_floor,
    rewards.answer_leak,
    isolation.determinism,
    isolation.independence,
    isolation.pickling,
    isolation.vector,
    isolation.processes,
)
SHOWN = 5  # faults of one check in a report


class Result(NamedTuple):
    """One check: its name, the claim it tests, and what it found against it."""

    name: str
    claim: str
    faults: tuple[str, ...]


class CheckFailure(AssertionError):
    """An environment broke at least one claim; `results` has all of them."""

    def __init__(self, spec: str, results: list[Result]) -> None:
        lines = [f"{result.name}: {fault}" for result in results for fault in result.faults]
        super().__init__("\n".join([f"{spec} fails {sum(bool(result.faults) for result in results)} checks", *lines]))
        self.results = results


def check_env(spec: str, *, tasks: int | None = None, **arguments: Any) -> list[Result]:
    """Run every check on the environment that `spec` names and return the results, in order.

    `tasks` bounds how many tasks of the test split the oracle plays (None: all); `arguments` go to the constructor.
    Raises CheckFailure with all faults if there is one. An environment whose extra or data is missing cannot be
    checked: its ImportError or `envs.data.MissingData` passes through, as do `sandboxes.SandboxUnavailable` and the
    ValueError for a wrong argument. Splits whose data are missing are left out, if there is another.
    """
    results = list(run(Subject(spec, arguments, tasks)))
    if any(result.faults for result in results):
        raise CheckFailure(spec, results)
    return results


def run(subject: Subject) -> Iterator[Result]:
    """Yield each check's result as soon as there is one; only the first if the environment cannot be made."""
    claim, fault = "The environment can be made and its splits can be loaded.", ""
    try:
        with subject.make() as env:
            found = set(there(env))
    except (ImportError, ValueError):
        raise
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
    else:
        lacking = [split for split in SPLITS if split not in found]
        claim += f" Left out, as their data are missing: {', '.join(lacking)}." if lacking else ""
    yield Result("construction", claim, (fault,) if fault else ())
    if not fault:
        for check in CHECKS:
            yield _run(check, subject)


def _run(check: Callable[[Subject], Iterator[str]], subject: Subject) -> Result:
    faults: list[str] = []
    try:
        for fault in check(subject):
            faults.append(fault)
            if len(faults) > SHOWN:
                faults[-1] = "and more"
                break
    except SandboxUnavailable:  # this machine's
        raise
    except Exception as error:  # the environment's, so it is one of the findings
        faults.append(f"{type(error).__name__}: {error}")
    claim = (check.__doc__ or "").strip().splitlines()[0]
    return Result(check.__name__, claim, tuple(faults))
