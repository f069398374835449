"""Environments of one process share a sandbox, and the last one to close leaves nothing."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from copy import deepcopy

import pytest

import envs
import sandboxes
from envs import shared_sandbox
from envs.shared_sandbox import Lease, check_seconds
from tests.support.sandbox_hosts import ROOT, processes, why_not
from tests.support.sandbox_servers import wait_until

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture(autouse=True)
def possible(monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := why_not("local"):
        pytest.skip(reason)
    monkeypatch.setattr(shared_sandbox, "_open", {})  # environments of other tests may still share one


def test_equal_leases_share_a_sandbox_until_the_last_is_closed() -> None:
    one, other, unlike = Lease(), Lease(), Lease("local", {"places": 1})
    assert one.sandbox is other.sandbox and one.sandbox is not unlike.sandbox
    sandbox = one.sandbox
    one.close()
    one.close()
    assert sandbox.run("print(1)").stdout == "1\n"
    other.close()
    unlike.close()
    with pytest.raises(sandboxes.SandboxClosed):
        sandbox.run("1")
    assert one.sandbox is not sandbox  # a holder may come back
    one.close()


def test_a_lease_that_is_forgotten_is_given_back() -> None:
    before = processes()
    lease = Lease()
    lease.sandbox.run("1")
    assert processes() > before
    del lease
    gc.collect()
    assert processes() <= before


def test_a_copy_has_a_share_of_its_own() -> None:
    lease = Lease()
    copy = deepcopy(lease)
    assert copy.sandbox is lease.sandbox
    sandbox = lease.sandbox
    lease.close()
    assert sandbox.run("print(1)").ok
    del copy
    gc.collect()
    with pytest.raises(sandboxes.SandboxClosed):
        sandbox.run("1")


def test_a_forked_process_opens_a_sandbox_of_its_own() -> None:
    lease = Lease()
    ours = lease.sandbox
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = int(lease.sandbox is ours or lease.sandbox.run("print(1)").stdout != "1\n")
            lease.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert ours.run("print(2)").stdout == "2\n"
    lease.close()


def test_an_unknown_name_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="no sandbox 'locl'; did you mean 'local'"):
        Lease("locl")
    with pytest.raises(ValueError, match="local: no tier 'nope'; there are namespaces, landlock, process"):
        Lease("local:nope")


@pytest.mark.parametrize("options", [3, True, "x", [], ""])
def test_options_that_are_no_mapping_are_told_at_once(options: object) -> None:
    with pytest.raises(
        ValueError, match=re.escape(f"sandbox_options must be a mapping such as {{'places': 2}}, not {options!r}")
    ):
        Lease("local", options)  # type: ignore[arg-type]


def test_an_unknown_option_and_a_wrong_value_are_told_at_once() -> None:
    for name in ("local", "local:landlock", "docker", "remote"):
        with pytest.raises(ValueError, match=f"unknown option 'foo' in sandbox_options of '{name}'"):
            Lease(name, {"foo": 1})
    with pytest.raises(ValueError, match="did you mean 'places'"):
        Lease("local", {"place": 1})
    with pytest.raises(ValueError, match=r"sandbox_options {'places': 'many'}: "):
        Lease("local", {"places": "many"})


def test_a_wrong_value_that_only_the_class_can_check_is_told_when_the_sandbox_is_opened() -> None:
    lease = Lease("remote", {"url": 5})
    with pytest.raises(ValueError, match=r"sandbox_options {'url': 5}: remote: url = 5"):
        _ = lease.sandbox


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 3600.1, 999999999])
def test_seconds_are_above_none_and_up_to_an_hour(value: float) -> None:
    with pytest.raises(ValueError, match=re.escape(f"timeout must be above 0 and at most 3600 seconds, not {value!r}")):
        check_seconds("timeout", value)
    assert [check_seconds("timeout", good) for good in (0.1, 3600)] == [0.1, 3600.0]


def test_a_process_that_forgets_its_leases_ends_in_silence_and_leaves_nothing() -> None:
    program = "from envs.shared_sandbox import Lease\nheld = [Lease(), Lease('local', {'places': 1})]\n[one.sandbox for one in held]"
    host = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert host.communicate() == ("", "") and host.returncode == 0
    assert wait_until(lambda: not processes(host.pid))


def test_a_wrong_value_of_an_option_is_refused_when_the_environment_is_made() -> None:
    with pytest.raises(ValueError, match=r"^sandbox_options \{'places': 0\}: places = 0: must be a whole number"):
        envs.make("code/Functions-v0", sandbox_options={"places": 0})
