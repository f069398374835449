"""How often an errored member is played again, and where its attempts end up."""

import asyncio

import pytest

from envs.types import Stop
from rl.records import Completion, Fork, Trajectory, Turn
from rl.rollout.faults import set_error
from rl.rollout.retry import group_of, next_start, retry
from rl.rollout.seat import Start
from tests.support.episodes import make_runner, make_ticket


@pytest.mark.parametrize("num_errors, retries, num_attempts", [(0, 3, 1), (2, 3, 3), (3, 3, 4), (9, 3, 4), (9, 0, 1)])
def test_a_member_is_played_until_an_attempt_ends_without_an_error(num_errors, retries, num_attempts):
    calls = []

    async def play(failures):
        calls.append(list(failures))
        return Trajectory([], Stop.ERROR if len(calls) <= num_errors else Stop.TERMINATED)

    attempts = asyncio.run(retry(play, make_runner(retries=retries), make_ticket(), 0))
    assert len(attempts) == num_attempts
    assert [attempt.stop for attempt in attempts[:-1]] == [Stop.ERROR] * (num_attempts - 1)
    assert calls == [attempts[:number] for number in range(num_attempts)]


def test_an_interrupted_member_goes_on_with_the_attempt_that_was_interrupted():
    failures, num_calls = [Trajectory([], Stop.ERROR, error=f"OSError: {n}") for n in range(3)], 0

    async def play(earlier):
        nonlocal num_calls
        num_calls += 1
        return Trajectory([], Stop.ERROR, error=f"OSError: {len(earlier)}")

    runner = make_runner(state={"failed": {"0/0": failures[:2]}})
    attempts = asyncio.run(retry(play, runner, make_ticket(), 0))
    assert [attempt.error for attempt in attempts] == [f"OSError: {n}" for n in range(4)]
    assert num_calls == 2
    assert runner.play_state.state_dict()["failed"] == {"0/0": attempts}
    runner.play_state.close_group(make_ticket())
    assert runner.play_state.state_dict()["failed"] == {}


def errored(turns, *, fault=None, redraw=False):
    return Trajectory(turns, Stop.ERROR, fault=fault, redraw=redraw)


def turn_of(letter):
    return Turn((ord(letter),), Completion((ord(letter),), (-1.0,), (-1.0,), (0,)))


A, B, C, D = map(turn_of, "abcd")
FORK = Start([A], Fork(1, 1), context=(9,))


@pytest.mark.parametrize(
    "first, failures, expected",
    [
        (Start(), [], Start()),
        # Sampling failed: what was answered is kept, the reply is drawn anew.
        (Start(), [errored([], redraw=True)], Start(draw=1)),
        (Start(), [errored([A], redraw=True)], Start([A], draw=1)),
        (Start(), [errored([A], redraw=True)] * 2, Start([A], draw=2)),
        # The constructor or the reset failed: nothing was sampled.
        (Start(), [errored([])], Start()),
        (FORK, [errored([])], FORK),
        # The environment failed at a reply: it is given again.
        (Start(), [errored([A], fault=B)], Start([A], context=B.context, reply=B.completion)),
        (
            Start(),
            [errored([A], fault=B), errored([]), errored([], fault=A)],
            Start([A], context=B.context, reply=B.completion),
        ),
        (
            Start(),
            [errored([A], fault=B), errored([A, B, C], fault=D)],
            Start([A, B, C], context=D.context, reply=D.completion),
        ),
        (FORK, [errored([A], fault=B)], Start([A], Fork(1, 1), B.context, reply=B.completion)),
        # The replay diverged, in a turn or in the prompt of the reply: everything is drawn anew.
        (Start(), [errored([A], fault=B), errored([], redraw=True)], Start(draw=1)),
        (Start(), [errored([A], fault=B), errored([A], redraw=True)], Start(draw=1)),
        (FORK, [errored([A, B], redraw=True), errored([A], redraw=True)], Start([A], Fork(1, 1), (9,), draw=2)),
    ],
)
def test_the_next_attempt_begins_with_what_need_not_be_sampled_anew(first, failures, expected):
    assert next_start(first, failures) == expected


def test_what_is_no_exception_of_a_member_is_raised():
    async def play(previous):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(retry(play, make_runner(), make_ticket(), 0))


def test_errored_attempts_stand_apart_from_those_that_are_scored():
    errored, sound, last = Trajectory([], Stop.TERMINATED), Trajectory([], Stop.TURN_LIMIT), Trajectory([], Stop.ERROR)
    set_error(errored, OSError("no disk"))
    assert (errored.stop, errored.error) == (Stop.ERROR, "OSError: no disk")
    group = group_of(make_ticket(size=2), [[errored, sound], [last]])
    assert [id(t) for t in group.trajectories] == [id(sound)]
    assert [id(t) for t in group.errored] == [id(errored), id(last)]
    assert group.rewards == [0]
