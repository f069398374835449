"""How a run went, update by update, and how an evaluation ended: what the page shows above the episodes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MAX_POINTS = 500  # of a curve; with more updates, a point is the mean of several
CURVES = {"success": "success/mean", "return": "reward/mean"}  # name on the page: key in metrics.jsonl
ROLLOUTS = ".rollouts.jsonl"  # ending of an evaluation's episodes, beside its result


def curves(run: Path | None) -> dict[str, Any]:
    """Return the curves of the run in folder `run`: numbers by update, and its held-out evaluations.

    `update` holds the number of the last update of each point, `success` and `return` the means of training episodes;
    `evaluations` holds `[update, success, split]`, of `evaluations.jsonl` and, before and after training, of
    `summary.json`. Lines that cannot be read are left out; empty without a run or without metrics.
    """
    if run is None:
        return {}
    lines = {line["update"]: line for line in _lines(run / "metrics.jsonl") if _is_update(line.get("update"))}
    updates = sorted(lines)
    step = max(1, math.ceil(len(updates) / MAX_POINTS))
    spans = [updates[first : first + step] for first in range(0, len(updates), step)]
    columns = {
        name: [_mean([lines[update].get(key) for update in span]) for span in spans] for name, key in CURVES.items()
    }
    evaluations = [
        [line["update"], line["success"], str(line.get("split", ""))]
        for line in _lines(run / "evaluations.jsonl")
        if _is_update(line.get("update")) and _is_number(line.get("success"))
    ]
    summary = _object(run / "summary.json")
    ends = {"success_before": 0, "success_after": updates[-1] if updates else 0}
    evaluations += [[update, summary[key], "test"] for key, update in ends.items() if _is_number(summary.get(key))]
    if not updates and not evaluations:
        return {}
    return {"update": [span[-1] for span in spans], **columns, "evaluations": evaluations}


def result(file: Path) -> dict[str, Any]:
    """Return policy, success with its interval, return and errors of the evaluation whose episodes are in `file`.

    They come from the result beside it (`floor.json` for `floor.rollouts.jsonl`); empty if there is none.
    """
    if not file.name.endswith(ROLLOUTS):
        return {}
    content = _object(file.with_name(f"{file.name.removesuffix(ROLLOUTS)}.json"))
    success = content.get("success")
    interval = [success.get(key) for key in ("mean", "low", "high")] if isinstance(success, dict) else []
    texts = {key: str(content[key]) for key in ("policy", "benchmark", "env") if content.get(key)}
    numbers = {key: content[key] for key in ("return_mean", "errors") if _is_number(content.get(key))}
    return {**texts, **numbers, **({"success": interval} if interval and all(map(_is_number, interval)) else {})}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in the lines of a file; what is not one is left out."""
    try:
        content = path.read_bytes()
    except OSError:
        return
    for text in content.split(b"\n"):
        if isinstance(line := _parse(text), dict):
            yield line


def _object(path: Path) -> Mapping[str, Any]:
    """The JSON object in a file, {} if there is none."""
    try:
        content = _parse(path.read_bytes())
    except OSError:
        return {}
    return content if isinstance(content, dict) else {}


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_update(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _mean(values: list[Any]) -> float | None:
    numbers = [float(value) for value in values if _is_number(value)]
    return round(sum(numbers) / len(numbers), 4) if numbers else None
