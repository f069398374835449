"""Tasks for the tools of an MCP server: goals from a file, and how an episode is judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from envs.adapters.foreign_env import finite_reward
from envs.adapters.named_function import load_function
from envs.env import SPLITS
from envs.grading.choice import last_line

KEYS = {"goal": str, "split": str, "answer": str, "check": list, "calls": list, "seed": int}
FREE_GOAL = "Try the tools that you are offered. Nothing is judged."


class Ending(NamedTuple):
    """What a checker sees of an episode.

    Attributes:
        task: The task's row.
        reply: The last reply, without its reasoning.
        calls: The calls that the policy made: `{"name": ..., "arguments": {...}, "result": "..."}`, in order.
        call: Calls a tool of the server, by its own name, with a dict of arguments, and returns the result's text.
    """

    task: Mapping[str, Any]
    reply: str
    calls: Sequence[Mapping[str, Any]]
    call: Callable[[str, Mapping[str, Any]], str]


def load_rows(source: str, goal: str) -> list[dict[str, Any]]:
    """Load the tasks as dicts with the keys `KEYS`, of which only `goal` is needed.

    Args:
        source: A JSON-lines file, or `module:function` or `path/to/file.py:function` that returns the rows; "" for the
            one task whose goal is `goal`.
        goal: Goal of that task.

    Raises ValueError for a row that is malformed, and names it.
    """
    if not source:
        return [{"goal": goal or FREE_GOAL}]
    if source.endswith((".jsonl", ".json")):
        path = Path(source).expanduser()
        if not path.is_file():
            raise ValueError(f"there is no file of tasks {source!r}")
        lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
        rows = [_parse_line(line, f"{source}:{number}") for number, line in enumerate(lines, 1)]
    else:
        rows = list(load_function(source)())
    if not rows:
        raise ValueError(f"{source} has no tasks")
    return [_check_row(row, f"{source}: task {place}") for place, row in enumerate(rows)]


def judge(ending: Ending, checker: str) -> float:
    """Return the reward of an episode, from 0 to 1.

    `checker`, `module:function` or `path/to/file.py:function`, is a function of an `Ending`. Without one, 1 if
    everything holds that the task names: the last line of the reply is its `answer`, blanks and case aside, and each
    call of its `check` has its `result`. A task that names neither earns 0. Raises RuntimeError for a checker that
    returns no number from 0 to 1.
    """
    if checker:
        reward = finite_reward(load_function(checker)(ending), checker)
        if not 0 <= reward <= 1:
            raise RuntimeError(f"the checker {checker} returned {reward:g}, which is not from 0 to 1")
        return reward
    claims = []
    if "answer" in ending.task:
        claims.append(_plain(last_line(ending.reply)) == _plain(ending.task["answer"]))
    for probe in ending.task.get("check", ()):
        claims.append(_plain(ending.call(probe["name"], probe.get("arguments", {}))) == _plain(probe["result"]))
    return float(bool(claims) and all(claims))


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _parse_line(line: str, place: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: not JSON ({error})") from None


def _check_row(row: Any, place: str) -> dict[str, Any]:
    if not isinstance(row, Mapping) or not isinstance(row.get("goal"), str) or not row["goal"].strip():
        raise ValueError(f"{place}: needs a goal, a text")
    for key, kind in KEYS.items():
        if key in row and not isinstance(row[key], kind):
            raise ValueError(f"{place}: {key} is {row[key]!r}, not of type {kind.__name__}")
    if row.get("split", "test") not in SPLITS:
        raise ValueError(f"{place}: split {row['split']!r} is not one of {', '.join(SPLITS)}")
    for key in ("check", "calls"):
        for call in row.get(key, ()):
            if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
                raise ValueError(f"{place}: an entry of {key} needs the name of a tool")
            if key == "check" and not isinstance(call.get("result"), str):
                raise ValueError(f"{place}: an entry of check needs a result, a text")
    return dict(row)
