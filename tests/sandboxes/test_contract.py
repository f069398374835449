"""Every sandbox that can be opened by name keeps every promise of `sandboxes.checks`, for root and for others."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from unittest.mock import Mock

import pytest

import sandboxes
from sandboxes import Sandbox
from sandboxes.checks import CheckFailure, behaviours, run_check, self_check
from sandboxes.local.confinement.tiers import TIERS
from sandboxes.registry import PROVIDERS
from tests.support.sandbox_hosts import as_user, open_sandbox, ordinary_python, why_not

WEAKER = [f"local:{tier}" for tier in TIERS if tier != "namespaces"]
PLAIN = [pytest.param(name, marks=pytest.mark.docker) if name == "docker" else name for name in PROVIDERS]
NAMES = [*PLAIN, *(pytest.param(name, marks=pytest.mark.slow) for name in WEAKER)]


@pytest.fixture(scope="module", params=NAMES)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    if reason := why_not(request.param):
        pytest.skip(reason)
    with open_sandbox(request.param) as sandbox:
        yield sandbox


@pytest.mark.parametrize("name", behaviours())
def test_a_sandbox_keeps_its_promises(sandbox: Sandbox, name: str) -> None:
    result = run_check(name, behaviours()[name], sandbox)
    if result.skip_reason:
        pytest.skip(result.skip_reason)
    assert not result.failure, f"{result.claim}\n{result.failure}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["local", *WEAKER])
def test_a_sandbox_keeps_its_promises_for_an_ordinary_user(name: str) -> None:
    python, reason = ordinary_python()
    if reason:
        pytest.skip(reason)
    done = as_user(python, "-m", "sandboxes.checks", name, timeout=300)
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, [line for line in done.stdout.splitlines() if line.startswith("FAIL")] or done.stderr
    assert done.stdout.count("\nok ") >= 45


def test_there_are_at_least_forty_five_behaviours_each_with_a_claim() -> None:
    assert len(behaviours()) >= 45
    assert all((behaviour.__doc__ or "").strip() for behaviour in behaviours().values())


def test_a_sandbox_that_breaks_promises_is_told_so() -> None:
    """A sandbox that answers everything with OK and nothing, and does nothing."""

    class Empty:
        isolation = TIERS["namespaces"]

        def run(self, *_: object, **__: object) -> sandboxes.Result:
            return sandboxes.Result(sandboxes.Status.OK)

        def session(self, **_: object) -> sandboxes.Session:
            raise sandboxes.SandboxUnavailable("there are no sessions")

    with pytest.raises(CheckFailure) as caught:
        self_check(Empty())  # type: ignore[arg-type]
    passes = [result.name for result in caught.value.results if not result.failure]
    assert len(caught.value.results) == len(behaviours())
    assert len(passes) <= 4, passes  # those that a program which does nothing cannot break


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda: None, "AttributeError: 'NoneType' object has no attribute '"),
        (lambda: (1, 2), "AttributeError: 'tuple' object has no attribute '"),
        (lambda: [][0], "IndexError: list index out of range"),
        (Mock(side_effect=RuntimeError("two\nlines")), "RuntimeError: two lines"),
    ],
)
def test_a_fault_in_the_code_of_a_provider_is_a_failure_with_its_type(answer: Callable[[], object], text: str) -> None:
    class Faulty:
        isolation = TIERS["namespaces"]

        def run(self, *_: object, **__: object) -> object:
            return answer()

        def session(self, **_: object) -> sandboxes.Session:
            raise NotImplementedError

    failures = {
        name: run_check(name, behaviours()[name], Faulty()).failure  # type: ignore[arg-type]
        for name in ("programs.stdout", "sessions.separation")
    }
    assert failures["programs.stdout"].startswith(text) and failures["sessions.separation"] == "NotImplementedError"


def test_ctrl_c_ends_the_suite() -> None:
    def interrupt(sandbox: Sandbox) -> None:
        """It is interrupted."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_check("programs.interrupt", interrupt, Mock())


def test_a_sandbox_that_protects_no_process_is_not_asked_to_signal_all() -> None:
    """The suite may run on a provider that does not protect as it claims: the first victim is a process of the suite."""

    class Leaky:
        isolation = sandboxes.Isolation("leaky", (), (), "none")

        def __init__(self) -> None:
            self.pids: list[str] = []

        def run(self, program: str) -> sandboxes.Result:
            (pids,) = re.findall(r"for pid in \((.*?)\):", program)
            self.pids.append(pids)
            os.kill(int(pids.rstrip(",")), signal.SIGTERM)
            return sandboxes.Result(sandboxes.Status.OK, 0, stdout="on\n")

    leaky = Leaky()
    name = "isolation.host_processes"
    assert run_check(name, behaviours()[name], leaky).failure == "a process of the host was ended"  # type: ignore[arg-type]
    assert len(leaky.pids) == 1
