"""What `local` survives and leaves: deaths of every process, forks and threads of the host, queues, long use."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sandboxes
from sandboxes import Limits, ReplayDiverged, SandboxBusy, SandboxClosed, Status
from sandboxes.local.provider import Local
from tests.support.process_tree import children
from tests.support.sandbox_hosts import ROOT, processes, running, why_not
from tests.support.sandbox_servers import wait_until

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture(autouse=True)
def possible() -> None:
    if reason := why_not("local"):
        pytest.skip(reason)


@pytest.fixture
def sandbox() -> Iterator[Local]:
    with Local(packages=()) as made:
        yield made


def groups(launchers: set[int]) -> list[Path]:
    """Control groups that one of these processes has made."""
    return [path for pid in launchers for path in Path("/sys/fs/cgroup").rglob(f"turnwise-{pid}")]


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that only this test writes to, and that the users of sandboxes can enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def wardens(sandbox: Local) -> set[int]:
    """Pids of the processes below the launcher and the zygote."""
    launcher = sandbox._light_pool.pid
    (zygote,) = children(launcher)
    return set(children(zygote))


def test_close_leaves_no_process_no_file_and_no_control_group(temporary: Path) -> None:
    before = processes()
    with Local(packages=()) as sandbox:
        session = sandbox.session()
        session.cell(
            "import threading; threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()"
        )
        sandbox.run(["sh", "-c", "sleep 60 &"])
        opened = processes()
        assert opened - before
    assert wait_until(lambda: processes() <= before and not running(opened - before))
    assert groups(opened - before) == []
    assert not list(temporary.iterdir())
    with pytest.raises(SandboxClosed, match="closed"):
        sandbox.run("1")


def test_when_the_host_is_killed_everything_ends() -> None:
    program = (
        "import os, sandboxes, threading, time\nbox = sandboxes.open('local', packages=())\n"
        "threading.Thread(target=box.run, args=('import time; time.sleep(99)',), kwargs={'timeout_s': 99}).start()\n"
        "session = box.session(); session.cell('x = 1'); time.sleep(0.3)\nprint('up', flush=True); time.sleep(99)"
    )
    host = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None and host.stdout.readline() == "up\n"
    opened = processes(host.pid)
    assert len(opened) >= 4  # launcher, zygote, two wardens, two candidates
    host.kill()
    host.wait()
    host.stdout.close()
    assert wait_until(lambda: not processes(host.pid) and not running(opened))
    assert wait_until(lambda: groups(opened) == [])


@pytest.mark.parametrize("name", ["local:landlock", "local:process"])
def test_when_the_host_of_a_weaker_tier_is_killed_its_folder_goes_too(name: str, temporary: Path) -> None:
    if reason := why_not(name):
        pytest.skip(reason)
    program = (
        f"import os, sandboxes\nbox = sandboxes.open({name!r}, packages=())\nsession = box.session()\n"
        "session.cell('x = 1'); session.write('f', 'x')\nos.kill(os.getpid(), 9)"
    )
    host = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    host.wait()
    assert wait_until(lambda: not processes(host.pid))
    assert wait_until(lambda: not list(temporary.iterdir()))


@pytest.mark.parametrize("which", ["launcher", "zygote"])
def test_a_sandbox_outlives_the_death_of_its_processes(sandbox: Local, which: str) -> None:
    assert sandbox.run("print(1)").stdout == "1\n"
    launcher = sandbox._light_pool.pid
    os.kill(launcher if which == "launcher" else min(children(launcher)), signal.SIGKILL)
    assert wait_until(lambda: sandbox._light_pool._zygote._process.poll() is not None)
    assert sandbox.run("print(2)").stdout == "2\n"
    assert sandbox.session().cell("3").stdout == "3\n"


def test_a_warden_that_is_killed_in_a_call_is_replaced_and_the_call_made_again(sandbox: Local) -> None:
    sandbox.run("1")
    with ThreadPoolExecutor(1) as threads:
        before = wardens(sandbox)
        answer = threads.submit(sandbox.run, "import time; time.sleep(3); print('made')")
        assert wait_until(lambda: any(children(pid) for pid in before))
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        assert answer.result().stdout == "made\n"
    assert not before & wardens(sandbox)


def test_a_session_whose_warden_is_killed_is_our_fault_and_over(sandbox: Local) -> None:
    session = sandbox.session()
    session.cell("x = 1")
    for pid in wardens(sandbox):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(sandboxes.SandboxDied):
        session.run("1")
    assert not session.alive


def test_a_sandbox_outlives_the_thread_that_opened_it() -> None:
    made: list[Local] = []
    thread = threading.Thread(target=lambda: made.append(Local(packages=())))
    thread.start()
    thread.join()
    time.sleep(0.1)
    with made[0] as sandbox:
        assert sandbox.run("print(1)").stdout == "1\n"


def test_a_forked_host_gets_processes_of_its_own_and_leaves_its_parents(sandbox: Local) -> None:
    sandbox.run("1")
    ours = wardens(sandbox)
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = int(sandbox.run("print(1)").stdout != "1\n" or bool(wardens(sandbox) & ours))
            sandbox.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert sandbox.run("print(2)").stdout == "2\n"
    assert wardens(sandbox) == ours


def test_calls_wait_their_turn_in_order_and_not_for_ever() -> None:
    with Local(packages=(), places=1, queue_s=20) as sandbox, ThreadPoolExecutor(4) as threads:
        ended: list[int] = []
        first = threads.submit(sandbox.run, "import time; time.sleep(3)")
        assert wait_until(lambda: sandbox._queue._active == 1)
        others = []
        for number in range(3):
            others.append(threads.submit(lambda number=number: (sandbox.run("1"), ended.append(number))))
            assert wait_until(lambda number=number: len(sandbox._queue._waiting) == number + 1)
        assert first.result().ok
        assert all(other.result() for other in others)
        assert ended == [0, 1, 2]
        sandbox._queue.queue_s = 0.1
        first = threads.submit(sandbox.run, "import time; time.sleep(3)")
        assert wait_until(lambda: sandbox._queue._active == 1)
        with pytest.raises(SandboxBusy, match=r"within 0\.1 s \(1 at once\)"):
            sandbox.run("1")
        assert first.result().ok
        assert sandbox.run("print(1)").ok


def test_many_calls_leak_neither_descriptors_nor_processes_nor_mounts(sandbox: Local) -> None:
    long_use(sandbox, calls=100, hostile_every=20)


@pytest.mark.long
def test_thousands_of_calls_leak_neither_descriptors_nor_processes_nor_mounts(sandbox: Local) -> None:
    long_use(sandbox, calls=2000, hostile_every=50)


HOSTILE = (
    "import os\nif os.fork() == 0:\n    os.setsid(); os.execv('/bin/sleep', ['sleep', '60'])",
    "import os\nfor _ in range(20): os.fork()",
    "while True: print('x' * 10000)",
    "import os; os.kill(-1, 9)",
    "open('x', 'wb').write(b'x' * (9 << 20))",
)


def long_use(sandbox: Local, calls: int, hostile_every: int) -> None:
    limits = Limits(memory_mb=200, disk_mb=8, processes=16, output_kb=64)

    def call(number: int) -> None:
        if number % hostile_every:
            assert sandbox.run(f"print({number})", limits=limits, timeout_s=60).stdout == f"{number}\n"
        else:
            sandbox.run(HOSTILE[number // hostile_every % len(HOSTILE)], limits=limits, timeout_s=2)

    def state() -> tuple[int, ...]:
        (zygote,) = children(sandbox._light_pool.pid)
        mounts = [Path(f"/proc/{pid}/mounts").read_text().count("\n") for pid in wardens(sandbox)]
        gc.collect()  # what earlier tests left open is closed now, not while this one counts
        return (
            len(os.listdir("/proc/self/fd")),
            len(os.listdir(f"/proc/{zygote}/fd")),
            len(wardens(sandbox)),
            max(mounts),
        )

    def settled() -> tuple[int, ...]:
        """The state once it has been the same for half a second: a place gets its next box after its answer."""
        last, since = state(), time.monotonic()
        while time.monotonic() < since + 0.5:
            time.sleep(0.05)
            if (now := state()) != last:
                last, since = now, time.monotonic()
        return last

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(call, range(1, 2 * hostile_every)))
        before = settled()
        list(threads.map(call, range(calls)))
    after = settled()
    assert all(now <= then for now, then in zip(after, before, strict=True)), (before, after)
    assert all(not children(pid) for pid in wardens(sandbox))


@pytest.mark.parametrize("limits", [{}, {"processes": 1, "files": 1, "output_kb": 1, "cpu_s": 0.01}])
def test_the_smallest_limits_are_no_fault_of_ours(sandbox: Local, limits: dict[str, float]) -> None:
    for _ in range(2):
        result = sandbox.run("print(1)", limits=Limits(memory_mb=1, disk_mb=1, **limits))  # type: ignore[arg-type]
        assert result.status in set(Status) - {Status.GARBLED}
        assert sandbox.run("print(1)", timeout_s=60).stdout == "1\n"


def test_sizes_beyond_the_machine_are_wrong_values(sandbox: Local) -> None:
    for call in (lambda limits: sandbox.run("1", limits=limits), lambda limits: sandbox.session(limits=limits)):
        with pytest.raises(ValueError, match="limit memory_mb = 10000000: this machine has"):
            call(Limits(memory_mb=10_000_000))
    for limits in ({"memory_mb": 1 << 40}, {"memory_mb": 1.5}, {"cpu_s": float("inf")}, {"files": "9"}):
        with pytest.raises(ValueError, match=f"limit {next(iter(limits))} = "):
            Limits(**limits)  # type: ignore[arg-type]


def test_a_fork_that_diverges_is_our_fault(sandbox: Local) -> None:
    session = sandbox.session()
    session.cell("import os; seen = int.from_bytes(os.urandom(8), 'big')")
    session.cell(f"assert seen == {session.cell('seen').stdout}")
    with pytest.raises(ReplayDiverged, match="step 3, a cell, was ok and is failed"):
        session.fork()  # the replay draws another number


def test_what_was_given_to_a_session_is_remembered_up_to_a_bound(
    sandbox: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandboxes.replay_session.MAX_REPLAY_BYTES", 100)
    session = sandbox.session()
    session.cell("x = 1")
    session.fork().close()
    session.write("f", b"x" * 100)
    with pytest.raises(sandboxes.SandboxError, match="no fork: more than"):
        session.fork()
    assert session.cell("x").stdout == "1\n" and session._steps is None


@pytest.mark.parametrize(
    ("end", "reason"),
    [("os.kill(os.getpid(), 9)", "signal 9"), ("os._exit(0)", "exit code 0"), ("os._exit(7)", "exit code 7")],
)
def test_an_interpreter_that_ends_between_two_calls_has_ended_the_session(
    sandbox: Local, end: str, reason: str
) -> None:
    session = sandbox.session()
    session.cell(f"import os, threading; threading.Timer(0.1, lambda: {end}).start()")
    warden = session.backend.place.sock  # type: ignore[attr-defined]
    wait_until(lambda: bool(select.select([warden], [], [], 0)[0]))  # for its report of the end
    result = session.cell("1")
    assert (result.status, result.stderr) == (Status.ENDED, f"the interpreter had ended since the last call: {reason}")
    assert not session.alive and session.cell("1").status is Status.ENDED


def test_no_module_of_this_project_is_loaded_where_candidates_run(sandbox: Local) -> None:
    program = "import sys; print([name for name in sys.modules if name.split('.')[0] in ('sandboxes', 'envs', 'rl')])"
    session = sandbox.session()
    outputs = [sandbox.run(program).stdout, session.cell(program).stdout, session.run(program).stdout]
    assert outputs == ["[]\n"] * 3


def test_numpy_and_sympy_are_there_and_equal_seeds_give_equal_numbers() -> None:
    for name in ("numpy", "sympy"):
        pytest.importorskip(name)
    program = "import sys; print('sympy' in sys.modules)\nimport numpy, sympy\nprint(numpy.random.rand(2), sympy.factorint(60))"
    with Local() as sandbox:
        found = {sandbox.run(program).stdout for _ in range(3)}
        assert len(found) == 1 and found.pop().startswith("True\n[0.5488135  0.71518937] {2: 2, 3: 1, 5: 1}")
        assert sandbox.session().cell("import sympy; sympy.integrate('x')").stdout == "x**2/2\n"
    with Local(packages=()) as sandbox:
        assert "ModuleNotFoundError" in sandbox.run("import numpy").stderr
