"""Read questions about a corpus from JSON lines, in the fields of common data sets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from envs import data
from envs.tools.corpus.documents import Corpus
from envs.types import Task

_ANSWERS = ("answers", "golden_answers", "answer")


def read_questions(split: str, data_root: str | None, corpus: Corpus) -> list[Task]:
    """Return the questions of a split, `corpus/SPLIT*.jsonl`.

    Without files of "val", those are a tenth of "train", the rows with the smallest digests. A row has `question`;
    `answer`, `answers` or `golden_answers`, a text or a list of texts any of which is right; and may name the documents
    that its answer needs, in their order, by `documents`, a list of titles, or as HotpotQA does by `supporting_facts`.
    `keys`, a list of lists of texts, are the searches that StepSearch expects, each in several wordings.

    Raises:
        MissingData: There is no file.
        ValueError: A row is malformed, or names a document that is not in the corpus.
    """
    has_val = split == "test" or _has_val(data_root)
    source = split if has_val else "train"
    rows = data.load_rows(f"corpus/{source}*.jsonl", ("question",), data_root=data_root)
    if not has_val:
        rows = _part_of_train(rows, val=split == "val")
    return [_task(f"{split}/{place}", row, corpus) for place, row in enumerate(rows)]


def _has_val(data_root: str | None) -> bool:
    try:
        return bool(data.find_files("corpus/val*.jsonl", data_root))
    except data.MissingData:
        return False


def _part_of_train(rows: Sequence[data.Row], *, val: bool) -> list[data.Row]:
    def digest(row: data.Row) -> str:
        return hashlib.sha256(f"corpus val {row.fields['question']}".encode()).hexdigest()

    if len(rows) < 2:
        return list(rows)
    bound = sorted(map(digest, rows))[max(1, len(rows) // 10) - 1]
    return [row for row in rows if (digest(row) <= bound) == val]


def _task(id: str, row: data.Row, corpus: Corpus) -> Task:
    documents = _documents(row.fields, row.source)
    titles = [corpus.find_title(name) for name in documents]
    if None in titles:
        missing = documents[titles.index(None)]
        raise ValueError(f"{row.source}: the documents have no {missing!r}")
    answers = next((row.fields[name] for name in _ANSWERS if row.fields.get(name) is not None), None)
    answers = [answers] if isinstance(answers, str | int | float) else answers
    if not isinstance(answers, list) or not answers or not all(str(answer).strip() for answer in answers):
        raise ValueError(f"{row.source}: field 'answer' is {answers!r}, neither a text nor a list of texts")
    keys = row.fields.get("keys") or []
    if not isinstance(keys, list) or not all(
        isinstance(group, list) and group and all(isinstance(key, str) for key in group) for group in keys
    ):
        raise ValueError(f"{row.source}: field 'keys' is {keys!r}, not a list of lists of texts")
    metadata = {"question": row.fields["question"].strip(), "documents": list(dict.fromkeys(titles))}
    return Task(
        id,
        answer=[str(answer).strip() for answer in answers],
        metadata={**metadata, "keys": keys, "source": row.source},
    )


def _documents(fields: Mapping[str, Any], source: str) -> list[str]:
    value = fields.get("documents")
    if value is None:
        value = fields.get("supporting_facts") or []
        if isinstance(value, Mapping):  # {"title": [...], "sent_id": [...]}
            value = value.get("title")
        elif isinstance(value, list):  # [[title, sentence], ...]
            value = [pair[0] if isinstance(pair, list) and pair else pair for pair in value]
    if not isinstance(value, list) or not all(isinstance(title, str) for title in value):
        raise ValueError(f"{source}: field 'documents' is {value!r}, not a list of titles")
    return value
