"""BM25: the formula itself, what it ranks, and ties."""

from math import isclose, log

import numpy as np
import pytest

from envs.tools.bm25 import BM25, words


def expected_score(query, documents, i, k1, b):
    """The formula of the docstring, written out for one document."""
    bags = [words(document) for document in documents]
    mean = sum(map(len, bags)) / len(bags)
    score = 0.0
    for word in words(query):
        f, n = bags[i].count(word), sum(word in bag for bag in bags)
        if not f:
            continue
        idf = log(1 + (len(bags) - n + 0.5) / (n + 0.5))
        score += idf * f * (k1 + 1) / (f + k1 * (1 - b + b * len(bags[i]) / mean))
    return score


@pytest.mark.parametrize("k1, b", [(1.5, 0.75), (0.9, 0.4), (2.0, 0.0), (1.2, 1.0)])
def test_scores_are_those_of_the_formula(k1, b):
    rng = np.random.default_rng(0)
    vocabulary = list("abcdefgh")
    for _ in range(30):
        documents = [" ".join(rng.choice(vocabulary, size=rng.integers(0, 9))) for _ in range(6)] + ["z"]
        query = " ".join(rng.choice(vocabulary, size=4))  # words repeat
        scores = BM25(documents, k1=k1, b=b).scores(query)
        for i in range(len(documents)):
            assert isclose(scores.get(i, 0.0), expected_score(query, documents, i, k1, b), abs_tol=1e-12)
        assert all(score > 0 for score in scores.values())


def test_two_words_outrank_one_and_a_rare_word_outranks_a_frequent_one():
    index = BM25(["old cook", "old monk", "sad cook", "old poet"])
    assert index.best("old cook", 4) == [0, 2, 1, 3]
    assert index.best("Old COOK!", 1) == [0]


def test_of_equal_documents_the_earlier_comes_first():
    assert BM25(["b", "a", "a b", "a"]).best("a", 4) == [1, 3, 2]


def test_no_document_matches_a_query_without_a_word_in_common():
    index = BM25(["a b", ""])
    assert index.best("c", 3) == index.best("", 3) == index.best("?!", 3) == []
    assert BM25([]).best("a", 3) == BM25([""]).best("a", 3) == []
