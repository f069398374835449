"""Groups that read the same task in different words, and are rewarded for answering alike."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np

from envs.types import Message, Messages
from rl import checksums
from rl.cli import one_line
from rl.methods.estimators import similarity
from rl.methods.options import Count, FilePath, NonNegative, PartError
from rl.methods.parts.strategy.expert import Step, WrappingRunner
from rl.methods.parts.strategy.independent import independent, play_members
from rl.methods.votes import final_reply
from rl.records import Group, Ticket
from rl.rollout.retry import groups_by_seat
from rl.rollout.runner import Runner

TASK = "{task}"
WORDINGS = (
    TASK,
    "Here is a task for you.\n\n{task}",
    "{task}\n\nThis is all that is asked of you.",
    "Please do what follows.\n{task}",
    "Read this with care, and then answer.\n\n{task}",
    "{task}\nTake your time.",
)


async def paraphrased(
    runner: Runner, ticket: Ticket, *, wordings: Count = 2, accuracy: NonNegative = 1.0, file: FilePath = ""
) -> list[Group]:
    """PS-GRPO (2025): a group for each of several `wordings` of a task, whose members earn by agreeing with the others.

    The `ticket.size` members are shared out among the wordings. A member's reward is the mean BLEU of its last reply
    against those of all members that read other words, and `accuracy` times what the environment pays. Agreement by
    itself also rewards replies that say nothing. A wording is a template of the last message before the first reply,
    with `{task}` for its text: some of ours, or the lines of `file`, in which a backslash and an `n` stand for a line
    break. A group of one reads the task as it is.
    """
    if ticket.size < 2:
        return await independent(runner, ticket)
    templates = _templates(file)
    count = min(int(wordings), ticket.size)
    if not 2 <= count <= len(templates):
        raise PartError(
            f"--strategy paraphrased: {count} wordings of a task for {ticket.size} members, with {len(templates)} to "
            "choose from; take at least 2, and a --size of at least as many"
        )
    groups: list[Group] = []
    for number in range(count):
        rewording = WrappingRunner(runner, lambda env, template=templates[number]: _RewordedEnv(env, template))  # type: ignore[misc]
        attempts = await play_members(rewording, ticket, range(number, ticket.size, count))
        groups += groups_by_seat(runner, ticket, attempts)
    members = [(place, member) for place, group in enumerate(groups) for member in group.trajectories]
    labels = np.array([place for place, _ in members], dtype=np.int64)
    if len(set(labels.tolist())) < 2:  # the members of all other wordings have failed
        return groups
    texts = [final_reply(member) or "" for _, member in members]
    alike = np.array([[similarity.bleu(text, other) for other in texts] for text in texts])
    agreement = iter(similarity.consistency(alike, labels).tolist())
    for group in groups:
        group.rewards = [next(agreement) + accuracy * member.reward for member in group.trajectories]
    return groups


@lru_cache(maxsize=16)
def _templates(file: str) -> tuple[str, ...]:
    if not file:
        return WORDINGS
    try:
        lines = [line for line in checksums.read_text(Path(file)).splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise PartError(f"--strategy paraphrased: {one_line(error)}") from None
    for line in lines:
        if line.count(TASK) != 1:
            raise PartError(f"--strategy paraphrased: {file}: the line {line[:60]!r} must hold {TASK} once")
    return tuple(line.replace("\\n", "\n") for line in lines)


class _RewordedEnv(gymnasium.Wrapper):
    """An environment whose first observation ends with a message in other words."""

    def __init__(self, env: gymnasium.Env, template: str) -> None:
        super().__init__(env)
        self.template = template

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Begin an episode."""
        messages, info = self.env.reset(seed=seed, options=options)
        *first, last = messages
        content, (before, after) = last["content"], self.template.split(TASK)
        whole: Any = f"{before}{content}{after}"
        if not isinstance(content, str):
            parts = [{"type": "text", "text": text} for text in (before, after)]
            whole = [*parts[: bool(before)], *content, *parts[1 : 1 + bool(after)]]
        return (*first, cast(Message, {**last, "content": whole})), info

    def step(self, action: Message | str) -> Step:  # type: ignore[override]
        """Play one turn of the environment itself."""
        return self.env.step(action)
