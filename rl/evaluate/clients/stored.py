"""Files of stored completions: `rollouts/update-*.jsonl` of a run, or lines that name a task and its completions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.spaces import message_fault
from envs.types import Message, Stop, assistant
from rl.evaluate.clients.client import Said

FORMS = ("turns", "messages", "completion", "completions")
Numbered = dict[tuple[int, int], "Sample"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One stored episode: its replies, turn by turn, and the environment's seed and the end where they were stored."""

    replies: list[Said]
    seed: int | None = None
    stop: str = ""


def read(path: str | Path) -> dict[str, list[Sample]]:
    """The samples of each task, in the order of their numbers.

    A line names its `task` (or `task_id`) and holds one sample as `turns` (a run's own format), `messages` (of which
    those of the assistant count) or `completion` (a reply, or a list of one per turn), numbered by `sample`, else by
    `group` and `member`, else in the order of lines. `completions` are several samples; where `sample` numbers the
    line they are the turns of that one. A reply is a text or an assistant message. Errored episodes are left out.
    Raises `OSError`, or `ValueError` with the number of a line that cannot be read.
    """
    found: dict[str, Numbered] = {}
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                _take(json.loads(line), found)
            except json.JSONDecodeError:
                raise ValueError(f"{path}:{number}: not JSON") from None
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    samples = {task: [own[key] for key in sorted(own)] for task, own in found.items() if own}
    if not samples:
        raise ValueError(f"{path}: no completions")
    return samples


def _take(row: Any, found: dict[str, Numbered]) -> None:
    """Add what one line holds."""
    if not isinstance(row, dict):
        raise ValueError("not an object")
    task = row.get("task", row.get("task_id"))
    if not isinstance(task, str | int) or task == "":
        raise ValueError("no 'task'")
    if row.get("stop") == Stop.ERROR:
        return
    own = found.setdefault(str(task), {})
    group, number = _number(row, len(own))
    for place, sample in enumerate(_samples(row), number):
        if (group, place) in own:
            raise ValueError(f"task {task!r} has two samples numbered {place}")
        own[group, place] = sample


def _number(row: Mapping[str, Any], following: int) -> tuple[int, int]:
    if "sample" in row:
        key = (0, row["sample"])
    elif "member" in row:
        key = (row.get("group", 0), row["member"])
    else:
        key = (0, following)
    for number in key:
        if type(number) is not int or number < 0:
            raise ValueError(f"sample {number!r} is not a whole number from 0")
    return key


def _samples(row: Mapping[str, Any]) -> Iterator[Sample]:
    """The episodes of a line."""
    form = next((form for form in FORMS if form in row), None)
    if form is None:
        raise ValueError(f"holds none of {', '.join(map(repr, FORMS))}")
    value, stop = row[form], str(row.get("stop") or "")
    if form != "completion" and not isinstance(value, list):
        raise ValueError(f"{form!r} is no list")
    if form == "turns":
        yield Sample([_turn(turn) for turn in value], row["seed"] if type(row.get("seed")) is int else None, stop)
    elif form == "messages":
        said = [message for message in value if not (isinstance(message, dict) and message.get("role") != "assistant")]
        yield Sample(_replies(said), None, stop)
    elif form == "completion" or "sample" in row:
        yield Sample(_replies(value), None, stop)
    else:
        yield from (Sample(_replies(one), None, stop) for one in value)


def _replies(value: Any) -> list[Said]:
    """One reply, or a list of one per turn."""
    return [Said(_message(reply)) for reply in (value if isinstance(value, list) else [value])]


def _turn(turn: Any) -> Said:
    """A turn as runs store it, with the number of its tokens."""
    if not isinstance(turn, dict) or "reply" not in turn:
        raise ValueError("a turn without 'reply'")
    ids: Sequence[int] = turn.get("ids") or ()
    return Said(_message(turn["reply"]), "length" if turn.get("finish") == "length" else "stop", len(ids))


def _message(value: Any) -> Message:
    if isinstance(value, str):
        return assistant(value)
    fault = message_fault(value)
    if fault or value["role"] != "assistant":
        raise ValueError(f"not a reply: {fault or 'role ' + repr(value['role'])}")
    return value
