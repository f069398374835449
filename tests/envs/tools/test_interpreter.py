"""The interpreter of an episode: what it forgets, what it preloads, and which code it does not run again."""

import copy

import pytest

from envs.shared_sandbox import Lease
from envs.tools.interpreter import Interpreter
from sandboxes import SandboxDied
from tests.support.sandbox_hosts import why_not


@pytest.fixture
def make(request):
    """Interpreters that share no cached reports with other tests: the output limit is part of the cache key."""
    if reason := why_not("local"):
        pytest.skip(reason)
    lease, interpreters = Lease("local", {"packages": ()}), []

    def make():
        interpreters.append(Interpreter(lease, timeout_s=1.0, max_chars=1000 + len(request.node.name)))
        return interpreters[-1]

    yield make
    for interpreter in interpreters:
        interpreter.close()
    lease.close()


def test_equal_code_is_run_once_and_later_code_has_its_names(make):
    first, second = make(), make()
    assert first.run("x = [1]\nx").text == second.run("x = [1]\nx").text == "[1]"
    assert first.is_open and not second.is_open
    assert [one.run("x.append(2)\nx").text for one in (first, second)] == ["[1, 2]"] * 2
    assert [one.run("import os\nx").text for one in (first, second)] == ["[1, 2]"] * 2 and second.is_open


def test_code_that_raised_is_cached_with_the_names_it_defined(make):
    first, second = make(), make()
    for one in (first, second):
        assert one.run("y = 1\n1/0") == ("ZeroDivisionError: division by zero (line 2)", False, True)
    assert not second.is_open and second.run("open\ny").text == "1"


@pytest.mark.parametrize(
    "code", ["import time", "open", "id(1)", "().__class__", "print('x' * 10**7)", "eval('0');exit()\nopen"]
)
def test_code_that_may_look_outside_or_was_stopped_is_run_every_time(make, code, monkeypatch):
    runs, run = [], Interpreter._run_in_session
    monkeypatch.setattr(Interpreter, "_run_in_session", lambda self, code: runs.append(code) or run(self, code))
    assert make().run(code) == make().run(code)
    assert len(runs) == 2


def test_code_after_code_that_looked_outside_is_run_too(make, monkeypatch):
    one, other = make(), make()
    one.run("import os\nx = 1")
    assert one.run("x").text == "1"
    assert other.run("x").text == "NameError: name 'x' is not defined (line 1)"


def test_a_new_episode_begins_with_the_preloads_and_nothing_else(make):
    one = make()
    one.run("import os\nx = 1")
    one.begin(["def f(x):\n    return x + 1"])
    assert not one.is_open
    assert one.run("f(1)").text == "2" and one.run("x").text == "NameError: name 'x' is not defined (line 1)"
    one.begin()
    assert "'f'" in one.run("f(1)").text


def test_preloaded_code_comes_back_after_a_stop_and_names_do_not(make):
    one = make()
    one.begin(["def f(x):\n    return x + 1"])
    one.run("x = 1")
    assert one.run("import os; os._exit(1)") == ("stopped (exit), restarted", False, False) and not one.is_open
    assert one.run("f(1)").text == "2" and "'x'" in one.run("x").text


def test_a_copy_has_the_names_and_a_process_of_its_own(make):
    one = make()
    one.run("import os\nx = [1]")
    other = copy.deepcopy(one)
    assert one.run("x.append(2)\nx").text == "[1, 2]" and other.run("x").text == "[1]"
    other.close()


def test_a_sandbox_error_is_raised_and_not_cached(make, monkeypatch):
    def fail(*_, **__):
        raise SandboxDied("gone")

    with monkeypatch.context() as patch:
        patch.setattr(Interpreter, "_run_in_session", fail)
        with pytest.raises(SandboxDied):
            make().run("7")
    assert make().run("7") == ("7", True, True)
