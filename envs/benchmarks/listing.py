"""The benchmarks as text and as JSON: what each holds, and the card of each part."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from envs.benchmarks.cards import card
from envs.benchmarks.entries import BENCHMARKS, Benchmark, Entry
from envs.benchmarks.recorded import RECORDED
from envs.rows import ROWS

WIDTH = 100


def as_json() -> list[dict[str, Any]]:
    """One object per benchmark, its entries with digests and cards inside."""
    return [
        {"name": benchmark.name, "line": benchmark.line, "entries": [_told(benchmark, e) for e in benchmark.entries]}
        for benchmark in BENCHMARKS
    ]


def as_text() -> Iterator[str]:
    """Lines: the benchmarks with their entries, then each environment's card once."""
    for benchmark in BENCHMARKS:
        yield f"{benchmark.name}  {benchmark.line}"
        width = max(len(entry.label) for entry in benchmark.entries)
        for entry in benchmark.entries:
            told = _told(benchmark, entry)
            digest = told["digest"] or "as the files are"
            yield f"    {entry.label:{width}}  {size(told):>9}  {digest}{needs(told)}"
        yield ""
    for env in dict.fromkeys(entry.env for benchmark in BENCHMARKS for entry in benchmark.entries):
        yield env
        for name, words in card(env)._asdict().items():
            if words:
                yield from wrap(f"{name}: {words}", WIDTH, initial_indent="    ", subsequent_indent="        ")


def size(told: dict[str, Any]) -> str:
    """The number of an entry's tasks in words; a file's is known when it is read."""
    return f"{told['tasks']} tasks" if told["tasks"] else "all tasks"


def needs(told: dict[str, Any]) -> str:
    """What an entry is left out without, in brackets."""
    words = [f"extra turnwise[{told['extra']}]"] * bool(told["extra"]) + [f"data {told['data']}/"] * bool(told["data"])
    return "".join(f" ({word})" for word in words)


def _told(benchmark: Benchmark, entry: Entry) -> dict[str, Any]:
    number, digest = RECORDED.get(benchmark.name, {}).get(entry.label, (entry.tasks, None))
    row = next((row for row in ROWS if row.id == entry.env), None)
    return {
        "env": entry.env,
        "arguments": entry.words,
        "split": entry.split,
        "tasks": number,
        "digest": digest,
        "extra": row.extra if row else "",
        "data": row.data if row else "",
        "card": card(entry.env)._asdict(),
    }
