"""A memo works a value out once, whoever asks and when."""

import threading

import pytest

from envs.tools.memo import Memo

WAIT_S = 30


def test_a_value_is_worked_out_once_for_each_key():
    memo, worked = Memo(9), []
    found = [memo.once(key, lambda key=key: worked.append(key) or key * 2) for key in (1, 2, 1)]
    assert found == [(2, True), (4, True), (2, False)] and worked == [1, 2]


def test_who_asks_meanwhile_waits_for_the_one_who_works():
    memo, begun, go, found = Memo(9), threading.Event(), threading.Event(), []

    def work():
        begun.set()
        assert go.wait(WAIT_S)
        return "slow"

    def ask():
        found.append(memo.once("key", work))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    threads[0].start()
    assert begun.wait(WAIT_S)
    for thread in threads[1:]:
        thread.start()
    go.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(found) == [("slow", False)] * 5 + [("slow", True)]


def test_a_failure_is_met_by_everyone_and_not_remembered():
    memo, begun, go, found = Memo(9), threading.Event(), threading.Event(), []

    def fail():
        begun.set()
        assert go.wait(WAIT_S)
        raise OSError

    def ask(work):
        try:
            found.append(memo.once("key", work))
        except OSError:
            found.append("failed")

    threads = [threading.Thread(target=ask, args=(work,)) for work in (fail, lambda: "sound")]
    threads[0].start()
    assert begun.wait(WAIT_S)
    threads[1].start()
    go.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(found, key=str) == [("sound", True), "failed"]
    assert memo.once("key", lambda: "again")[0] in ("again", "sound")


def test_a_value_that_does_not_last_is_worked_out_again():
    memo = Memo(9, lambda value: value > 1)
    assert [memo.once("key", lambda value=value: value) for value in (1, 2, 3)] == [(1, True), (2, True), (2, False)]


@pytest.mark.parametrize("most", [1, 3])
def test_the_oldest_are_forgotten(most):
    memo = Memo(most)
    for key in range(5):
        memo.once(key, lambda: "old")
    kept = [not memo.once(key, lambda: "new")[1] for key in (4, 4 - most)]
    assert kept == [True, False]
