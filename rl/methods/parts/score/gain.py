"""What a turn told the policy, by how much it changes what the policy would say next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rl.methods.estimators import gains
from rl.methods.options import NonNegative
from rl.methods.parts.score.scorer import Branch, Scorer
from rl.records import Group, Trajectory


async def answer_gain(scorer: Scorer, groups: Sequence[Group], *, lead: str = "", log: bool = False) -> None:
    """Fill the stream `gain` as IGPO does (arXiv:2510.14967): how much likelier a turn made the true answer.

    The answer of `info["answer"]` (the first of several) is tried as the policy's next reply before the first turn and
    after each, behind the words `lead`, such as `"The answer is "`. A gain is the difference of
    `exp(mean log-probability of its tokens)`, with `log` of the mean itself. What follows the last turn is not seen by
    the policy: its gain is 0, as it is without an answer.
    """
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    trunks, branches = list[list[int]](), list[Branch]()
    for trajectory in trajectories:
        said = scorer.reply(lead) if lead else ()
        ids = scorer.reply(lead + text) if (text := answer_text(trajectory.answer)) else ()
        known = next((i for i, (a, b) in enumerate(zip(ids, said, strict=False)) if a != b), min(len(ids), len(said)))
        for history, places in _laid_out(trajectory):
            branches += [Branch(len(trunks), place.reply, ids, len(ids) - known) for place in places]
            trunks.append(history[: places[-1].reply])
    found = iter(scorer.continuations(trunks, branches))
    for trajectory in trajectories:
        means = np.array([np.mean(logprobs) if (logprobs := next(found)) else 0.0 for _ in trajectory.turns])
        gained = gains.answer_gain(means if log else np.exp(means))
        _pay(trajectory, gained.tolist())


async def feedback_gain(
    scorer: Scorer, groups: Sequence[Group], *, instead: str = "no information", below: NonNegative = 0.25
) -> None:
    """Fill the stream `gain` as InfoPO does (arXiv:2603.00656): how much a turn's feedback changed the next reply.

    The mean log-probability of the next reply's tokens after what was said, less that after `instead` in its place,
    repeated or cut to the same length. Nothing follows the last turn: its gain is 0, as it is where a template rewrote
    the history. Groups whose rewards deviate by `below` or more are not asked about, and have gains of 0: at 0.25, the
    gate of `gated_gain` would leave less than a hundredth of theirs.
    """
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    tied = [_is_tied(group, below) for group in groups for _ in group.trajectories]
    trunks, branches, asked = list[list[int]](), list[Branch](), list[list[bool]]()
    for trajectory, is_tied in zip(trajectories, tied, strict=True):
        told = iter(trajectory.turns)
        asked.append([])
        for history, places in _laid_out(trajectory):
            for place in places:
                turn = next(told)
                hidden = scorer.unsaid(turn, instead) if place.context and is_tied else None
                asked[-1].append(hidden is not None)
                if hidden is not None:
                    count = len(turn.completion.ids)
                    for context in (turn.context, hidden):
                        ids = (*context, *turn.completion.ids)
                        branches.append(Branch(len(trunks), place.context, ids, count))
            trunks.append(history)
    found = iter(scorer.continuations(trunks, branches))
    for trajectory, known in zip(trajectories, asked, strict=True):
        gained = [
            gains.feedback_gain(np.array(next(found)), np.array(next(found))) if is_known else 0.0 for is_known in known
        ]
        _pay(trajectory, gained[1:])


answer_gain.needs = ("answer",)  # type: ignore[attr-defined]


def answer_text(answer: Any) -> str:
    """What `answer_gain` takes for the answer of a task: itself or the first of several, as text; "" for none."""
    if isinstance(answer, (list, tuple)):
        return answer_text(answer[0]) if answer else ""
    return str(answer) if isinstance(answer, (str, int, float)) else ""


def _is_tied(group: Group, below: float) -> bool:
    """Whether the members' rewards deviate by less than that; for one alone the gate takes 1."""
    return (float(np.std(group.rewards, ddof=1)) if len(group.rewards) > 1 else 1.0) < below


class _Place(NamedTuple):
    """Where a turn stands in its history: its context begins at `context`, its reply at `reply`."""

    context: int
    reply: int


def _laid_out(trajectory: Trajectory) -> Iterator[tuple[list[int], list[_Place]]]:
    """Every unbroken history with the places of its turns."""
    turns = iter(trajectory.turns)
    for history in trajectory.sequences():
        places, end = list[_Place](), 0
        while end < len(history.ids):
            turn = next(turns)
            places.append(_Place(end, end + len(turn.context)))
            end = places[-1].reply + len(turn.completion.ids)
        yield history.ids, places


def _pay(trajectory: Trajectory, gained: Sequence[float]) -> None:
    """Write one gain per turn but the last, which has 0, onto the turn's last token."""
    for turn, number in zip(trajectory.turns, (*gained, 0.0), strict=True):
        turn.streams["gain"] = (*(0.0 for _ in turn.completion.ids[1:]), number)
