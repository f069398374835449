"""Episodes that wait for something they share: the wait counts for no deadline, and nobody keeps what he does not use."""

from __future__ import annotations

import time
from typing import Any

from envs.episodes.queue_times import QUEUE_TIMES
from envs.types import Stop
from tests.support.episodes import Count, make_runner, play_member


class Queueing(Count):
    blocking = True
    waits = True
    releases = 0

    def start(self) -> Any:
        if self.waits:
            with QUEUE_TIMES.waiting():
                time.sleep(0.4)
        else:
            time.sleep(0.4)
        return super().start()

    def release(self) -> None:
        type(self).releases += 1


class Slow(Queueing):
    waits = False


def play(env: type, **limits: Any) -> Any:
    runner = make_runner(env, **limits)
    try:
        return play_member(runner)
    finally:
        runner.close()


def test_a_wait_in_a_queue_counts_for_no_deadline() -> None:
    assert play(Queueing, step_s=0.2, episode_s=0.3).stop != Stop.ERROR
    late = play(Slow, step_s=0.2)
    assert late.stop == Stop.ERROR and "--step-seconds" in late.error


def test_an_episode_that_is_cut_off_gives_back_what_it_holds() -> None:
    Queueing.releases = 0
    whole = play(Queueing)
    assert whole.stop == Stop.TERMINATED and Queueing.releases == 1
    cut = play(Queueing, reply_tokens=2, max_tokens=8)
    assert cut.stop not in (Stop.TERMINATED, Stop.ERROR) and Queueing.releases == 2
