"""The rule for errors: which exceptions end an attempt at an episode, how often it is retried, what becomes of it.

- Every `Exception` that is raised while an attempt is played ends it with `Stop.ERROR`. It may come from the
  environment (also as `info["stop"] = "error"`), its constructor, the agent, the policy, or a deadline (`StepTimeout`,
  `Overrun`, `TimeoutError`). The attempt keeps its turns, and `error` says "TYPE: text". The environment is closed and
  never played again. Only `CutOff` after the first turn is no error: it truncates the episode.
- A `BaseException` that is no `Exception`, such as cancellation or `KeyboardInterrupt`, is raised to the caller.
- An errored attempt is repeated at once, up to `Runner.retries` times (3 by default), in another environment. Other
  members of the group are neither cancelled nor delayed.
- Errored attempts are never scored: they stand in `Group.errored`, outside every baseline, loss and metric but the
  counts of errors. A member whose attempts all failed is missing from `Group.trajectories`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from envs.types import Stop
from rl.records import Group, Ticket, Trajectory

Attempt = Callable[[Trajectory | None], Awaitable[Trajectory]]


async def retry(play: Attempt, retries: int) -> list[Trajectory]:
    """Play a member until an attempt ends without an error, at most `1 + retries` times; return all attempts in order.

    `play` receives the previous attempt, which has failed, or None at first. All returned attempts but the last have
    failed.
    """
    attempts: list[Trajectory] = []
    for _ in range(1 + retries):
        attempts.append(await play(attempts[-1] if attempts else None))
        if attempts[-1].stop != Stop.ERROR:
            break
    return attempts


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


def set_error(trajectory: Trajectory, error: Exception) -> None:
    """Mark an attempt as ended by `error`: its `stop` becomes `Stop.ERROR`, its `error` "TYPE: text"."""
    trajectory.stop, trajectory.error = Stop.ERROR, f"{type(error).__name__}: {error}"
