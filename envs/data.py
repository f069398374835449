"""Load the rows of real benchmarks from local files, or from the Hugging Face hub where there is no local file.

Local files are searched below the data root: the argument `data_root` (`--data-root` on the command line), else the
environment variable TURNWISE_DATA. Every file that matches a benchmark's pattern is read, in the order of the names.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

DATA_ROOT_VARIABLE = "TURNWISE_DATA"
FOLDER_VARIABLES = (DATA_ROOT_VARIABLE, "TURNWISE_CACHE")

# Where the files of each folder below the data root come from, and how they are laid out.
ORIGINS = {
    "gsm8k": "train.jsonl and test.jsonl of openai/grade-school-math on GitHub, openai/gsm8k on the Hugging Face hub, "
    "as gsm8k/train.jsonl and gsm8k/test.jsonl",
    "math500": "test.jsonl of HuggingFaceH4/MATH-500 on the Hugging Face hub, as math500/test.jsonl",
    "aime": "the rows of HuggingFaceH4/aime_2024 or MathArena/aime_2025 on the Hugging Face hub, a JSON object a line, "
    "as aime/NAME.jsonl",
    "humaneval": "HumanEval.jsonl of openai/human-eval on GitHub, unpacked, as humaneval/HumanEval.jsonl",
    "mbpp": "mbpp.jsonl of google-research/google-research on GitHub (folder mbpp), as mbpp/mbpp.jsonl",
    "bfcl": "the files of the Berkeley Function-Calling Leaderboard, ShishirPatil/gorilla on GitHub (folder "
    "berkeley-function-call-leaderboard/bfcl_eval/data): questions as bfcl/BFCL_v4_CATEGORY.json, and those of "
    "possible_answer/ as bfcl/answers_BFCL_v4_CATEGORY.json; for the multi-turn categories also the folder "
    "multi_turn_func_doc/ as bfcl/multi_turn_func_doc/",
    "corpus": "your documents as text files or JSON lines in corpus/documents/, and questions about them as "
    "corpus/SPLIT.jsonl",
    "tau2": "data/tau2/domains/ of sierra-research/tau2-bench on GitHub: db.json, tasks.json, policy.md and "
    "split_tasks.json of a domain, as tau2/DOMAIN/NAME",
}

log = logging.getLogger(__name__)


class MissingData(ValueError):
    """A benchmark's rows are neither in local files nor on the hub. The message says how to provide them."""


class NoSplit(MissingData):
    """The data set has no such split, whatever files there are."""


class Hub(NamedTuple):
    """A split of a data set on the Hugging Face hub, at a fixed commit: "openai/gsm8k", "main", "test" and its hash."""

    repository: str
    config: str
    split: str
    revision: str


class Row(NamedTuple):
    """Fields of a row, and its source: "test.jsonl:17" (file and line) or "openai/gsm8k:test:16" (split and index)."""

    fields: Mapping[str, Any]
    source: str


def resolve_folders() -> None:
    """Make the folders that `FOLDER_VARIABLES` name absolute in the environment of this process.

    A command does so when it begins, so that its children, and code that changes the working folder, find the same.
    Raises `ValueError` for a relative one where the working folder has been removed.
    """
    for name in FOLDER_VARIABLES:
        if folder := os.environ.get(name):
            try:
                os.environ[name] = os.path.abspath(os.path.expanduser(folder))
            except FileNotFoundError:
                reason = "it is relative, and the working folder has been removed; write an absolute path"
                raise ValueError(f"{name}={folder}: {reason}") from None


def find_files(pattern: str, data_root: str | None = None) -> list[Path]:
    """List the files below the data root that match a glob pattern such as "gsm8k/test*.jsonl", sorted by name.

    The data root is `data_root`, else the folder in the environment variable TURNWISE_DATA. The list is empty where
    neither is set, and where TURNWISE_DATA has no such file. Raises MissingData if `data_root` is given and has none.
    """
    root = data_root or os.environ.get(DATA_ROOT_VARIABLE)
    if not root:
        return []
    paths = sorted(Path(root).expanduser().glob(pattern))
    if not paths and data_root:
        raise MissingData(f"no {pattern} under --data-root {data_root}{_origin(pattern)}")
    return paths


def missing(pattern: str) -> MissingData:
    """Return the error for files that are needed and not there: how to name their folder, and where they come from."""
    advice = f"no {pattern}: name the folder that holds it with --data-root DIR or {DATA_ROOT_VARIABLE}"
    return MissingData(advice + _origin(pattern))


def _origin(pattern: str) -> str:
    origin = ORIGINS.get(pattern.partition("/")[0])
    return f"; it holds {origin}" if origin else ""


def load_rows(
    pattern: str, text_fields: Iterable[str], *, data_root: str | None = None, hub: Hub | None = None
) -> list[Row]:
    """Load all rows of a benchmark, in the order of the files. No row is skipped.

    Args:
        pattern: Glob pattern of JSON-lines files below the data root, such as "gsm8k/test*.jsonl".
        text_fields: Fields that every row must hold as a str that is not blank.
        data_root: Folder to search; None for the one in the environment variable TURNWISE_DATA.
        hub: Data set to load if no file matches; None for none.

    Raises:
        MissingData: There is neither a matching file nor a data set.
        ValueError: A row is malformed (the message names its file and line), or there are no rows.
    """
    text_fields = tuple(text_fields)
    if paths := find_files(pattern, data_root):
        rows = [row for path in paths for row in read_rows(path)]
        origin = ", ".join(map(str, paths))
    else:
        rows = _load_from_hub(pattern, hub)
        origin = f"{hub.repository}@{hub.revision[:8]}" if hub else ""
    for row in rows:
        for field in text_fields:
            if not isinstance(row.fields.get(field), str) or not row.fields[field].strip():
                raise ValueError(f"{row.source}: field {field!r} is {row.fields.get(field)!r}, not a text")
    if not rows:
        raise ValueError(f"no rows in {origin}")
    log.info("%s: %d rows from %s, 0 skipped", pattern, len(rows), origin)
    return rows


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a JSON-lines file. Raises ValueError, with the line, for one that is not a JSON object."""
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


def _load_from_hub(pattern: str, hub: Hub | None) -> list[Row]:
    advice = f"no {pattern}: name the folder that holds it with --data-root DIR or {DATA_ROOT_VARIABLE}"
    if hub is None:
        raise missing(pattern)
    if not find_spec("datasets"):
        hint = f"or pip install datasets to load {hub.repository} from the Hugging Face hub"
        raise MissingData(f"{advice}, {hint}{_origin(pattern)}")
    from datasets import load_dataset

    try:
        dataset = load_dataset(hub.repository, hub.config, split=hub.split, revision=hub.revision)
    except Exception as error:
        raise MissingData(f"{advice}; {hub.repository} from the hub: {type(error).__name__}: {error}") from error
    return [Row(fields, f"{hub.repository}:{hub.split}:{index}") for index, fields in enumerate(dataset)]
