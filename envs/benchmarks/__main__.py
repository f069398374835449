"""Put the digests of the benchmarks on record, or check them.

python -m envs.benchmarks            # say which tasks are not those on record; status 1 if any are
python -m envs.benchmarks --write    # add what is not on record yet
python -m envs.benchmarks --write --replace  # also replace what has changed, before a version is published
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from envs.benchmarks import BENCHMARKS, Entry, Part, part
from envs.benchmarks.recorded import RECORDED
from envs.data import MissingData
from envs.rows import ROWS

FILE = Path(__file__).with_name("recorded.py")
HEAD = '''"""What each published benchmark holds. Written by `python -m envs.benchmarks --write`."""

# benchmark: entry: (number of tasks, digest of what they open with and of their answers)
RECORDED: dict[str, dict[str, tuple[int, str]]] = {
'''
Record = dict[str, dict[str, tuple[int, str]]]


def main(argv: Sequence[str] | None = None) -> int:
    """Check or write; the exit status is 1 where tasks are not those on record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="add what is not on record yet")
    parser.add_argument("--replace", action="store_true", help="with --write: replace what has changed, too")
    words = parser.parse_args(argv)
    record, wrong = compared(replace=words.write and words.replace)
    if words.write:
        FILE.write_text(written(record), encoding="utf-8")
    return int(wrong)


def compared(*, replace: bool) -> tuple[Record, bool]:
    """The record as it should be, and whether something on record has changed and was kept; says what it finds."""
    record: Record = {}
    wrong = False
    for benchmark in BENCHMARKS:
        kept = RECORDED.get(benchmark.name, {})
        record[benchmark.name] = {}
        for entry in benchmark.entries:
            old, new = kept.get(entry.label), _found(entry)
            changed = old is not None and new is not None and old != new
            word = "from files" if new is None else "new" if old is None else "changed" if changed else "unchanged"
            print(f"{benchmark.name} {entry.label}: {word} {new or old or ''}".rstrip())
            wrong |= changed and not replace
            if value := (new if old is None or replace else old) or old:
                record[benchmark.name][entry.label] = value
        gone = kept.keys() - {entry.label for entry in benchmark.entries}
        for label in sorted(gone):
            print(f"{benchmark.name} {label}: {'removed' if replace else 'on record, but no entry any more'}")
            if not replace:
                record[benchmark.name][label] = kept[label]
        wrong |= bool(gone) and not replace
    return record, wrong


def written(record: Record) -> str:
    """The record as a module."""
    lines = []
    for name, entries in record.items():
        lines.append(f'    "{name}": {{')
        lines += [f'        "{label}": ({number}, "{digest}"),' for label, (number, digest) in entries.items()]
        lines.append("    },")
    return HEAD + "\n".join([*lines, "}"]) + "\n"


@cache
def _found(entry: Entry) -> tuple[int, str] | None:
    """The number of tasks and their digest; None for tasks that come from files, or need what is not here."""
    row = next((row for row in ROWS if row.id == entry.env), None)
    if row is not None and row.data:
        return None
    try:
        found: Part = part(entry)
    except (ImportError, MissingData):
        if row is None or not row.extra:
            raise
        return None
    return len(found.indices), found.digest


if __name__ == "__main__":
    sys.exit(main())
