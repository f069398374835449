"""Killable workers: what a call may cost, whose fault a failure is, and that nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from envs.grading.workers import OverLimit, WorkerError, WorkerPool

SERVED = """
import os, resource, signal, time

def build():
    marker = os.environ.get("MARKER", "")
    def call(what, *rest):
        if what == "add":
            return sum(rest)
        if what == "pid":
            return os.getpid()
        if what == "spin":
            while True:
                pass
        if what == "deaf":
            while True:
                try:
                    while True:
                        pass
                except BaseException:
                    pass
        if what == "power":
            return len(str(9 ** 9 ** 9)) > 0
        if what == "fill":
            return len(bytearray(8 << 30))
        if what == "sleep":
            time.sleep(3600)
        if what == "cpu limit":
            return resource.getrlimit(resource.RLIMIT_CPU)[0] - time.process_time()
        if what == "raise":
            raise KeyError("broken")
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "die once":
            if not os.path.exists(marker):
                open(marker, "w").close()
                os._exit(3)
            return "second"
        if what == "print":
            print("noise " * 10_000, flush=True)
            return "quiet"
    return call

def broken():
    raise RuntimeError("no such thing")
"""


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    (folder / "served_calls.py").write_text(SERVED)
    sys.path.insert(0, str(folder))
    os.environ["MARKER"] = str(folder / "marker")
    workers = WorkerPool("served_calls:build")
    yield workers
    workers.close()
    sys.path.remove(str(folder))
    del os.environ["MARKER"]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_dead(pid: int, most_s: float = 20.0) -> bool:
    end = time.monotonic() + most_s
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not is_alive(pid)


def test_no_process_runs_before_the_first_call():
    assert WorkerPool("served_calls:build").pids == []


def test_one_worker_serves_call_after_call(pool):
    assert pool.call("add", 1, 2, deadline_s=5) == 3
    assert pool.call("pid", deadline_s=5) == pool.call("pid", deadline_s=5) != os.getpid()


@pytest.mark.parametrize("what", ["spin", "power"])
def test_a_call_that_computes_for_ever_is_interrupted_and_is_the_arguments_fault(pool, what):
    before = pool.call("pid", deadline_s=5)
    with pytest.raises(OverLimit) as error_info:
        pool.call(what, deadline_s=0.5)
    assert error_info.value.limit == "deadline"
    assert pool.call("pid", deadline_s=5) == before  # so the next call need not wait for a new worker


def test_a_call_that_ignores_its_interruption_is_killed(pool):
    before = pool.call("pid", deadline_s=5)
    with pytest.raises(OverLimit) as error_info:
        pool.call("deaf", deadline_s=0.5)
    assert error_info.value.limit == "deadline"
    assert not is_alive(before)
    assert pool.call("add", 2, 2, deadline_s=5) == 4


def test_a_memory_bomb_is_stopped_and_is_the_arguments_fault(pool):
    with pytest.raises(OverLimit) as error_info:
        pool.call("fill", deadline_s=20)
    assert error_info.value.limit == "memory"
    assert pool.call("add", 1, 1, deadline_s=5) == 2


def test_waiting_without_computing_is_our_fault_not_the_arguments(pool):
    with pytest.raises(WorkerError, match="waited"):
        pool.call("sleep", deadline_s=0.02)


def test_a_worker_that_died_while_idle_is_replaced_unseen(pool):
    pid = pool.call("pid", deadline_s=5)
    os.kill(pid, signal.SIGKILL)
    assert pool.call("pid", deadline_s=5) != pid


def test_a_worker_that_dies_in_a_call_is_retried_once(pool):
    assert pool.call("die once", deadline_s=5) == "second"


def test_two_deaths_in_a_row_raise_and_the_pool_goes_on(pool):
    with pytest.raises(WorkerError, match="-9"):
        pool.call("die", deadline_s=5)
    assert pool.call("add", 3, 4, deadline_s=5) == 7


def test_an_exception_in_the_function_is_a_fault_that_names_it(pool):
    with pytest.raises(WorkerError, match="KeyError: 'broken'"):
        pool.call("raise", deadline_s=5)


def test_what_the_function_prints_does_not_reach_the_answer(pool):
    assert pool.call("print", deadline_s=5) == "quiet"


def test_a_factory_that_cannot_load_is_a_fault_that_names_it(pool):
    with pytest.raises(WorkerError, match="RuntimeError: no such thing"):
        WorkerPool("served_calls:broken").call(deadline_s=1)
    with pytest.raises(WorkerError, match="No module named 'no_such_module'"):
        WorkerPool("no_such_module:build").call(deadline_s=1)


def test_close_leaves_no_process_and_a_later_call_starts_anew(pool):
    pid = pool.call("pid", deadline_s=5)
    pool.close()
    assert not is_alive(pid)
    assert pool.pids == []
    assert pool.call("pid", deadline_s=5) != pid


def test_workers_stay_until_their_last_user_closes(pool):
    pool.open()
    pool.open()
    pid = pool.call("pid", deadline_s=5)
    pool.close()
    assert is_alive(pid)
    pool.close()
    assert not is_alive(pid)


def test_threads_share_one_worker(pool):
    sums: list[int] = []
    threads = [threading.Thread(target=lambda i=i: sums.append(pool.call("add", i, i, deadline_s=5))) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sums) == [2 * i for i in range(8)]
    assert len(pool.pids) == 1


def test_a_worker_outlives_the_thread_that_started_it(pool):
    pool.close()
    pids: list[int] = []
    thread = threading.Thread(target=lambda: pids.append(pool.call("pid", deadline_s=5)))
    thread.start()
    thread.join()
    assert pool.call("pid", deadline_s=5) == pids[0]


def test_a_forked_child_starts_workers_of_its_own_and_leaves_the_parents(pool):
    mine = pool.call("pid", deadline_s=5)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            theirs = pool.call("pid", deadline_s=5)
            pool.close()
            os.write(writer, str(theirs).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    theirs = int(os.read(reader, 100))
    assert theirs != mine
    assert not is_alive(theirs)
    assert pool.call("pid", deadline_s=5) == mine


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "computing"])
def test_workers_end_when_their_parent_is_killed(pool, busy):
    script = textwrap.dedent(
        """
        import sys, threading, time
        from envs.grading.workers import WorkerPool
        workers = WorkerPool("served_calls:build")
        print(workers.call("pid", deadline_s=5), flush=True)
        if sys.argv[1] == "True":
            threading.Thread(target=lambda: workers.call("spin", deadline_s=600), daemon=True).start()
        time.sleep(600)
        """
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", script, str(busy)], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.2 if busy else 0)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert wait_until_dead(pid)


def test_the_kernel_would_stop_a_call_that_outlives_its_parent_in_c_code(pool):
    assert 5 < pool.call("cpu limit", deadline_s=5) <= 7


def test_a_normal_exit_of_the_parent_stops_the_workers(pool):
    script = "\n".join(
        (
            "from envs.grading.workers import WorkerPool",
            "workers = WorkerPool('served_calls:build')",
            "print(workers.call('pid', deadline_s=5))",
        )
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, check=True)
    assert wait_until_dead(int(done.stdout))
