"""When a group, and when the whole environment, is given up."""

from __future__ import annotations

import pytest

from envs.watchdog import Clock, Overrun
from rl.rollout import timeouts
from rl.rollout.timeouts import MAX_AT_FIRST, MAX_IN_A_ROW, MAX_OF_GROUP, Hang, Timeouts, find_hang
from tests.support.episodes import make_ticket


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in a list."""
    time = [0.0]
    monkeypatch.setattr(timeouts, "monotonic", lambda: time[0])
    return time


def late(now: list[float], count: Timeouts, number: int) -> None:
    """A call for the group `number` takes 60 s, after which it is given up."""
    start, now[0] = now[0], now[0] + 60.0
    count.record(Overrun(f"group {number}", start), make_ticket(number))


def test_a_group_is_given_up_alone(now: list[float]) -> None:
    count = Timeouts()
    for _ in range(MAX_OF_GROUP):
        count.check(make_ticket(1))
        late(now, count, 1)
    with pytest.raises(Overrun, match=f"given up after {MAX_OF_GROUP} timeouts: group 1"):
        count.check(make_ticket(1))
    count.check(make_ticket(2))


@pytest.mark.parametrize(("has_finished", "limit"), [(False, MAX_AT_FIRST), (True, MAX_IN_A_ROW)])
def test_the_environment_is_given_up_after_timeouts_in_a_row(now: list[float], has_finished: bool, limit: int) -> None:
    count = Timeouts()
    if has_finished:
        count.finish()
    for number in range(limit - 1):
        late(now, count, number)
    with pytest.raises(Hang, match=f"group 9, the last of {limit} timeouts in a row"):
        late(now, count, 9)
    with pytest.raises(Hang):
        count.check(make_ticket(10))


def test_an_episode_that_ends_begins_the_row_anew(now: list[float]) -> None:
    count = Timeouts()
    for number in range(20):
        late(now, count, number)
        count.finish()


def test_calls_that_waited_at_the_same_time_count_as_one(now: list[float]) -> None:
    count, now[0] = Timeouts(), 60.0
    for number in range(200):
        now[0] += 0.001
        count.record(Overrun("outage", start=0.001 * number), make_ticket(number))
    count.check(make_ticket(500))


def test_a_hang_is_known_in_a_group_of_exceptions() -> None:
    hang = Hang("stuck")
    assert find_hang(BaseExceptionGroup("", [ValueError(), BaseExceptionGroup("", [hang])])) is hang
    assert find_hang(ValueError()) is None


def test_the_clock_stands_still_in_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    time, clock = [100.0], Clock()
    monkeypatch.setattr("envs.watchdog.time.monotonic", lambda: time[0])
    start = clock.now()
    with clock.paused():
        time[0] += 7.0
        with clock.paused():
            time[0] += 5.0
        assert clock.now() == start
    time[0] += 1.0
    assert clock.now() == start + 1.0
