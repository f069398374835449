"""Read a domain of tau2 from its files: db.json, tasks.json, policy.md and, if there, split_tasks.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from envs import data
from envs.types import Task

BASES = ("DB", "COMMUNICATE", "ACTION", "NL_ASSERTION", "ENV_ASSERTION")
_KEYS = ("user_scenario", "evaluation_criteria")


def domain_file(domain: str, name: str, data_root: str | None) -> Path:
    """Return the path of a file of a domain. Raises MissingData without one."""
    pattern = f"tau2/{domain}/{name}"
    paths = data.find_files(pattern, data_root)
    if not paths:
        raise data.missing(pattern)
    return paths[0]


def read_tasks(domain: str, split: str, data_root: str | None) -> list[Task]:
    """Read the tasks of a split.

    `split_tasks.json` says which ids are "train" and "test"; without it all tasks are "test". The metadata of a task
    are its id, scenario and criteria in tau2's own form, its answer is the list of reference actions.

    Raises:
        MissingData: There are no files, or no tasks of this split.
        ValueError: A task is malformed; the message names the file and the task.
    """
    path = domain_file(domain, "tasks.json", data_root)
    tasks = load_json(path)
    if not isinstance(tasks, list) or not tasks:
        raise ValueError(f"{path}: not a JSON array of tasks")
    ids = _split_ids(path.with_name("split_tasks.json"), split)
    if split != "test" and ids is None:
        raise data.NoSplit(f"tau2/{domain} has no split {split!r}: without split_tasks.json all tasks are test")
    rows = [_check_task(task, f"{path}: task {place}") for place, task in enumerate(tasks)]
    rows = [row for row in rows if ids is None or row["id"] in ids]
    if not rows:
        raise data.NoSplit(f"tau2/{domain} has no tasks of the split {split!r}")
    return [
        Task(f"{split}/{row['id']}", answer=row["evaluation_criteria"].get("actions") or [], metadata=row)
        for row in rows
    ]


@lru_cache(maxsize=8)
def load_json(path: Path) -> Any:
    """Read a JSON file, once per process; the value must not be changed. Raises ValueError if it is malformed."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON ({error})") from None


@lru_cache(maxsize=8)
def load_policy(path: Path) -> str:
    """Read a policy, once per process."""
    return path.read_text("utf-8").strip()


def _split_ids(path: Path, split: str) -> set[str] | None:
    if not path.is_file():
        return None
    splits = load_json(path)
    if not isinstance(splits, dict):
        raise ValueError(f"{path}: not a JSON object of splits")
    return {str(id) for id in splits.get(split, ())}


def _check_task(task: Any, place: str) -> dict[str, Any]:
    """A task with the fields that are used, checked. Raises ValueError."""
    if not isinstance(task, Mapping) or not all(isinstance(task.get(key), Mapping) for key in _KEYS):
        raise ValueError(f"{place}: needs the objects {' and '.join(_KEYS)}")
    criteria = task["evaluation_criteria"]
    for key in ("actions", "communicate_info", "nl_assertions", "reward_basis"):
        if not isinstance(criteria.get(key) or [], Sequence):
            raise ValueError(f"{place}: {key} is no array")
    unknown = [basis for basis in criteria.get("reward_basis") or () if basis not in BASES]
    if unknown:
        raise ValueError(f"{place}: reward_basis {unknown[0]!r} is not one of {', '.join(BASES)}")
    if task.get("initial_state"):
        raise ValueError(f"{place}: it has an initial_state, which is not supported")
    return {"id": str(task["id"]), "scenario": task["user_scenario"], "evaluation_criteria": criteria}
