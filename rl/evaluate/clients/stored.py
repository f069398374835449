"""Reads files of stored completions: rollouts of a training run, or JSON lines with a task and its completions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envs.spaces import message_error
from envs.types import Message, Stop, assistant
from rl.evaluate.clients.client import ChatResponse
from rl.rollout.jsonl import read_file

FORMATS = ("turns", "messages", "completion", "completions")
TaskKey = str | tuple[str, int]  # the task's id; (split, index) of an episode that failed before it had one
SamplesByNumber = dict[tuple[int, int] | None, "Sample"]  # by (group, member)


@dataclass(frozen=True, slots=True)
class Sample:
    """One stored episode: the replies by turn, the environment's seed and the reason of its end, if stored.

    A failed one, whose `stop` is "error", has no replies, but its error and the line of the user's code that led to it.
    `number` is its (group, member), None for a failed one that the file does not number.
    """

    replies: list[ChatResponse]
    seed: int | None = None
    stop: str = ""
    error: str = ""
    error_line: str = ""
    number: tuple[int, int] | None = (0, 0)


def read_samples(path: str | Path) -> dict[TaskKey, list[Sample]]:
    """Return the samples of each task, in the order of their numbers.

    A file whose name ends with `.gz` is unpacked. A line is an object with a `task` (or `task_id`) and one of:

    - `turns`: one sample in the format of `rollouts/update-*.jsonl`;
    - `messages`: one sample as a dialogue, of which the assistant's messages are the replies;
    - `completion`: one sample as a reply, or as a list with one reply per turn;
    - `completions`: a list of such samples. If the line has a `sample`, the list is the turns of that sample instead.

    A reply is a string or an assistant message. Samples are numbered by `sample`, else by `group` and `member`, else
    in the order of the lines. A failed episode stands for its sample if no other line holds that one, and without a
    number for its task if no other line has that. One that failed before it had a task is under its (split, index).

    Raises:
        OSError: The file cannot be read.
        ValueError: A line cannot be read (the text names its number), the file has no completions, or it is damaged.
    """
    samples_by_task: dict[TaskKey, SamplesByNumber] = {}
    content, fault = read_file(Path(path))
    if fault:
        raise ValueError(f"{Path(path).parent}: {fault}; copy the file elsewhere to use it as it is")
    for number, line in enumerate(content.decode("utf-8", "surrogateescape").split("\n"), 1):
        if not line.strip():
            continue
        try:
            _add_row(json.loads(line), samples_by_task)
        except (json.JSONDecodeError, RecursionError):
            raise ValueError(f"{path}:{number}: not JSON") from None
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
    samples = {task: in_order(own.values()) for task, own in samples_by_task.items() if own}
    if all(sample.stop == Stop.ERROR for own in samples.values() for sample in own):
        raise ValueError(f"{path}: no completions")
    return samples


def in_order(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples of a task by their numbers, or the last one without a number if no other has one.

    Of several with the same number, the last one counts that is no failure, or else the last one.
    """
    by_number: SamplesByNumber = {}
    for sample in sorted(samples, key=lambda sample: sample.stop != Stop.ERROR):
        by_number[sample.number] = sample
    numbers = sorted(number for number in by_number if number is not None)
    return [by_number[number] for number in numbers] or [by_number[None]]


def _add_row(row: Any, samples_by_task: dict[TaskKey, SamplesByNumber]) -> None:
    """Add the samples of one line to `samples_by_task`."""
    if not isinstance(row, dict):
        raise ValueError("not an object")
    task, is_failed = row.get("task", row.get("task_id")), row.get("stop") == Stop.ERROR
    split, index = row.get("split"), row.get("index")
    key: TaskKey = str(task)
    if task == "" and is_failed and isinstance(split, str) and type(index) is int:
        key = split, index
    elif not isinstance(task, str | int) or task == "":
        raise ValueError("no 'task'")
    own = samples_by_task.setdefault(key, {})
    number = _sample_number(row, is_failed=is_failed)
    if is_failed:
        error, line = (str(row.get(name) or "") for name in ("error", "error_line"))
        if number not in own or own[number].stop == Stop.ERROR:
            own[number] = Sample([], _seed(row), Stop.ERROR, error, line, number)
        return
    group, first_member = number or (0, len(own.keys() - {None}))
    for member, sample in enumerate(_parse_samples(row), first_member):
        if (group, member) in own and own[group, member].stop != Stop.ERROR:
            raise ValueError(f"task {task!r} has two samples numbered {member}")
        own[group, member] = replace(sample, number=(group, member))


def _sample_number(row: Mapping[str, Any], *, is_failed: bool) -> tuple[int, int] | None:
    """The number of a line's first sample as (group, member); None without one, for a failed episode also if null."""
    if "sample" in row:
        key = (0, row["sample"])
    elif "member" in row:
        key = (row.get("group", 0), row["member"])
    else:
        return None
    if is_failed and None in key:
        return None
    for number in key:
        if type(number) is not int or number < 0:
            raise ValueError(f"sample {number!r} is not a whole number from 0")
    return key


def _seed(row: Mapping[str, Any]) -> int | None:
    return row["seed"] if type(row.get("seed")) is int else None


def _parse_samples(row: Mapping[str, Any]) -> Iterator[Sample]:
    """The samples of one line."""
    form = next((form for form in FORMATS if form in row), None)
    if form is None:
        raise ValueError(f"holds none of {', '.join(map(repr, FORMATS))}")
    value, stop = row[form], str(row.get("stop") or "")
    if form != "completion" and not isinstance(value, list):
        raise ValueError(f"{form!r} is no list")
    if form == "turns":
        turns = [turn for turn in value if not (isinstance(turn, dict) and turn.get("internal") is True)]
        yield Sample([_parse_turn(turn) for turn in turns], _seed(row), stop)
    elif form == "messages":
        replies = [item for item in value if not (isinstance(item, dict) and item.get("role") != "assistant")]
        yield Sample(_parse_replies(replies), None, stop)
    elif form == "completion" or "sample" in row:
        yield Sample(_parse_replies(value), None, stop)
    else:
        yield from (Sample(_parse_replies(item), None, stop) for item in value)


def _parse_replies(value: Any) -> list[ChatResponse]:
    """The replies of one sample: a single reply, or a list with one per turn."""
    return [ChatResponse(_parse_message(reply)) for reply in (value if isinstance(value, list) else [value])]


def _parse_turn(turn: Any) -> ChatResponse:
    """The reply of a turn in the format of a run's rollouts, with its number of tokens."""
    if not isinstance(turn, dict) or "reply" not in turn:
        raise ValueError("a turn without 'reply'")
    ids: Sequence[int] = turn.get("ids") or ()
    tokens = turn["tokens"] if type(turn.get("tokens")) is int else len(ids)
    return ChatResponse(_parse_message(turn["reply"]), "length" if turn.get("finish") == "length" else "stop", tokens)


def _parse_message(value: Any) -> Message:
    if isinstance(value, str):
        return assistant(value)
    fault = message_error(value)
    if fault or value["role"] != "assistant":
        raise ValueError(f"not a reply: {fault or 'role ' + repr(value['role'])}")
    return value
