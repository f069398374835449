"""Tasks of workflows: those of the bundled company, and those of a user's file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envs.data import NoSplit
from envs.env import SPLITS
from envs.procedural import drawn
from envs.tools.workflow.changes import CHANGES
from envs.tools.workflow.company import Company
from envs.tools.workflow.company_world import NUM_WORLDS, company_image
from envs.tools.workflow.openapi import Endpoint
from envs.tools.workflow.questions import QUESTIONS, look_up
from envs.tools.workflow.scenario import Draft, NoCase
from envs.types import Task

KEY = "tools/Workflow-v0"
LENGTHS = {"train": 20_000, "val": 100, "test": 200}
GENTLE_LENGTHS = {**LENGTHS, "train": 5_000}  # of level 0, which has about 11,000 tasks in all
KINDS = (*QUESTIONS, *CHANGES)
_FIELDS = {"request": str, "calls": list, "values": list, "possible": bool, "split": str}


def company_tasks(split: str, level: int = 1) -> Sequence[Task]:
    """Return the generated workflows of a split; "val" and "test" contain each once. Level 0 has look-ups only."""
    draw, lengths, key = (_draw, LENGTHS, KEY) if level else (_draw_look_up, GENTLE_LENGTHS, f"{KEY}:0")
    return drawn(
        split, lengths[split], draw, key=key, same=lambda task: [task.metadata["world"], task.metadata["request"]]
    )


def open_company(task: Mapping[str, Any]) -> Company:
    """Return the backend of a generated workflow, as it is at the beginning."""
    return Company(company_image(task["world"]))


def file_tasks(path: str, endpoints: Sequence[Endpoint]) -> list[dict[str, Any]]:
    """Return the rows of a user's JSON-lines file. Raises ValueError, with file and line, for a malformed one.

    A row has `request`, a text; and at least one of `calls`, a list of `{"name": operationId, "arguments": {...}}` that
    settle it, and `values`, the values of the right answer. It may have `possible` (default true), `split` (default
    "test"), and whatever else the backend reads.
    """
    try:
        lines = Path(path).expanduser().read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"tasks {path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    names = {endpoint.operation for endpoint in endpoints}
    rows = [_row(line, f"{path}:{number}", names) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise ValueError(f"tasks {path!r}: the file has no rows")
    return rows


def rows_of_split(rows: Sequence[Mapping[str, Any]], split: str) -> list[Task]:
    """Return the rows of a split as tasks. Raises NoSplit if there are none."""
    chosen_rows = [row for row in rows if row["split"] == split]
    if not chosen_rows:
        raise NoSplit(f"the file of tasks has no rows of the split {split!r}")
    return [_task(row, f"{split}/{place}") for place, row in enumerate(chosen_rows)]


def _draw(rng: np.random.Generator) -> Task:
    kind = KINDS[int(rng.integers(len(KINDS)))]
    wants_possible = bool(rng.random() < 0.6)
    while True:
        draft = Draft(int(rng.integers(NUM_WORLDS)), rng)
        try:
            kind(draft)
        except NoCase:
            continue
        if draft.possible == wants_possible or rng.random() < 0.5:
            return _task(draft.row())


def _draw_look_up(rng: np.random.Generator) -> Task:
    draft = Draft(int(rng.integers(NUM_WORLDS)), rng)
    look_up(draft)
    return _task(draft.row())


def _task(row: Mapping[str, Any], id: str = "") -> Task:
    return Task(id, answer=[str(value) for value in row["values"]], metadata=row)


def _row(line: str, place: str, names: set[str]) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: not JSON ({error})") from None
    if not isinstance(row, dict) or not isinstance(row.get("request"), str) or not row["request"].strip():
        raise ValueError(f"{place}: needs a request, a text")
    for key, kind in _FIELDS.items():
        if key in row and not isinstance(row[key], kind):
            raise ValueError(f"{place}: {key} is {row[key]!r}, not of type {kind.__name__}")
    row = {"calls": [], "values": [], "possible": True, "split": "test", **row}
    if not row["calls"] and not row["values"]:
        raise ValueError(f"{place}: needs calls or values; nothing could be judged")
    if row["split"] not in SPLITS:
        raise ValueError(f"{place}: split {row['split']!r} is not one of {', '.join(SPLITS)}")
    if not all(isinstance(value, str | int | float) for value in row["values"]):
        raise ValueError(f"{place}: values are texts and numbers")
    for call in row["calls"]:
        if not isinstance(call, dict) or call.get("name") not in names:
            raise ValueError(f"{place}: the document has no operation for the call {json.dumps(call)[:80]}")
        if not isinstance(call.get("arguments", {}), dict):
            raise ValueError(f"{place}: the arguments of {call['name']} are no object")
    return row
