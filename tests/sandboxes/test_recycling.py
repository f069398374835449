"""Places of `local` that are used again and again: who is gone, ill, or has served enough, is replaced unseen.

And whose they are: a forked process leaves them to its parent.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from sandboxes import recycling
from sandboxes.local.place import Place
from sandboxes.local.provider import Local
from tests.support.sandbox_hosts import why_not
from tests.support.sandbox_servers import wait_until


@pytest.fixture
def sandbox() -> Iterator[Local]:
    if reason := why_not("local"):
        pytest.skip(reason)
    with Local(packages=(), places=1) as made:
        yield made


def warden(place: Place) -> int:
    """Its pid, as this host numbers it."""
    with open(f"/proc/self/fdinfo/{place.pidfd}") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))


@pytest.fixture
def waiting(sandbox: Local) -> Place:
    sandbox.run("1")
    (place,) = sandbox._light_pool._idle
    return place


def test_a_place_that_has_rested_and_is_healthy_is_used_again(
    sandbox: Local, waiting: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recycling, "RECHECK_AFTER_S", 0.0)
    for number in range(3):
        assert sandbox.run(f"print({number})").stdout == f"{number}\n"
        assert sandbox._light_pool._idle == [waiting]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_place_whose_warden_is_gone_or_silent_is_not_handed_out(
    sandbox: Local, waiting: Place, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    pid = warden(waiting)
    os.kill(pid, number)
    monkeypatch.setattr(recycling, "RECHECK_AFTER_S", 0.0)
    monkeypatch.setattr(recycling, "HEALTH_TIMEOUT_S", 0.2)
    place = sandbox._light_pool.acquire()
    assert place is not waiting and place.is_reusable
    sandbox._light_pool.release(place)
    assert wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_place_that_has_grown_is_not_handed_out(
    sandbox: Local, waiting: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recycling, "RECHECK_AFTER_S", 0.0)
    monkeypatch.setattr(recycling, "MAX_GROWTH", -(1 << 40))
    assert not waiting.is_healthy()
    assert sandbox.run("print(1)").stdout == "1\n"
    assert waiting not in sandbox._light_pool._idle


def test_a_place_in_which_something_is_left_is_not_well(sandbox: Local) -> None:
    session = sandbox.session()
    session.run(["sh", "-c", "sleep 60 > /dev/null 2>&1 &"])
    assert not session.backend.place.is_healthy()
    session.close()


def test_a_place_that_has_served_enough_is_replaced(
    sandbox: Local, waiting: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recycling, "MAX_CALLS", waiting.calls + 2)
    assert sandbox.run("print(1)").ok and sandbox._light_pool._idle == [waiting]
    assert sandbox.run("print(2)").ok and sandbox._light_pool._idle == []
    assert sandbox.run("print(3)").stdout == "3\n"
    assert waiting not in sandbox._light_pool._idle


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_that_ends_leaves_its_parents_sessions_alone(sandbox: Local) -> None:
    session = sandbox.session()
    session.cell("x = 1")
    pid = os.fork()
    if not pid:
        session.backend.close()  # as the end of its interpreter does
        os._exit(0)
    os.waitpid(pid, 0)
    assert session.cell("x").stdout == "1\n"
    session.close()
