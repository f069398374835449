"""Rank the parts of a corpus by a query: BM25 by the package bm25s, or embeddings by a function of the user's."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from envs.adapters.named_function import load_function
from envs.tools.corpus.documents import Corpus
from sandboxes.extras import install_command

BM25S = "bm25"
BATCH = 64  # texts that an embedding function gets at once
# A word, or one sign of a script that is written without spaces.
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
TOKEN = rf"[{_IDEOGRAPHS}]|[^\W{_IDEOGRAPHS}]+"
_FORM = 1  # of the files of an index

Embed = Callable[[list[str]], Any]


class Retriever(Protocol):
    """Finds the parts that fit a query."""

    def best(self, query: str, limit: int) -> list[int]:
        """Return the places of at most `limit` parts, best first."""
        ...


def open_retriever(name: str, corpus: Corpus, folder: Path | None = None) -> Retriever:
    """Return the retriever of this name over a corpus.

    Args:
        name: "bm25", or a function of texts that returns a vector for each, as "module:function" or
            "path.py:function".
        corpus: What to search.
        folder: Where the index is written, and read again if it is of the same parts and the same retriever; None to
            make it in memory.

    Raises:
        ValueError: No such function, vectors of a wrong form, a missing package, or a folder that cannot be written.
    """
    if name == BM25S:
        return WordRetriever(corpus, folder)
    return VectorRetriever(load_function(name), corpus, folder, name=name)


class WordRetriever:
    """BM25 in Lucene's variant with k1 1.5 and b 0.75 (bm25s, arXiv:2407.03618), over titles and texts.

    Words are compared in lower case, without a stemmer and without stop words, so that it works for any language.
    """

    def __init__(self, corpus: Corpus, folder: Path | None = None) -> None:
        try:
            import bm25s
        except ImportError as error:
            raise ValueError(f"retriever 'bm25' needs bm25s: {install_command('search')} ({error})") from None

        def make(target: Path | None) -> Any:
            index = bm25s.BM25()
            texts = [f"{part.title} {part.text}" for part in corpus.parts]
            tokens = bm25s.tokenize(texts, token_pattern=TOKEN, stopwords=[], show_progress=False)
            index.index(tokens, show_progress=False)
            if target:
                index.save(target, show_progress=False)
            return index

        def load(source: Path) -> Any:
            return bm25s.BM25.load(source, mmap=True, show_progress=False)

        self._index = _on_disk(folder, f"{BM25S} {bm25s.__version__} {corpus.digest}", make, load)

    def best(self, query: str, limit: int) -> list[int]:
        """Return the places of the parts that have words of the query, best first; of equal scores the earlier."""
        vocabulary = self._index.vocab_dict
        words = [word for word in dict.fromkeys(re.findall(TOKEN, query.lower())) if word in vocabulary]
        if not words:
            return []
        return _largest(self._index.get_scores(words), limit, above=0.0)


class VectorRetriever:
    """Cosine similarity of embeddings, by comparison with all parts."""

    def __init__(self, embed: Embed, corpus: Corpus, folder: Path | None = None, *, name: str = "") -> None:
        self._embed, self._name = embed, name

        def make(target: Path | None) -> Any:
            texts = [f"{part.title}\n{part.text}" for part in corpus.parts]
            batches = [self._vectors(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
            if len({batch.shape[1] for batch in batches}) > 1:
                raise ValueError(f"retriever {name!r} returns vectors of different lengths")
            vectors = np.concatenate(batches)
            if target:
                np.save(target / "vectors.npy", vectors)
            return vectors

        def load(source: Path) -> Any:
            return np.load(source / "vectors.npy", mmap_mode="r")

        self._parts = _on_disk(folder, f"{name} {corpus.digest}", make, load)

    def best(self, query: str, limit: int) -> list[int]:
        """Return the places of the most similar parts, best first; of equal scores the earlier."""
        (vector,) = self._vectors([query])
        if len(vector) != self._parts.shape[1]:
            raise ValueError(
                f"retriever {self._name!r} returns {len(vector)} numbers; the index has {self._parts.shape[1]}"
            )
        return _largest(self._parts @ vector, limit)

    def _vectors(self, texts: list[str]) -> np.ndarray:
        """Vectors of length 1. Raises ValueError for another form than a list of finite numbers for each text."""
        try:
            vectors = np.asarray(self._embed(texts), dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise ValueError(f"retriever {self._name!r} returns no vectors: {error}") from None
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise ValueError(
                f"retriever {self._name!r} returns an array of shape {vectors.shape} for {len(texts)} texts; it takes "
                "one vector of finite numbers for each"
            )
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _largest(scores: np.ndarray, limit: int, *, above: float = -np.inf) -> list[int]:
    """The places of the largest scores above a bound, of equal ones the first."""
    if limit < len(scores):
        bound = max(above, np.partition(scores, len(scores) - limit)[len(scores) - limit])
        places = np.flatnonzero((scores >= bound) & (scores > above))
    else:
        places = np.flatnonzero(scores > above)
    return [int(place) for place in places[np.argsort(-scores[places], kind="stable")][:limit]]


def _on_disk(folder: Path | None, key: str, make: Callable[[Path | None], Any], load: Callable[[Path], Any]) -> Any:
    """Load an index from `folder` if it is the one of `key`, else make it, and write it there in one move."""
    if folder is None:
        return make(None)
    about = {"form": _FORM, "key": key}
    note = folder / "index.json"
    if note.is_file():
        if _read_note(note) != about:
            raise ValueError(f"index {str(folder)!r} belongs to other documents or another retriever; name another one")
        return load(folder)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"index {str(folder)!r} has other files; name a folder that is empty or does not exist")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise ValueError(f"index {str(folder)!r} cannot be written ({error.strerror})") from None
    try:
        index = make(draft)
        (draft / note.name).write_text(json.dumps(about))
        try:
            os.replace(draft, folder)
        except OSError:  # another process was first
            if _read_note(note) != about:
                raise
        return index
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _read_note(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
