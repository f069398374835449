"""Tasks of plans: chains of tools that are drawn, and those of a user's file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envs.data import NoSplit
from envs.env import SPLITS
from envs.procedural import drawn
from envs.tools.plans.plan import Reference, Step, execute, plan_steps, verify
from envs.tools.plans.plan_tools import PLAN_TOOLS, PlanTool
from envs.tools.plans.plan_values import TABLES, ValueFault
from envs.types import Task, ToolError

KEY = "tools/Plans-v0"
LENGTHS = {"train": 20_000, "val": 100, "test": 200}
MAX_CHAIN = 4
TABLE_SHARE = 0.3  # of chains that are tried, those that begin with a table
MAX_RESULT = 200  # characters of a result
_WORDS = ("amber", "bridge", "candle", "dragon", "engine", "forest", "garden", "harbour", "island", "jungle", "kettle",
          "lantern", "meadow", "needle", "orchard", "pebble", "quarry", "river", "saddle", "thunder")  # fmt: skip
_OPENINGS = ("First", "Then", "After that", "Finally")


def chain_tasks(split: str, shortest: int, longest: int) -> Sequence[Task]:
    """Return drawn chains of `shortest` to `longest` tools; "val" and "test" contain each once."""

    def draw(rng: np.random.Generator) -> Task:
        length = int(rng.integers(shortest, longest + 1))
        while True:
            task = _draw(rng, length)
            if task is not None:
                return task

    key = f"{KEY}:{shortest}..{longest}"
    return drawn(split, LENGTHS[split], draw, key=key, same=lambda task: task.metadata["request"])


def file_rows(path: str) -> list[dict[str, Any]]:
    """Return the rows of a JSON-lines file in the fields of m&m's, with plans over the tools of this environment.

    A row has `user_request`, and `plan`, a list of steps, or `plan_str`, the same as JSON text; perhaps `split`
    (default "test"). Raises ValueError, with file and line, for a malformed row and a plan that cannot be carried out.
    """
    try:
        lines = Path(path).expanduser().read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"tasks {path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    rows = [_row(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise ValueError(f"tasks {path!r}: the file has no rows")
    return rows


def rows_of_split(rows: Sequence[Mapping[str, Any]], split: str) -> list[Task]:
    """Return the rows of a split as tasks. Raises NoSplit if there are none."""
    chosen_rows = [row for row in rows if row["split"] == split]
    if not chosen_rows:
        raise NoSplit(f"the file of tasks has no rows of the split {split!r}")
    return [
        result_task(f"{split}/{place}", row["result"], {"request": row["request"], "plan": row["plan"]})
        for place, row in enumerate(chosen_rows)
    ]


def _row(line: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        if not isinstance(row, dict) or not isinstance(row.get("user_request"), str):
            raise ValueError("it needs user_request, a text")
        plan = row["plan"] if "plan" in row else json.loads(row.get("plan_str") or "null")
        steps = plan_steps(plan)
        verify(steps)
        result = execute(steps)
        split = row.get("split", "test")
        if split not in SPLITS:
            raise ValueError(f"split {split!r} is not one of {', '.join(SPLITS)}")
    except (ValueError, TypeError, RecursionError, ToolError) as error:
        raise ValueError(f"{place}: {error}") from None
    return {"request": row["user_request"], "plan": plan, "split": split, "result": result}


def _draw(rng: np.random.Generator, length: int) -> Task | None:
    """A chain; None where the tools that were drawn do not make one."""
    steps: list[Step] = []
    phrases: list[str] = []
    values: list[Any] = []
    for place in range(length):
        before = PLAN_TOOLS[steps[-1].name].output if steps else ""
        tool = _pick(rng, [each for each in PLAN_TOOLS.values() if _continues(each, before, steps)])
        if not steps and length > 1 and rng.random() < TABLE_SHARE:
            tool = PLAN_TOOLS["load_table"]
        link = next((name for name, kind in tool.inputs.items() if kind == before), "")
        drawn_values = _arguments(rng, tool, link, values[-1] if values else None)
        if drawn_values is None:
            return None
        try:
            value = tool.run(drawn_values if not link else {**drawn_values, link: values[-1]})
        except ValueFault:
            return None
        is_literal = tool.output != "table" and value in drawn_values.values()
        if (
            is_literal
            or value in values
            or value in ("", [])
            or (tool.output != "table" and len(str(value)) > MAX_RESULT)
        ):
            return None
        args = {name: Reference(place - 1, before) if name == link else drawn_values[name] for name in tool.inputs}
        steps.append(Step(place, tool.name, args))
        words = {name: "the result" if name == link else _quoted(drawn_values[name]) for name in tool.inputs}
        phrases.append(tool.phrase.format(**words))
        values.append(value)
    if PLAN_TOOLS[steps[-1].name].output == "table":
        return None
    return result_task("", values[-1], {"request": _request(phrases), "plan": written_plan(steps)})


def result_task(id: str, result: Any, metadata: Mapping[str, Any]) -> Task:
    """A task whose answer is `result` as text, of one type for all tasks, and whose metadata hold the value itself."""
    answer = result if isinstance(result, str) else json.dumps(result)
    return Task(id, answer=answer, metadata={**metadata, "result": result})


def written_plan(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Return a plan as JSON has it."""
    return [{"id": step.id, "name": step.name, "args": dict(_written(step.args))} for step in steps]


def _written(args: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in args.items():
        yield name, f"<node-{value.id}>.{value.output}" if isinstance(value, Reference) else value


def _continues(tool: PlanTool, before: str, steps: Sequence[Step]) -> bool:
    """Whether a tool can follow a result of type `before`, or can begin a chain."""
    if not before:
        return tool.name == "load_table" or not {"table"} & set(tool.inputs.values())
    return before in tool.inputs.values() and all(step.name != tool.name for step in steps)


def _arguments(rng: np.random.Generator, tool: PlanTool, link: str, result: Any) -> dict[str, Any] | None:
    """Literal values of a tool's arguments but `link`, which gets `result`; None where there are none that fit."""
    row = result[0] if tool.inputs.get(link) == "table" and result else None
    text = result if tool.inputs.get(link) == "text" else " ".join(_some_words(rng, 3, 6))
    values: dict[str, Any] = {}
    for name, kind in tool.inputs.items():
        if name == link:
            continue
        if kind == "table":
            return None
        if name == "column":
            if row is None:
                return None
            wants_number = tool.name in ("rows_above", "sum_column")
            columns = [key for key, cell in row.items() if isinstance(cell, str) != wants_number]
            values[name] = _pick(rng, columns if tool.name != "sort_rows" else [*row])
        elif kind == "list":
            values[name] = _some_words(rng, 3, 6)
        elif kind == "number":
            values[name] = _number(rng, tool, row, result)
        else:
            values[name] = _text(rng, tool, name, values, text, result)
    return values


def _number(rng: np.random.Generator, tool: PlanTool, row: Any, result: Any) -> int:
    if tool.name == "rows_above" and row is not None:
        cells = [cell for each in result for cell in each.values() if not isinstance(cell, str)]
        return _pick(rng, cells)
    most = {"take_entry": 3, "first_words": 3, "spell_digits": 9000, "remainder": 20}.get(tool.name, 60)
    return int(rng.integers(2 if most > 3 else 1, most + 1))


def _text(
    rng: np.random.Generator, tool: PlanTool, name: str, values: Mapping[str, Any], text: str, result: Any
) -> str:
    words = (values.get("text") or text).split() or ["amber"]
    if tool.name == "load_table":
        return _pick(rng, [*TABLES])
    if name == "letter":
        return _pick(rng, "aeinorst")
    if name == "separator":
        return _pick(rng, ("-", "+", " and ", "/"))
    if name == "old":
        return _pick(rng, words)
    if name == "value":
        return str(_pick(rng, result)[values["column"]])
    return " ".join(_some_words(rng, 1, 1)) if name == "new" else " ".join(_some_words(rng, 2, 5))


def _some_words(rng: np.random.Generator, least: int, most: int) -> list[str]:
    return [_pick(rng, _WORDS) for _ in range(int(rng.integers(least, most + 1)))]


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return f"the list {json.dumps(value)}" if isinstance(value, list) else str(value)


def _request(phrases: Sequence[str]) -> str:
    if len(phrases) == 1:
        return f"{phrases[0][0].upper()}{phrases[0][1:]}."
    openings = [*_OPENINGS[: len(phrases) - 1], _OPENINGS[-1]]
    return " ".join(f"{opening}, {phrase}." for opening, phrase in zip(openings, phrases, strict=True))


def _pick(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]
