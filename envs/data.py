"""Real benchmark files: where they lie and how they are read. Nothing is downloaded unless no local file is found.

A benchmark's files lie under a data root: the argument `data_root` (`--data-root` on the command line), else the
variable TURNWISE_DATA. Every file that matches the benchmark's pattern is read, in the order of their names.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "TURNWISE_DATA"

log = logging.getLogger(__name__)


class MissingData(ValueError):
    """No source for a benchmark's rows was found; the message names the ways to give one."""


class Hub(NamedTuple):
    """A data set on the Hugging Face hub, pinned to a commit."""

    repository: str
    config: str
    split: str
    revision: str


class Row(NamedTuple):
    """One row and its source: `"test.jsonl:17"` (file and line) or `"openai/gsm8k:test:16"` (split and index)."""

    fields: Mapping[str, Any]
    source: str


def files(pattern: str, data_root: str | None = None) -> list[Path]:
    """The files below the data root that match `pattern`, such as `"gsm8k/test*.jsonl"`; none where no root is named.

    Raises MissingData if `data_root` is given and holds no such file.
    """
    root = data_root or os.environ.get(VARIABLE)
    if not root:
        return []
    found = sorted(Path(root).expanduser().glob(pattern))
    if not found and data_root:
        raise MissingData(f"no {pattern} under --data-root {data_root}")
    return found


def rows(pattern: str, required: Iterable[str], *, data_root: str | None = None, hub: Hub | None = None) -> list[Row]:
    """All rows of the JSON-lines files that match, or of the hub's data set where there are none.

    `required` names the fields that every row must hold as text that is not blank. No row is skipped: one that is
    malformed raises ValueError with its file and line. Raises MissingData where there is no source.
    """
    required = tuple(required)
    if found := files(pattern, data_root):
        read = [row for path in found for row in _lines(path)]
        origin = ", ".join(map(str, found))
    else:
        read = _from_hub(pattern, hub)
        origin = f"{hub.repository}@{hub.revision[:8]}" if hub else ""
    for row in read:
        for field in required:
            if not isinstance(row.fields.get(field), str) or not row.fields[field].strip():
                raise ValueError(f"{row.source}: field {field!r} is {row.fields.get(field)!r}, not a text")
    if not read:
        raise ValueError(f"no rows in {origin}")
    log.info("%s: %d rows from %s, 0 skipped", pattern, len(read), origin)
    return read


def _lines(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                fields = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}:{number}: not JSON ({error})") from None
            if not isinstance(fields, dict):
                raise ValueError(f"{path}:{number}: not a JSON object but a {type(fields).__name__}")
            yield Row(fields, f"{path}:{number}")


def _from_hub(pattern: str, hub: Hub | None) -> list[Row]:
    advice = f"no {pattern}: name the folder that holds it with --data-root DIR or {VARIABLE}"
    if hub is None:
        raise MissingData(advice)
    if not find_spec("datasets"):
        raise MissingData(f"{advice}, or pip install datasets to load {hub.repository} from the Hugging Face hub")
    from datasets import load_dataset

    try:
        loaded = load_dataset(hub.repository, hub.config, split=hub.split, revision=hub.revision)
    except Exception as error:
        raise MissingData(f"{advice}; {hub.repository} from the hub: {type(error).__name__}: {error}") from error
    return [Row(fields, f"{hub.repository}:{hub.split}:{index}") for index, fields in enumerate(loaded)]
