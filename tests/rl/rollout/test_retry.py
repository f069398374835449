"""How often an errored member is played again, and where its attempts end up."""

import asyncio

import pytest

from envs.types import Stop
from rl.records import Trajectory
from rl.rollout.retry import group_of, retry, set_error
from tests.support.episodes import make_ticket


@pytest.mark.parametrize("num_errors, retries, num_attempts", [(0, 3, 1), (2, 3, 3), (3, 3, 4), (9, 3, 4), (9, 0, 1)])
def test_a_member_is_played_until_an_attempt_ends_without_an_error(num_errors, retries, num_attempts):
    previous = []

    async def play(attempt):
        previous.append(attempt)
        return Trajectory([], Stop.ERROR if len(previous) <= num_errors else Stop.TERMINATED)

    attempts = asyncio.run(retry(play, retries))
    assert len(attempts) == num_attempts
    assert [attempt.stop for attempt in attempts[:-1]] == [Stop.ERROR] * (num_attempts - 1)
    assert all(given is attempt for given, attempt in zip(previous, [None, *attempts], strict=False))


def test_what_is_no_exception_of_a_member_is_raised():
    async def play(previous):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(retry(play, 3))


def test_errored_attempts_stand_apart_from_those_that_are_scored():
    errored, sound, last = Trajectory([], Stop.TERMINATED), Trajectory([], Stop.TURN_LIMIT), Trajectory([], Stop.ERROR)
    set_error(errored, OSError("no disk"))
    assert (errored.stop, errored.error) == (Stop.ERROR, "OSError: no disk")
    group = group_of(make_ticket(size=2), [[errored, sound], [last]])
    assert [id(t) for t in group.trajectories] == [id(sound)]
    assert [id(t) for t in group.errored] == [id(errored), id(last)]
    assert group.rewards == [0]
