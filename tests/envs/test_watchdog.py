"""The watchdog: calls within calls, other threads, timers that are stopped; tests/rl/test_deadlines.py has commands."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from envs.watchdog import Budgets, Overrun, Watchdog

TICK_S = 0.02


def spin() -> None:
    while True:
        time.sleep(0.001)


def test_the_time_of_a_call_within_a_call_is_its_own() -> None:
    watchdog = Watchdog()
    with watchdog.running(interval_s=TICK_S):
        assert watchdog.call("outer", 0.3, watchdog.call, "inner", 60.0, time.sleep, 0.6) is None
        with pytest.raises(Overrun, match=r"^inner took longer than 0.1 s$"):
            watchdog.call("outer", 60.0, watchdog.call, "inner", 0.1, spin)


def test_an_overrun_names_the_flag_of_its_budget_and_when_the_call_began() -> None:
    watchdog = Watchdog()
    with watchdog.running(interval_s=TICK_S):
        watchdog.budgets = Budgets(load=0.1, step=0.1)
        start = time.monotonic()
        for call, flag in ((watchdog.load_call, "--load-seconds"), (watchdog.step_call, "--step-seconds")):
            with pytest.raises(Overrun, match=rf"^a call took longer than 0.1 s \({flag}\)$") as caught:
                call("a call", time.sleep, 60)
            assert start <= caught.value.start <= time.monotonic()
    assert watchdog.budgets == Budgets()


def test_python_code_on_another_thread_is_interrupted() -> None:
    watchdog, errors = Watchdog(), []

    def run() -> None:
        try:
            watchdog.call("a thread's call", 0.1, spin)
        except Overrun as error:
            errors.append(str(error))

    with watchdog.running(interval_s=TICK_S):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(30)
    assert errors == ["a thread's call took longer than 0.1 s"]


def test_the_signal_handler_is_put_back() -> None:
    before = signal.getsignal(signal.SIGURG)
    with Watchdog().running():
        assert signal.getsignal(signal.SIGURG) != before
    assert signal.getsignal(signal.SIGURG) == before


def test_a_process_outlives_the_deadline_of_a_call_that_ended_in_time() -> None:
    """The timers that end a process are stopped after the last call, too."""
    script = """if True:
        import time
        from envs.watchdog import WATCHDOG
        with WATCHDOG.running("program"):
            WATCHDOG.call("a call", 0.6, time.sleep, 0.4)
            time.sleep(6)
        print("alive")"""
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (child.stdout, child.stderr, child.returncode) == ("alive\n", "", 0)
