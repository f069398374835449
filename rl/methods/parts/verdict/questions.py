"""What a judge is asked and how its reply is read; shared by all verdict parts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from math import isfinite
from numbers import Real
from typing import Any, Protocol

from envs.types import Message, Messages, final_text, text
from rl.records import Group, Trajectory, Turn

FLAWED, RATING = "judge/flawed", "judge/rating"  # metrics of turns
UNREAD, TOO_LONG = "judge/unread", "judge/too_long"  # why there is no verdict
_CONTROL = re.compile(r"<(?=[^\s\d=<]|0x)|\[(?=[A-Za-z|/])|\](?=~)")
_PARAGRAPHS = re.compile(r"\n[ \t]*\n\s*")


class TooLong(ValueError):
    """The question is too long for the judge."""


class Judge(Protocol):
    """A model that is asked about episodes. The same question has the same reply in all of a run."""

    async def ask(self, messages: Messages, *, max_tokens: int) -> str:
        """Return the text of its reply to `messages`, without its reasoning; "" where it gives none in time.

        The reply has at most `max_tokens` tokens. Raises `TooLong` if there is no room for a reply.
        """
        ...


def opening(trajectory: Trajectory) -> str:
    """Return the texts of the messages before the first reply: what the policy was asked to do."""
    return next(_replies_in_context(trajectory), ("", None))[0]


def right_answer(trajectory: Trajectory) -> str:
    """Return a paragraph with the right answer where the environment tells one that is a text or a number, else ""."""
    answer = trajectory.answer
    return f"The right answer: {as_data(answer)}\n\n" if isinstance(answer, (str, int, float)) else ""


def steps(trajectory: Trajectory) -> list[str]:
    """Return the steps of a solution: the replies of the episode or, of a single one, its paragraphs or lines.

    A single reply without a blank line is divided into lines. A tool call is part of its reply, as JSON.
    """
    replies = [_reply_text(turn.reply) for turn in trajectory.replies]
    if len(replies) != 1:
        return replies
    (reply,) = replies
    paragraphs = [part.strip() for part in _PARAGRAPHS.split(reply) if part.strip()]
    return paragraphs if len(paragraphs) > 1 else [line.strip() for line in reply.splitlines() if line.strip()] or [""]


def dialogue(trajectory: Trajectory) -> list[Mapping[str, Any]]:
    """Return the numbered steps of an episode and, between those of several replies, what the environment answered."""
    lines: list[Mapping[str, Any]] = [{"step": number, "text": each} for number, each in enumerate(steps(trajectory))]
    answers = [{"environment": answer} for answer, _ in list(_replies_in_context(trajectory))[1:]]
    pairs = zip_longest(lines, answers)
    return [line for pair in pairs for line in pair if line is not None]


def _replies_in_context(trajectory: Trajectory) -> Iterator[tuple[str, Turn]]:
    """Yield each reply with what the environment said before it, also before internal replies in between."""
    texts: list[str] = []
    for turn in trajectory.turns:
        texts += map(text, turn.observation)
        if not turn.internal:
            yield "\n\n".join(texts), turn
            texts = []


def as_data(value: Any) -> str:
    """Return a value as JSON, in which no text can look like the end of what it stands in.

    The entries of a list stand on lines of their own. The first character of what a server might take for a control
    token, such as `<|im_end|>` or `[INST]`, is written as an escape of JSON.
    """
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(as_data, value)) + "\n]"
    return without_control_tokens(json.dumps(value, ensure_ascii=False))


def without_control_tokens(data: str) -> str:
    """Return a text whose characters that may begin a control token are escaped as in JSON, without lone surrogates."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", data.encode("utf-8", "replace").decode())


def note(trajectory: Trajectory, numbers: Mapping[str, float], *, turn: int = -1) -> None:
    """Record numbers of a verdict with a reply of an episode, by default the last one.

    Of several verdicts on one reply, `judge/unread` and `judge/too_long` are the largest.
    """
    reply = trajectory.replies[turn]
    largest = {name: max(numbers[name], reply.metrics.get(name, 0.0)) for name in (UNREAD, TOO_LONG) if name in numbers}
    reply.metrics = {**reply.metrics, **numbers, **largest}


def wrong_verdict(group: Group) -> str:
    """Say which metric of a judge in a group is no finite number; "" if all are."""
    for turn in (turn for trajectory in group.trajectories for turn in trajectory.turns):
        for name, value in turn.metrics.items():
            if name.startswith("judge/") and not (isinstance(value, Real) and isfinite(value)):
                return f"wrote {name} = {value!r:.40}"
    return ""


def with_replies(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Return the trajectories that can be judged, those that a strategy has added from earlier groups among them."""
    return [one for one in trajectories if one.replies]


def _reply_text(reply: Message | None) -> str:
    if reply is None:
        return ""
    calls = [json.dumps(call["function"], ensure_ascii=False) for call in reply.get("tool_calls") or ()]
    return "\n".join(filter(None, (final_text(reply), *calls)))
