"""A memo computes each value once, also for callers that come at the same time."""

import threading

import pytest

from envs.tools.memo import Memo

WAIT_S = 30


def test_a_value_is_computed_once_for_each_key():
    memo, computed_keys = Memo(9), []
    results = [memo.get_or_compute(key, lambda key=key: computed_keys.append(key) or key * 2) for key in (1, 2, 1)]
    assert results == [(2, True), (4, True), (2, False)] and computed_keys == [1, 2]


def test_callers_wait_for_the_one_that_computes():
    memo, start, release, results = Memo(9), threading.Event(), threading.Event(), []

    def work():
        start.set()
        assert release.wait(WAIT_S)
        return "slow"

    def ask():
        results.append(memo.get_or_compute("key", work))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    threads[0].start()
    assert start.wait(WAIT_S)
    for thread in threads[1:]:
        thread.start()
    release.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(results) == [("slow", False)] * 5 + [("slow", True)]


def test_each_caller_meets_its_own_exception_and_none_is_cached():
    memo, start, release, results = Memo(9), threading.Event(), threading.Event(), []

    def fail():
        start.set()
        assert release.wait(WAIT_S)
        raise OSError

    def ask(work):
        try:
            results.append(memo.get_or_compute("key", work))
        except OSError:
            results.append("failed")

    threads = [threading.Thread(target=ask, args=(work,)) for work in (fail, lambda: "sound")]
    threads[0].start()
    assert start.wait(WAIT_S)
    threads[1].start()
    release.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(results, key=str) == [("sound", True), "failed"]
    assert memo.get_or_compute("key", lambda: "again")[0] in ("again", "sound")


def test_a_value_that_is_not_cacheable_is_computed_again():
    memo = Memo(9, lambda value: value > 1)
    assert [memo.get_or_compute("key", lambda value=value: value) for value in (1, 2, 3)] == [
        (1, True),
        (2, True),
        (2, False),
    ]


@pytest.mark.parametrize("max_size", [1, 3])
def test_the_oldest_values_are_dropped(max_size):
    memo = Memo(max_size)
    for key in range(5):
        memo.get_or_compute(key, lambda: "old")
    is_cached = [not memo.get_or_compute(key, lambda: "new")[1] for key in (4, 4 - max_size)]
    assert is_cached == [True, False]
