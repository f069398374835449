"""The tables of `docs/models.md`, from what `python -m benchmarks.models` measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

RESULT = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "models.json"
KINDS = ("answers", "calls", "reasoning")


def tables() -> str:
    """Return both tables as Markdown: tools and stops of every family, then what became of its histories."""
    families = json.loads(RESULT.read_text(encoding="utf-8"))["families"]
    tools = [_tools_row(family) for family in families]
    histories = [(_name(family), *(_history(family["dialogues"].get(kind)) for kind in KINDS)) for family in families]
    head = ("family", "tools reach the model in", "form of calls asked for", "calls of one reply", "ends of a reply")
    return "\n".join(
        [_table(head, tools), _table(("family", "answers", "tool calls", "tool calls and reasoning"), histories)]
    )


def _name(family: dict[str, Any]) -> str:
    return f"{family['name']} (*)" if family["vocabulary"] else family["name"]


def _tools_row(family: dict[str, Any]) -> tuple[str, ...]:
    form = f"`{family['form']}`"
    if family["own_form"] != family["form"]:
        form += f"; `{family['own_form']}` is read too"
    place = "its own template" if family["shows_tools"] else "the system message"
    calls = "one; further ones get an error" if family["single_calls"] else "several"
    return _name(family), place, form, calls, " ".join(f"`{stop}`".replace("|", "\\|") for stop in family["stops"])


def _history(dialogue: dict[str, Any] | None) -> str:
    if dialogue is None:
        return ""
    ways = ", ".join(
        f"{dialogue['ways'][way]} {way}" for way in ("extended", "bridged", "fresh") if way in dialogue["ways"]
    )
    ratio = dialogue["tokens"] / dialogue["fewest"]
    return f"{ways}: {dialogue['tokens']} / {dialogue['fewest']} = {ratio:.2f}"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ("---",) * len(head), *lines))
