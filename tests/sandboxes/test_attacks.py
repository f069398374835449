"""No attack gets out, fakes a fault of ours, outlasts its deadline or leaves anything.

On this machine's kernel as this user and as another, and in containers.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support import sandbox_attacks
from tests.support.sandbox_attacks import ATTACKS, GRACE_S, Outcome
from tests.support.sandbox_hosts import as_user, ordinary_python, why_not


def as_this_user() -> dict[str, Outcome]:
    if reason := why_not("local"):
        pytest.skip(reason)
    return sandbox_attacks.attack_all("local")


def in_containers() -> dict[str, Outcome]:
    if reason := why_not("docker"):
        pytest.skip(reason)
    return sandbox_attacks.attack_all("docker")


def as_ordinary_user() -> dict[str, Outcome]:
    python, reason = ordinary_python()
    if reason:
        pytest.skip(reason)
    done = as_user(python, "tests/support/sandbox_attacks.py", "local", timeout=200)
    if "SandboxUnavailable" in done.stderr:
        pytest.skip(done.stderr.strip().rpartition("\n")[2])
    assert done.returncode == 0, done.stderr
    return {name: Outcome(*outcome) for name, outcome in json.loads(done.stdout).items()}


HOSTS = [
    pytest.param(as_this_user, id="this user"),
    pytest.param(as_ordinary_user, id="an ordinary user"),
    pytest.param(in_containers, id="containers", marks=pytest.mark.docker),
]


@pytest.fixture(scope="module", params=HOSTS)
def outcomes(request: pytest.FixtureRequest) -> dict[str, Outcome]:
    return request.param()


@pytest.mark.parametrize("attack", [*ATTACKS, "the host"])
def test_no_attack_succeeds(outcomes: dict[str, Outcome], attack: str) -> None:
    status, late_s, faults = outcomes[attack]
    assert not faults, (status, faults)
    assert late_s <= GRACE_S


def test_there_are_at_least_sixty_attacks() -> None:
    assert len(ATTACKS) >= 60


HARMLESS = (
    "a planted file",
    "upwards",
    "the environment",
    "tcp to this machine",
    "udp",
    "abstract sockets",
    "sockets with a name",
)


@pytest.mark.parametrize("attack", HARMLESS)
def test_attacks_succeed_where_nothing_protects(attack: str) -> None:
    """An attack that cannot succeed proves nothing: these are run as plain processes, too."""
    with sandbox_attacks.world() as world:
        done = subprocess.run(
            [sys.executable, "-c", world.program(ATTACKS[attack].program)], capture_output=True, text=True, timeout=60
        )
        assert "ESCAPED" in done.stdout, done.stderr
