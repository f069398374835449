"""Reports of evaluations whose episodes are written down by hand."""

from __future__ import annotations

from collections.abc import Sequence

from envs.types import Message, Stop, assistant
from rl.evaluate.report import Report
from rl.records import Completion, Group, Ticket, Trajectory, Turn


def turn(reply: Message | None = None, reward: float = 0.0, tokens: int = 3, **metrics: float) -> Turn:
    completion = Completion(
        ids=(7,) * tokens, logprobs=(0.0,) * tokens, model_logprobs=(0.0,) * tokens, versions=(0,) * tokens
    )
    return Turn(context=(1,), completion=completion, reply=reply, reward=reward, metrics=metrics)


def play(task: str, success: bool, *, member: int = 0, turns: int = 1, answer: str | None = None) -> Trajectory:
    """An episode with reward 1 in its last turn on success; by default the answer is `right` or `wrong`."""
    reply = assistant(answer if answer is not None else "right" if success else "wrong")
    turn_records = [turn() for _ in range(turns - 1)] + [turn(reply, reward=float(success), strict=float(success))]
    return Trajectory(turn_records, Stop.TERMINATED, success=success, task=task, member=member)


def group(number: int, outcomes: Sequence[bool | None]) -> Group:
    """A group with one episode per outcome; None is an errored one."""
    task = f"test/{number}"
    trajectories = [play(task, success, member=m) for m, success in enumerate(outcomes) if success is not None]
    failures = [
        Trajectory([turn()], Stop.ERROR, task=task, member=m) for m, success in enumerate(outcomes) if success is None
    ]
    return Group(Ticket(number, number, "test", seed=0, size=len(outcomes)), trajectories, failures)


def report(*tasks: Sequence[bool | None], policy: str = "random", seed: int = 0) -> Report:
    groups = [group(number, outcomes) for number, outcomes in enumerate(tasks)]
    return Report.from_groups(groups, env="games/Guess-v0", policy=policy, seed=seed)


Y, N, E = True, False, None
