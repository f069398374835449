"""The rule for errors: which exceptions end an attempt at an episode, how often it is retried, what becomes of it.

- Every `Exception` that is raised while an attempt is played ends it with `Stop.ERROR`. It may come from the
  environment (also as `info["stop"] = "error"`, or as an exit, see `envs.exits`), its constructor, the agent, the
  policy, or a deadline (`Overrun`, `TimeoutError`). The attempt keeps its turns, and `error` says
  "TYPE: text". The environment is closed and never played again. Only `CutOff` after the first turn is no error: it
  truncates the episode.
- A `BaseException` from elsewhere, such as cancellation or `KeyboardInterrupt`, is raised to the caller.
- An errored attempt is repeated at once, up to `Runner.retries` times (3 by default), in another environment. Other
  members of the group are neither cancelled nor delayed. The next attempt gives the replies that the environment has
  answered again, and the one that it has not, if there is one, and goes on from there. Where sampling fails, that reply
  is drawn with a new seed; where the environment answers otherwise than the first time, all replies are.
- Errored attempts are never scored: they stand in `Group.errored`, outside every baseline, loss and metric but the
  counts of errors. A member whose attempts all failed is missing from `Group.trajectories`.
- **A fault that the same replies cause again is the policy's.** If an environment fails at a reply, a control plays the
  task in a new environment without the policy: with the oracle's replies, or, without an oracle, with replies that do
  nothing and with random ones, some of them behind the policy's earlier ones (`faults.works_without_policy`). If that
  works, and the recorded replies make another new environment fail at the same reply, the episode ends there with
  `Stop.POLICY_FAULT`. It is scored as a failure: 0 for that reply, no success, in every baseline and loss. The same
  holds if every attempt fails with the same replies without getting further than the first.
- An episode of several seats is one attempt: an error ends it for all seats, and all of them are played again. The
  suspects of a fault are the seats that replied in the round that the environment failed to play. If the policy is to
  blame, the episode ends there for every seat, as a failure.
- So a fault is never the policy's if it does not happen again (the episode goes on, nothing is sampled anew), if the
  task fails whatever the reply is, or if the environment does not answer equal replies equally. Neither is one of
  `faults.INFRASTRUCTURE`, or one outside the time between a reply and the next prompt: in a constructor, in `reset`, in
  sampling. With `retries=0` nothing is tried, and a fault stays an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import cast

from envs.types import Stop
from rl.records import Group, Ticket, Trajectory
from rl.rollout import faults
from rl.rollout.faults import Match
from rl.rollout.runner import Runner
from rl.rollout.seat import Start

Attempt = Callable[[Sequence[Trajectory]], Awaitable[Trajectory]]
MatchAttempt = Callable[[Sequence[Match]], Awaitable[Match]]


async def retry(play: Attempt, runner: Runner, ticket: Ticket, member: int) -> list[Trajectory]:
    """Play a member of an environment of one agent until an attempt ends without an error; see `retry_seats`.

    `play` receives all attempts before it, which have failed. Returns all attempts in order.
    """

    async def play_match(failures: Sequence[Match]) -> Match:
        return [await play([failure for (failure,) in failures])]

    return [trajectory for (trajectory,) in await retry_seats(play_match, runner, ticket, member)]


async def retry_seats(play: MatchAttempt, runner: Runner, ticket: Ticket, member: int) -> list[Match]:
    """Play a member until an attempt ends without an error, at most `1 + runner.retries` times.

    `play` receives all attempts before it, which have failed; those of an interrupted run are among them
    (`PlayState.failures`). An attempt is a list of trajectories, one for each of the runner's seats. Returns all
    attempts in order. All but the last have failed; those whose fault is the policy's are left out, so that it counts
    as no error.
    """
    state, sessions = runner.play_state, [ticket.session(member, seat) for seat in runner.seats]
    failures_by_seat = [state.failures(session) for session in sessions]
    failures: list[Match] = [list(match) for match in zip(*failures_by_seat, strict=True)]
    results = [state.result(session) for session in sessions]
    if all(results):
        return [*failures, cast(Match, results)]
    is_sound = True  # as far as is known, the task can be played
    while len(failures) <= runner.retries:
        if failures and faults.has_suspect(failures[-1]) and is_sound:
            is_sound = await faults.works_without_policy(runner, ticket, failures[-1])
        attempt = await play(list(failures))
        if all(trajectory.stop != Stop.ERROR for trajectory in attempt):
            return [*failures, attempt]
        if is_sound and (repetitions := faults.same_faults(failures, attempt, runner.retries)):
            faults.blame_policy(attempt)
            failures = [failure for failure in failures if all(failure is not other for other in repetitions)]
            for session, trajectory in zip(sessions, attempt, strict=True):
                state.finish(session, trajectory)
            _store(failures, failures_by_seat)
            return [*failures, attempt]
        failures.append(attempt)
        _store(failures, failures_by_seat)
    return failures


def _store(failures: Sequence[Match], failures_by_seat: Sequence[list[Trajectory]]) -> None:
    """Put the failures into the lists that a checkpoint holds."""
    for seat, of_seat in enumerate(failures_by_seat):
        of_seat[:] = [failure[seat] for failure in failures]


def next_start(first: Start, failures: Iterable[Trajectory]) -> Start:
    """Return how the attempt after `failures` begins; `first` is how the first one did."""
    start = first
    for failure in failures:
        is_diverged = failure.redraw and len(failure.turns) < len(start.turns) + (start.reply is not None)
        if failure.fault is not None and len(failure.turns) >= len(start.turns):
            turns, fault = failure.turns, failure.fault
            start = replace(start, turns=turns, context=fault.context, reply=fault.completion, snapshot=None)
        elif is_diverged:
            start = replace(first, draw=start.draw)
        elif len(failure.turns) > len(start.turns):
            # Forks of this member may rest upon turns that it played in the failed attempt.
            start = replace(start, turns=failure.turns, context=None, reply=None, snapshot=None)
        start = replace(start, draw=start.draw + failure.redraw)
    return start


def group_of(ticket: Ticket, attempts: Iterable[Iterable[Trajectory]]) -> Group:
    """Return the group of all attempts, listed by member: those to be scored, and the errored ones apart.

    `attempts` holds the attempts of each member in order, as `retry` returns them.
    """
    trajectories = [trajectory for of_member in attempts for trajectory in of_member]
    return Group(
        ticket=ticket,
        trajectories=[trajectory for trajectory in trajectories if trajectory.stop != Stop.ERROR],
        errored=[trajectory for trajectory in trajectories if trajectory.stop == Stop.ERROR],
    )


def groups_by_seat(runner: Runner, ticket: Ticket, attempts: Sequence[Sequence[Match]]) -> list[Group]:
    """Return a group for each of the runner's seats: the attempts of all members, as `group_of` sorts them.

    `attempts` holds the attempts of each member in order, as `retry_seats` returns them. A trajectory without turns, of
    a seat that was never asked, is left out unless `runner.keeps_unasked`, and so is a seat without any trajectory,
    unless no seat has one. There is no group of an opponent's seat; its trajectories are in `others` of the first one.
    """
    groups: list[Group] = []
    others: list[Trajectory] = []
    keeps_all = runner.keeps_unasked
    for seat, name in enumerate(runner.seats):
        if runner.player(ticket, name).is_opponent:
            played = [match[seat] for of_member in attempts for match in of_member]
            others += [t for t in played if (t.turns or keeps_all) and t.stop != Stop.ERROR]
            continue
        is_several = name != "agent"
        of_seat = [[match[seat] for match in of_member] for of_member in attempts]
        if is_several:
            of_seat = [[t for t in tries if t.turns or keeps_all or t.stop == Stop.ERROR] for tries in of_seat]
        groups.append(group_of(ticket, of_seat))
    groups = [group for group in groups if group.trajectories or group.errored] or groups[:1]
    groups[0].others = others
    return groups
