"""What `docker` survives and leaves: deaths of container, agent, warden and host, long rest, wear."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Limits, SandboxBusy, SandboxClosed, SandboxDied, recycling
from sandboxes.docker import container as container_module
from sandboxes.docker.engine import HOST, OWNER, Engine
from sandboxes.docker.provider import Docker
from tests.support.sandbox_hosts import ROOT, docker_engine
from tests.support.sandbox_servers import wait_until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    if reason := docker_engine():
        pytest.skip(reason)
    made = Engine()
    yield made
    made.close()


@pytest.fixture
def sandbox(engine: Engine) -> Iterator[Docker]:
    with Docker(packages=(), places=2) as made:
        yield made


def containers(engine: Engine, owner: int | None = None) -> set[str]:
    """Every container of this process, or of another, that the engine knows: others may use it meanwhile."""
    begin = f"{owner or os.getpid()}:"
    found = engine.api.containers(all=True, filters={"label": OWNER})
    return {one["Id"] for one in found if one["Labels"][OWNER].startswith(begin)}


def population(engine: Engine, container: str) -> int:
    """How many processes it has; 0 before its start and after its end."""
    try:
        return len(engine.api.top(container)["Processes"])
    except engine.errors.APIError:
        return 0


def pids(engine: Engine, container: str) -> list[int]:
    """The processes of a container as the host numbers them: agent, warden, candidates."""
    top = engine.api.top(container)
    found = sorted(int(row[top["Titles"].index("PID")]) for row in top["Processes"])
    if not all(Path(f"/proc/{pid}").exists() for pid in found) or os.geteuid():
        pytest.skip("the engine's processes are not this user's to signal")
    return found


def running(threads: ThreadPoolExecutor, sandbox: Docker, engine: Engine, text: str) -> tuple[Future[Any], str]:
    """A call that says so once it runs, and its container."""
    answer = threads.submit(sandbox.run, f"import time; time.sleep(6); print({text!r})", timeout_s=30)
    (container,) = [container.id for container in sandbox._pool._all]
    assert wait_until(lambda: population(engine, container) == 3)
    return answer, container


def test_close_leaves_no_container(engine: Engine) -> None:
    before = containers(engine)
    with Docker(packages=(), places=2) as sandbox:
        session = sandbox.session()
        session.cell("import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()")
        sandbox.run(["sh", "-c", "sleep 60 &"])
        assert len(containers(engine) - before) == 2
        closed = sandbox.session()
        closed.close()
        assert wait_until(lambda: len(containers(engine) - before) == 2)
    assert wait_until(lambda: containers(engine) <= before)
    with pytest.raises(SandboxClosed, match="closed"):
        sandbox.run("1")


def test_a_sandbox_that_is_forgotten_leaves_no_container(engine: Engine) -> None:
    before = containers(engine)
    sandbox = Docker(packages=(), places=1)
    assert sandbox.run("print(1)").ok
    assert containers(engine) > before
    del sandbox
    gc.collect()
    assert wait_until(lambda: containers(engine) <= before)


def test_when_the_host_is_killed_in_the_middle_of_calls_its_containers_end(engine: Engine) -> None:
    program = (
        "import sandboxes, threading, time\nbox = sandboxes.open('docker', packages=())\n"
        "session = box.session(); session.cell('x = 1')\n"
        "threading.Thread(target=box.run, args=('import time; time.sleep(99)',), kwargs={'timeout_s': 99}).start()\n"
        "print('up', flush=True); time.sleep(99)"
    )
    host = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None and host.stdout.readline() == "up\n"
    assert wait_until(lambda: len(containers(engine, host.pid)) == 2)
    assert wait_until(lambda: all(population(engine, one) == 3 for one in containers(engine, host.pid)))
    host.kill()
    host.wait()
    host.stdout.close()
    assert wait_until(lambda: not containers(engine, host.pid))


@pytest.mark.parametrize("which", [0, 1], ids=["agent", "warden"])
def test_who_is_killed_in_a_call_is_replaced_and_the_call_made_again(
    sandbox: Docker, engine: Engine, which: int
) -> None:
    with ThreadPoolExecutor(1) as threads:
        answer, container = running(threads, sandbox, engine, "made")
        os.kill(pids(engine, container)[which], signal.SIGKILL)
        assert answer.result().stdout == "made\n"
    assert container not in {container.id for container in sandbox._pool._all}
    assert wait_until(lambda: container not in containers(engine))


def test_a_container_that_is_removed_in_a_call_is_replaced_and_the_call_made_again(
    sandbox: Docker, engine: Engine
) -> None:
    with ThreadPoolExecutor(1) as threads:
        answer, container = running(threads, sandbox, engine, "made")
        engine.remove(container)
        assert answer.result().stdout == "made\n"


def test_a_session_whose_container_ends_is_our_fault_and_over(sandbox: Docker, engine: Engine) -> None:
    session = sandbox.session()
    session.cell("x = 1")
    engine.remove(session.backend.container.id)
    with pytest.raises(SandboxDied, match="died in the middle of a call"):
        session.cell("x")
    assert not session.alive
    assert session.cell("x").status == "ended"
    session.close()


def test_an_agent_that_is_silent_is_given_up_at_its_deadline(
    sandbox: Docker, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sandbox.session()
    session.cell("x = 1")
    container = session.backend.container.id
    os.kill(pids(engine, container)[0], signal.SIGSTOP)
    monkeypatch.setattr(container_module, "OVERDUE_S", 0.3)
    monkeypatch.setattr(container_module, "STOP_S", 0.3)
    with pytest.raises(SandboxDied, match=r"did not answer within 0\.5 s"):
        session.cell("x", timeout_s=0.2)
    assert wait_until(lambda: container not in containers(engine))


def test_a_container_that_has_rested_is_asked_before_it_is_used(
    sandbox: Docker, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.run("1")
    (first,) = sandbox._pool._idle
    monkeypatch.setattr(recycling, "RECHECK_AFTER_S", 0.0)
    assert sandbox.run("print(1)").ok and sandbox._pool._idle == [first]  # it is well
    monkeypatch.setattr(recycling, "HEALTH_TIMEOUT_S", 0.2)
    monkeypatch.setattr(container_module, "STOP_S", 0.3)
    os.kill(pids(engine, first.id)[0], signal.SIGSTOP)
    assert sandbox.run("print(2)").stdout == "2\n"
    assert first not in sandbox._pool._idle
    assert wait_until(lambda: first.id not in containers(engine))


def test_a_container_in_which_something_is_left_is_not_used_again(
    sandbox: Docker, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = sandbox._pool._idle
    intruder = engine.api.exec_create(first.id, ["sleep", "60"])
    engine.api.exec_start(intruder["Id"], detach=True)
    assert wait_until(lambda: population(engine, first.id) == 3)
    monkeypatch.setattr(recycling, "RECHECK_AFTER_S", 0.0)
    assert sandbox.run("print(1)").stdout == "1\n"
    assert first not in sandbox._pool._idle


@pytest.mark.parametrize(("name", "value", "kept"), [("MAX_CALLS", 3, 3), ("MAX_GROWTH", -(1 << 40), 1)])
def test_a_container_that_is_worn_or_has_grown_is_replaced(
    sandbox: Docker, monkeypatch: pytest.MonkeyPatch, name: str, value: int, kept: int
) -> None:
    monkeypatch.setattr(recycling, name, value)
    (first,) = sandbox._pool._idle
    for number in range(kept):
        assert sandbox._pool._idle == [first], number
        assert sandbox.run("1").ok
    assert sandbox._pool._idle == []
    assert sandbox.run("print(1)").stdout == "1\n"


def test_containers_of_dead_owners_are_swept_away_and_no_others(engine: Engine) -> None:
    def left(owner: str, where: str) -> str:
        labels = {OWNER: owner, HOST: where}
        return engine.api.create_container(image, ["none"], entrypoint=[], labels=labels)["Id"]

    with Docker(packages=(), places=1, warm=0) as first:
        image, here = first.image, engine.label[HOST]
    alive = left(engine.label[OWNER], here)
    elsewhere = left("1:1", "another boot")
    dead = [left("1:1", here), left("4194304:7", here), left(f"{os.getpid()}:1", here)]
    try:
        with Docker(packages=(), places=1, warm=0):
            found = engine.api.containers(all=True, filters={"label": OWNER})
            assert {one["Id"] for one in found} & {alive, elsewhere, *dead} == {alive, elsewhere}
    finally:
        engine.await_removal([alive, elsewhere])


def test_containers_of_many_shapes_are_not_hoarded(sandbox: Docker, engine: Engine) -> None:
    before = containers(engine)
    for memory_mb in (100, 110, 120, 130):
        assert sandbox.run("print(1)", limits=Limits(memory_mb=memory_mb)).ok
    assert len(sandbox._pool._idle) == 2
    assert wait_until(lambda: len(containers(engine)) <= len(before) + 1)
    assert sandbox._pool._idle[-1].config.memory_mb == 130


def test_calls_wait_their_turn_and_not_for_ever(engine: Engine) -> None:
    with Docker(packages=(), places=1, queue_s=20) as sandbox, ThreadPoolExecutor(1) as threads:
        answer, _ = running(threads, sandbox, engine, "made")
        sandbox._queue.queue_s = 0.1
        with pytest.raises(SandboxBusy, match=r"within 0\.1 s \(1 at once\)"):
            sandbox.run("1")
        assert answer.result().stdout == "made\n"
        assert sandbox.run("print(1)").ok


def test_a_forked_host_gets_containers_of_its_own_and_leaves_its_parents(sandbox: Docker, engine: Engine) -> None:
    sandbox.run("1")
    ours = containers(engine)
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = int(sandbox.run("print(1)").stdout != "1\n" or not containers(engine))
            sandbox.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert sandbox.run("print(2)").stdout == "2\n"
    assert containers(engine) == ours


def test_a_forked_process_that_ends_leaves_its_parents_sessions_alone(sandbox: Docker) -> None:
    session = sandbox.session()
    session.cell("x = 1")
    pid = os.fork()
    if not pid:
        session.backend.close()  # as the end of its interpreter does
        os._exit(0)
    os.waitpid(pid, 0)
    assert session.cell("x").stdout == "1\n"
    session.close()


def test_many_calls_leak_neither_descriptors_nor_processes_nor_containers(sandbox: Docker, engine: Engine) -> None:
    limits = Limits(memory_mb=200, disk_mb=8, processes=16, output_kb=64)
    hostile = (
        "import os\nif os.fork() == 0:\n    os.setsid(); os.execv('/bin/sleep', ['sleep', '60'])",
        "import os\nfor _ in range(20): os.fork()",
        "import os; os.kill(-1, 9)",
        "open('x', 'wb').write(b'x' * (9 << 20))",
    )
    sandbox.run("1", limits=limits)
    held, before = len(os.listdir("/proc/self/fd")), {container.id for container in sandbox._pool._all}
    for number in range(100):
        if number % 10:
            assert sandbox.run(f"print({number})", limits=limits, timeout_s=60).stdout == f"{number}\n"
        else:
            sandbox.run(hostile[number // 10 % len(hostile)], limits=limits, timeout_s=20)
    assert len(os.listdir("/proc/self/fd")) == held
    assert {container.id for container in sandbox._pool._all} == before <= containers(engine)
    assert all(population(engine, one) == 2 for one in before)
