"""Rows of BFCL's multi-turn categories from their files: questions, functions, and gold calls in Python's syntax."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from envs import data
from envs.tools.bfcl.backing.classes import CLASSES, DOCUMENTS
from envs.tools.bfcl.schemas import function_schemas
from envs.types import Message, Task, user

GoldCall = tuple[str, dict[str, Any]]
NEW_TOOLS = (
    "From now on you can call these tools too, in the same way as the others. Please do now what you could not do "
    "without them."
)


def read_tasks(category: str, data_root: str | None) -> list[Task]:
    """Return the rows of a category as tasks, whose answers are the gold calls by turn.

    Raises:
        MissingData: A file is missing.
        ValueError: A row is malformed; the message names its file and line.
    """
    answers = {
        row.fields["id"]: row.fields.get("ground_truth")
        for row in data.load_rows(f"bfcl/answers_BFCL_v*_{category}.json", ("id",), data_root=data_root)
    }
    tasks = []
    for row in data.load_rows(f"bfcl/BFCL_v*_{category}.json", ("id",), data_root=data_root):
        try:
            tasks.append(_as_task(row.fields, answers.get(row.fields["id"]), data_root))
        except data.MissingData:
            raise
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            fault = f"no {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"{row.source}: {fault}") from None
    return tasks


def load_functions(class_name: str, data_root: str | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the documentation of a class's functions by name. Raises MissingData without its file."""
    pattern = f"bfcl/multi_turn_func_doc/{DOCUMENTS[class_name]}"
    paths = data.find_files(pattern, data_root)
    if not paths:
        raise data.missing(pattern)
    return _read_functions(paths[0], paths[0].stat().st_mtime_ns)


def parse_gold_call(source: str, functions: Mapping[str, Mapping[str, Any]]) -> GoldCall:
    """Read a call such as `cd(folder='temp')`; positional arguments get the names of the documentation.

    The source is parsed, never run. Raises ValueError for anything but a call of a documented function with literals.
    """
    try:
        call = ast.parse(source, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError
        name = call.func.id
        keys = list(functions[name]["parameters"]["properties"])
        arguments = dict(zip(keys, map(ast.literal_eval, call.args), strict=False))
        arguments |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        if len(call.args) > len(keys):
            raise ValueError
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError):
        raise ValueError(f"gold call {source[:200]!r} is no call of a documented function with literals") from None
    return name, arguments


def _as_task(fields: Mapping[str, Any], gold: Any, data_root: str | None) -> Task:
    if not isinstance(gold, list):
        raise ValueError(f"there is no answer to {fields['id']!r}")
    classes: Sequence[str] = fields["involved_classes"]
    if unknown := [name for name in classes if name not in CLASSES]:
        raise ValueError(f"class {unknown[0]!r} is not one of {', '.join(CLASSES)}")
    functions = {name: each for key in classes for name, each in load_functions(key, data_root).items()}
    turns = [[parse_gold_call(source, functions) for source in calls] for calls in gold]
    questions = [tuple(user(message["content"]) for message in turn) for turn in fields["question"]]
    if len(questions) != len(turns) or not questions:
        raise ValueError(f"{len(questions)} turns are asked, and {len(turns)} answered")
    offers = [each for name, each in functions.items() if name not in fields.get("excluded_function", ())]
    first_turns: dict[str, int] = {}
    for turn, names in fields.get("missed_function", {}).items():
        questions[int(turn)] += (_announcement([functions[name] for name in names]),)
        first_turns |= dict.fromkeys(names, int(turn))
    if not all(questions):
        raise ValueError(f"turn {questions.index(())} asks nothing")
    metadata = {
        "first_turns": first_turns,
        "questions": questions,
        "functions": offers,
        "classes": list(classes),
        "config": fields.get("initial_config", {}),
    }
    return Task(f"test/{fields['id']}", questions[0], turns, metadata)


def _announcement(functions: Sequence[Mapping[str, Any]]) -> Message:
    """The message of a turn that adds functions, with their schemas; `info["tools"]` has those of the first turn."""
    schemas = [json.dumps(schema["function"], ensure_ascii=False) for schema in function_schemas(functions)]
    return user("\n".join((NEW_TOOLS, *schemas)))


@cache
def _read_functions(path: Path, _time: int) -> Mapping[str, Mapping[str, Any]]:
    return {row.fields["name"]: row.fields for row in data.read_rows(path)}
