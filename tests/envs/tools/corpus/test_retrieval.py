"""Ranking of parts by words and by vectors, and indexes on a disk."""

import numpy as np
import pytest

from envs.tools.bm25 import BM25
from envs.tools.corpus.documents import Corpus
from envs.tools.corpus.retrieval import VectorRetriever, WordRetriever, open_retriever

WORDS = [f"w{number}" for number in range(30)]


def corpus_of(texts):
    return Corpus({f"t{number}": [text] for number, text in enumerate(texts)}, 1000)


def letters(texts):
    """A vector of letter counts."""
    return [[text.lower().count(letter) for letter in "abcdefgh"] for text in texts]


def nothing(texts):
    return [[]]


def uneven(texts):
    return [[1.0] * (len(texts) + number) for number in range(len(texts))]


def infinite(texts):
    return [[float("nan")] for _ in texts]


def test_words_rank_as_by_bm25s_formula():
    """The package's ranking against the formula, computed apart."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 40))) for _ in range(200)]
    corpus = corpus_of(texts)
    retriever, formula = WordRetriever(corpus), BM25([f"{part.title} {part.text}" for part in corpus.parts])
    for _ in range(50):
        query = " ".join(rng.choice([*WORDS, "unknown"], 3, replace=False))
        scores = formula.scores(query)
        found = retriever.best(query, 10)
        assert len(found) == min(10, len(scores))
        ranked = sorted(scores.values(), reverse=True)[:10]
        assert np.allclose([scores[place] for place in found], ranked, rtol=1e-4)


def test_words_that_no_document_has_find_nothing():
    retriever = WordRetriever(corpus_of(["pears and figs", "a fig"]))
    assert retriever.best("quince", 3) == retriever.best("", 3) == retriever.best("...", 3) == []
    assert retriever.best("PEARS quince", 3) == [0]


def test_scripts_without_spaces_are_searched_by_their_signs():
    retriever = WordRetriever(corpus_of(["東京は日本の首都です", "北京 is a capital", "パリ"]))
    assert retriever.best("京", 3) == [1, 0] or retriever.best("京", 3) == [0, 1]
    assert retriever.best("首都", 3) == [0]


def test_vectors_rank_by_cosine():
    corpus = corpus_of(["aaab", "bbbb", "a", "gh"])
    found = VectorRetriever(letters, corpus).best("aaa", 2)
    vectors = np.array(letters([f"{part.title}\n{part.text}" for part in corpus.parts]), float)
    cosines = vectors[:, 0] / np.linalg.norm(vectors, axis=1)
    assert found == [*np.argsort(-cosines, kind="stable")[:2]]


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("nothing", "one vector of finite numbers for each"),
        ("uneven", "returns no vectors"),
        ("infinite", "one vector of finite numbers for each"),
        ("absent", "absent"),
    ],
)
def test_functions_that_return_no_vectors_are_refused(function, error):
    with pytest.raises(ValueError, match=error):
        open_retriever(f"{__file__}:{function}", corpus_of(["a", "b"]))


@pytest.mark.parametrize("name", ["bm25", f"{__file__}:letters"])
def test_an_index_is_written_once_and_read_again(name, tmp_path, monkeypatch):
    corpus = corpus_of(["aaab", "bbbb cc", "a c", "gh"])
    made = open_retriever(name, corpus, tmp_path / "index")
    files = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "index").iterdir()}
    again = open_retriever(name, corpus, tmp_path / "index")
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "index").iterdir()} == files
    assert [path.name for path in tmp_path.iterdir()] == ["index"]  # no draft is left
    for query in ("c", "aaab", "gh bbbb", "z"):
        assert made.best(query, 3) == again.best(query, 3) == open_retriever(name, corpus).best(query, 3)
    with pytest.raises(ValueError, match="belongs to other documents or another retriever"):
        open_retriever(name, corpus_of(["x"]), tmp_path / "index")


def test_an_index_does_not_overwrite_other_files(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="has other files"):
        open_retriever("bm25", corpus_of(["x"]), tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_failed_index_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="one vector"):
        open_retriever(f"{__file__}:infinite", corpus_of(["x"]), tmp_path / "index")
    assert [*tmp_path.iterdir()] == []
