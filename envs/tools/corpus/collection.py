"""A corpus with what searches it, opened once per process."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from envs.tools.corpus.documents import Corpus, corpus_files, read_documents
from envs.tools.corpus.retrieval import Retriever, open_retriever


class Collection(NamedTuple):
    """Documents and their retriever."""

    corpus: Corpus
    retriever: Retriever


def open_collection(path: Path, part_length: int, retriever: str, index: str | None) -> Collection:
    """Return the collection of the documents at `path`; it is made again if a file has changed.

    Args:
        path: As for `read_documents`.
        part_length: The most characters of a part.
        retriever: As for `open_retriever`.
        index: Folder of the index; None for none.

    Raises:
        ValueError: What `read_documents` and `open_retriever` raise.
    """
    stamps = tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in corpus_files(path))
    return _open(path, stamps, part_length, retriever, index)


@lru_cache(maxsize=4)
def _open(
    path: Path, stamps: tuple[tuple[str, int, int], ...], part_length: int, retriever: str, index: str | None
) -> Collection:
    corpus = Corpus(read_documents(path), part_length)
    return Collection(corpus, open_retriever(retriever, corpus, Path(index).expanduser() if index else None))
