"""Check the digests of the benchmarks against the published ones, or publish them.

python -m envs.benchmarks            # list differences; status 1 if there are any
python -m envs.benchmarks --write    # add new digests to envs/benchmarks/digests.py
python -m envs.benchmarks --write --replace  # also replace digests that differ, before a version is published
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from envs.benchmarks import BENCHMARKS, Entry, load_part
from envs.benchmarks.digests import DIGESTS
from envs.data import MissingData
from envs.rows import ROWS

FILE = Path(__file__).with_name("digests.py")
HEAD = '''"""Number of tasks and digest of each published entry. Written by `python -m envs.benchmarks --write`."""

# benchmark: entry: (number of tasks, digest of their opening messages and answers)
DIGESTS: dict[str, dict[str, tuple[int, str]]] = {
'''
Digests = dict[str, dict[str, tuple[int, str]]]


def main(argv: Sequence[str] | None = None) -> int:
    """Recompute the digests of all benchmarks' tasks and print how each compares with the published one.

    `argv` are the command-line arguments (None: those of the process): `--write` saves new digests to `digests.py`,
    with `--replace` changed ones too. Returns the exit status: 1 if a digest differs and is not replaced, else 0.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="add new digests to envs/benchmarks/digests.py")
    parser.add_argument("--replace", action="store_true", help="with --write: also replace digests that differ")
    args = parser.parse_args(argv)
    digests, has_changes = compare(replace=args.write and args.replace)
    if args.write:
        FILE.write_text(format_module(digests), encoding="utf-8")
    return int(has_changes)


def compare(*, replace: bool) -> tuple[Digests, bool]:
    """Compute the digests of all entries and print how each compares with the published one.

    Entries from files, and those whose extra is missing, keep their published digest. With `replace`, new values take
    the place of published ones that differ, and entries that no longer exist are dropped.

    Returns:
        The digests to write: benchmark, label of the entry, (number of tasks, digest in hex); and whether some differ
            from the published ones, or are gone, and are not replaced.
    """
    digests: Digests = {}
    has_changes = False
    for benchmark in BENCHMARKS:
        published_digests = DIGESTS.get(benchmark.name, {})
        digests[benchmark.name] = {}
        for entry in benchmark.entries:
            old, new = published_digests.get(entry.label), _compute(entry)
            is_changed = old is not None and new is not None and old != new
            status = "from files" if new is None else "new" if old is None else "changed" if is_changed else "unchanged"
            print(f"{benchmark.name} {entry.label}: {status} {new or old or ''}".rstrip())
            has_changes |= is_changed and not replace
            if value := (new if old is None or replace else old) or old:
                digests[benchmark.name][entry.label] = value
        removals = published_digests.keys() - {entry.label for entry in benchmark.entries}
        for label in sorted(removals):
            print(f"{benchmark.name} {label}: {'removed' if replace else 'published, but no longer an entry'}")
            if not replace:
                digests[benchmark.name][label] = published_digests[label]
        has_changes |= bool(removals) and not replace
    return digests, has_changes


def format_module(digests: Digests) -> str:
    """Write `digests` (benchmark: label of the entry: (number of tasks, digest)) as the source of `digests.py`."""
    lines = []
    for name, entries in digests.items():
        lines.append(f'    "{name}": {{')
        lines += [f'        "{label}": ({count}, "{digest}"),' for label, (count, digest) in entries.items()]
        lines.append("    },")
    return HEAD + "\n".join([*lines, "}"]) + "\n"


@cache
def _compute(entry: Entry) -> tuple[int, str] | None:
    """Number and digest of an entry's tasks; None for tasks from files and for a missing extra."""
    row = next((row for row in ROWS if row.id == entry.env), None)
    if row is not None and row.data:
        return None
    try:
        part = load_part(entry)
    except (ImportError, MissingData):
        if row is None or not row.extra:
            raise
        return None
    return len(part.indices), part.digest


if __name__ == "__main__":
    sys.exit(main())
