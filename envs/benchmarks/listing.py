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
    """One JSON-able object per benchmark, with its entries, their digests and cards."""
    return [
        {
            "name": benchmark.name,
            "line": benchmark.line,
            "entries": [_describe(benchmark, entry) for entry in benchmark.entries],
        }
        for benchmark in BENCHMARKS
    ]


def as_text() -> Iterator[str]:
    """Lines of text: the benchmarks with their entries, then the card of each environment once."""
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
    """Number of tasks of an entry of `as_json`, as text; "all tasks" for one that takes all that its files hold."""
    return f"{fields['tasks']} tasks" if fields["tasks"] else "all tasks"


def needs(fields: Mapping[str, Any]) -> str:
    """Extra and data that an entry of `as_json` needs, in brackets; "" for one that needs neither."""
    extra = [f"extra turnwise-rl[{fields['extra']}]"] if fields["extra"] else []
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
