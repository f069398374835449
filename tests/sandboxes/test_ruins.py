"""What a program does to its own place is its result, never a fault of ours, and nothing of it reaches the next call.

For every provider and tier, as this user and as another; weaker tiers only as another, as they protect so little.
"""

from __future__ import annotations

import json
import os
from functools import cache

import pytest

from sandboxes.local.confinement.tiers import TIERS
from tests.support.sandbox_hosts import as_user, open_sandbox, ordinary_python, why_not
from tests.support.sandbox_notes import hostile_calls
from tests.support.sandbox_ruins import RUINS, ruin_all

MANY_CALLS = int(os.environ.get("TURNWISE_HOSTILE_CALLS", "250"))  # 1,000 take a minute for each host
HOSTS = [
    pytest.param("local", False, id="this user"),
    pytest.param("local", True, id="an ordinary user"),
    pytest.param("docker", False, id="containers", marks=[pytest.mark.docker, pytest.mark.slow]),
    pytest.param("remote", False, id="remote", marks=pytest.mark.slow),
    *(pytest.param(f"local:{tier}", True, id=tier) for tier in TIERS if tier != "namespaces"),
]


def run_as_user(program: str, *arguments: str, timeout_s: float) -> str:
    """Output of a program of `tests/support`, run as an ordinary user."""
    python, reason = ordinary_python()
    if reason:
        pytest.skip(reason)
    done = as_user(python, f"tests/support/{program}.py", *arguments, timeout=timeout_s)
    if "SandboxUnavailable" in done.stderr:
        pytest.skip(done.stderr.strip().rpartition("\n")[2])
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def ruins(name: str, as_other: bool) -> dict[str, list[str]]:
    if as_other:
        return json.loads(run_as_user("sandbox_ruins", name, timeout_s=300))
    if reason := why_not(name):
        pytest.skip(reason)
    with open_sandbox(name) as sandbox:
        return ruin_all(sandbox)


@pytest.mark.parametrize("ruin", [*RUINS, "a session goes on"])
@pytest.mark.parametrize(("name", "as_other"), HOSTS)
def test_a_ruined_place_is_a_result_and_replaced_unseen(name: str, as_other: bool, ruin: str) -> None:
    faults = ruins(name, as_other)
    if ruin not in faults:
        pytest.skip("needs child processes, which this tier forbids")
    assert faults[ruin] == []


def test_there_are_at_least_thirty_ways_to_ruin_a_place() -> None:
    assert len(RUINS) >= 30


@pytest.mark.parametrize("count", [20, pytest.param(MANY_CALLS, marks=pytest.mark.slow, id="many")])
@pytest.mark.parametrize(("name", "as_other"), HOSTS)
def test_no_hostile_call_leaves_anything_that_the_next_one_sees(name: str, as_other: bool, count: int) -> None:
    if as_other:
        assert json.loads(run_as_user("sandbox_notes", name, str(count), timeout_s=900)) == []
        return
    if reason := why_not(name):
        pytest.skip(reason)
    with open_sandbox(name) as sandbox:
        assert hostile_calls(sandbox, count) == []
