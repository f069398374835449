"""The information that turns gave the policy, measured by how they change what it would reply next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rl.methods.estimators import gains
from rl.methods.options import NonNegative, PartError
from rl.methods.parts import needs
from rl.methods.parts.score.scorer import Branch, Scorer
from rl.records import Group, Trajectory


@needs("answer")
async def answer_gain(scorer: Scorer, groups: Sequence[Group], *, lead: str = "", log: bool = False) -> None:
    """Fill the stream `gain` as IGPO does (arXiv:2510.14967): how much likelier a turn made the true answer.

    The answer of `info["answer"]` (the first of several) is scored as the policy's next reply before the first turn and
    after each, behind the text `lead`, such as `"The answer is "`. A gain is the difference of
    `exp(mean log-probability of its tokens)`, with `log` of the mean itself. The policy does not see what follows the
    last turn: its gain is 0, as are all gains without an answer.
    """
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    trunks, branches = list[list[int]](), list[Branch]()
    lead_ids = scorer.encode_reply(lead) if lead else ()
    for trajectory in trajectories:
        ids = scorer.encode_reply(lead + text) if (text := answer_text(trajectory.answer)) else ()
        num_scored = len(ids) - _common_prefix(ids, lead_ids)
        for history, places in _layout(trajectory):
            branches += [Branch(len(trunks), place.reply, ids, num_scored) for place in places]
            trunks.append(history[: places[-1].reply])
    results = iter(scorer.continuations(trunks, branches))
    for trajectory in trajectories:
        means = np.array([np.mean(logprobs) if (logprobs := next(results)) else 0.0 for _ in trajectory.turns])
        gain = gains.answer_gain(means if log else np.exp(means))
        _write_gains(trajectory, gain.tolist())


async def feedback_gain(
    scorer: Scorer, groups: Sequence[Group], *, instead: str = "no information", below: NonNegative = 0.25
) -> None:
    """Fill the stream `gain` as InfoPO does (arXiv:2603.00656): how much a turn's feedback changed the next reply.

    The mean log-probability of the next reply's tokens after the real feedback, less that after the placeholder
    `instead`, repeated or cut to the same length. Nothing follows the last turn: its gain is 0, as it is where a chat
    template rewrote the history. Groups whose rewards deviate by `below` or more are not scored, and have gains of 0:
    at 0.25, the gate of `gated_gain` would leave less than a hundredth of theirs.
    """
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    in_tied_group = [_is_tied(group, below) for group in groups for _ in group.trajectories]
    trunks, branches, is_scored = list[list[int]](), list[Branch](), list[list[bool]]()
    for trajectory, is_tied in zip(trajectories, in_tied_group, strict=True):
        turns = iter(trajectory.turns)
        is_scored.append([])
        for history, places in _layout(trajectory):
            for place in places:
                turn = next(turns)
                placeholder = scorer.hide_feedback(turn, instead) if place.context and is_tied else None
                is_scored[-1].append(placeholder is not None)
                if placeholder is not None:
                    count = len(turn.completion.ids)
                    for context in (turn.context, placeholder):
                        ids = (*context, *turn.completion.ids)
                        branches.append(Branch(len(trunks), place.context, ids, count))
            trunks.append(history)
    results = iter(scorer.continuations(trunks, branches))
    for trajectory, flags in zip(trajectories, is_scored, strict=True):
        pairs = [(np.array(next(results)), np.array(next(results))) if flag else None for flag in flags]
        _write_gains(trajectory, [gains.feedback_gain(*pair) if pair else 0.0 for pair in pairs[1:]])


def answer_text(answer: Any) -> str:
    """The text that `answer_gain` scores for a task's answer: itself, or the first of several; "" for none."""
    if isinstance(answer, (list, tuple)):
        return answer_text(answer[0]) if answer else ""
    return str(answer) if isinstance(answer, (str, int, float)) else ""


def _common_prefix(ids: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    return next((i for i, (a, b) in enumerate(zip(ids, other, strict=False)) if a != b), min(len(ids), len(other)))


def _is_tied(group: Group, below: float) -> bool:
    """Whether the members' rewards deviate by less than `below`; the gate takes 1 for a single member."""
    return (float(np.std(group.rewards, ddof=1)) if len(group.rewards) > 1 else 1.0) < below


class _Place(NamedTuple):
    """Positions in its history at which a turn's context and its reply begin."""

    context: int
    reply: int


def _layout(trajectory: Trajectory) -> Iterator[tuple[list[int], list[_Place]]]:
    """Yield the token ids of every unbroken history, with the places of its turns."""
    turns = iter(trajectory.turns)
    for history in trajectory.sequences():
        if history.images:
            raise PartError("--score: gains are not computed for histories with images; leave the part out")
        places, end = list[_Place](), 0
        while end < len(history.ids):
            turn = next(turns)
            places.append(_Place(end, end + len(turn.context)))
            end = places[-1].reply + len(turn.completion.ids)
        yield history.ids, places


def _write_gains(trajectory: Trajectory, values: Sequence[float]) -> None:
    """Write one gain per turn onto the turn's last token; `values` has one for each turn but the last, which has 0."""
    for turn, number in zip(trajectory.turns, (*values, 0.0), strict=True):
        turn.streams["gain"] = (*(0.0 for _ in turn.completion.ids[1:]), number)
