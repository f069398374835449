"""Describe the benchmarks as text and as JSON: the tasks of each, and the card of each environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from envs.benchmarks.cards import card
from envs.benchmarks.digests import DIGESTS
from envs.benchmarks.entries import BENCHMARKS, Benchmark, Entry
from envs.rows import ROWS

WIDTH = 100


def as_json() -> list[dict[str, Any]]:
    """List the benchmarks as JSON-able dicts with the keys "name", "line" and "entries".

    An entry is a dict with the keys "env", "arguments", "split", "tasks" (None: all that the files hold), "digest"
    (None if none is published), "extra", "data" (both "" if it needs none) and "card", a dict of texts.
    """
    return [
        {
            "name": benchmark.name,
            "line": benchmark.line,
            "entries": [_describe(benchmark, entry) for entry in benchmark.entries],
        }
        for benchmark in BENCHMARKS
    ]


def as_text() -> Iterator[str]:
    """Yield lines of text without newlines: the benchmarks with their entries, then each environment's card once."""
    for benchmark in BENCHMARKS:
        yield f"{benchmark.name}  {benchmark.line}"
        width = max(len(entry.label) for entry in benchmark.entries)
        for entry in benchmark.entries:
            fields = _describe(benchmark, entry)
            digest = fields["digest"] or "as the files are"
            yield f"    {entry.label:{width}}  {size(fields):>9}  {digest}{needs(fields)}"
        yield ""
    for env in dict.fromkeys(entry.env for benchmark in BENCHMARKS for entry in benchmark.entries):
        yield env
        for name, words in card(env)._asdict().items():
            if words:
                yield from wrap(f"{name}: {words}", WIDTH, initial_indent="    ", subsequent_indent="        ")


def size(fields: Mapping[str, Any]) -> str:
    """Write the number of tasks of an entry: `50 tasks`; "all tasks" for one that takes all that its files hold.

    `fields` is an entry of `as_json`.
    """
    return f"{fields['tasks']} tasks" if fields["tasks"] else "all tasks"


def needs(fields: Mapping[str, Any]) -> str:
    """Write what an entry needs: ` (extra math) (data gsm8k/)`; "" if nothing.

    `fields` is an entry of `as_json`.
    """
    extra = [f"extra {fields['extra']}"] if fields["extra"] else []
    data = [f"data {fields['data']}/"] if fields["data"] else []
    return "".join(f" ({need})" for need in extra + data)


def _describe(benchmark: Benchmark, entry: Entry) -> dict[str, Any]:
    count, digest = DIGESTS.get(benchmark.name, {}).get(entry.label, (entry.tasks, None))
    row = next((row for row in ROWS if row.id == entry.env), None)
    return {
        "env": entry.env,
        "arguments": entry.arguments,
        "split": entry.split,
        "tasks": count,
        "digest": digest,
        "extra": row.extra if row else "",
        "data": row.data if row else "",
        "card": card(entry.env)._asdict(),
    }
