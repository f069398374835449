"""Timeouts of an engine process that neither ends nor answers; no vLLM needed."""

import os
import signal
import tempfile

import pytest

from rl.policy.vllm.process import EngineLost, EngineProcess


@pytest.mark.parametrize("size", [1, 2**24], ids=["no answer", "a message that is not even read"])
def test_a_process_that_does_not_answer_is_killed_after_the_limit(monkeypatch, size):
    monkeypatch.setenv("TURNWISE_ENGINE_TIMEOUT_S", "0.5")
    home = tempfile.mkdtemp()
    process = EngineProcess(home, {})
    os.kill(process.pid, signal.SIGSTOP)
    message = rf"process {process.pid} gave no answer for 0\.5 s \(TURNWISE_ENGINE_TIMEOUT_S\) and was killed"
    with pytest.raises(EngineLost, match=message):
        process.send(b"x" * size)
        process.receive()
    process.close()
    assert process._popen.returncode == -signal.SIGKILL
    assert not os.path.exists(home)


def test_an_answer_within_the_limit_is_not_hurried():
    process = EngineProcess(tempfile.mkdtemp(), {})
    try:
        assert process.timeout_s == 1800
        process.send(("step", (), [], []))
        assert process.receive()[0] == "failed"  # there is no engine yet, and it says so
    finally:
        process.close()


@pytest.mark.parametrize("value", ["soon", "0", "-1", "nan", "inf"])
def test_a_limit_that_is_none_is_named_and_nothing_starts(monkeypatch, value):
    monkeypatch.setenv("TURNWISE_ENGINE_TIMEOUT_S", value)
    home = tempfile.mkdtemp()
    with pytest.raises(ValueError, match=rf"^TURNWISE_ENGINE_TIMEOUT_S={value}: must be a number of seconds greater"):
        EngineProcess(home, {})
    assert not os.path.exists(home)
