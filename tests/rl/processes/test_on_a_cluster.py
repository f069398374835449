"""Workers and engines on the nodes of a Ray cluster do what they do on this machine, whatever dies."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs Ray: pip install 'turnwise-rl[ray]'")

import envs
from envs.watchdog import WATCHDOG
from rl.policy.hf import HFPolicy
from rl.policy.pool.messages import EngineOptions
from rl.policy.pool.pool import EnginePool
from rl.policy.pool.routing import Router
from rl.policy.pretrained import load_pretrained
from rl.processes.cluster.connection import Room, connect, connection
from rl.processes.cluster.nodes import own_needs
from rl.processes.timeout import CLUSTER_VARIABLE
from rl.rollout.workers.pool import Workers
from tests.rl.policy.pool.test_pool import CONTEXT, SLOTS, assert_alike, change_weights, replies, run
from tests.rl.policy.pool.test_runs import assert_alike as assert_runs_alike
from tests.rl.rollout.workers.test_workers import summary
from tests.support.cluster import LocalCluster, connected_cluster, end_actor, marked, wait_until, words_of
from tests.support.episodes import FixedPolicy, make_runner, make_ticket, play_group
from tests.support.mortal import Mortal
from tests.support.paths import ROOT
from tests.support.runs import flags, metrics, small_model, train, train_run, training_error

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]
CLUSTER = ("--workers", "2", "--engines", "2", "--cluster", "auto")
ENV = """
from pathlib import Path
from tests.support.episodes import Count

class Mine(Count):
    goal = 4
    here = Path(__file__).name
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One node with room for two workers and two engines, and for their successors."""
    with connected_cluster(cpus=12) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def workers(cluster: LocalCluster) -> Iterator[Workers]:
    workers = Workers.open(2, "auto")
    assert workers is not None
    yield workers
    workers.close()


@pytest.fixture(scope="module")
def engines(cluster: LocalCluster) -> Iterator[tuple[EnginePool, HFPolicy]]:
    """Two engines on the cluster, and one in this process over the same model."""
    model, _ = load_pretrained(small_model())
    options = EngineOptions("hf", SLOTS, CONTEXT, "", "", "cpu")
    pool = EnginePool(model, options, 2, host=connection("auto"))
    yield pool, HFPolicy(model, slots=SLOTS, context=CONTEXT)
    pool.close()


def test_engines_get_new_weights_and_sample_what_one_does(engines: tuple[EnginePool, HFPolicy]) -> None:
    pool, alone = engines
    before = run(replies(pool))
    assert_alike(before, run(replies(alone)))
    change_weights(alone.model)
    for policy in (pool, alone):
        policy.sync_weights()
        policy.version = 70
    after = run(replies(pool))
    assert_alike(after, run(replies(alone)))
    assert [one.ids for one in after] != [one.ids for one in before] and set(after[0].versions) == {70}
    assert pool.metrics()["engines/busiest"] == 1 and not pool.num_restarts
    assert not any(engine._sent_files for engine in pool._engines)


@pytest.mark.parametrize("what", ["actor", "process"])
def test_a_dead_engine_changes_no_reply(what: str, engines: tuple[EnginePool, HFPolicy]) -> None:
    pool, alone = engines
    restarts = pool.num_restarts

    async def play() -> Any:
        await pool._until_ready()
        pool._router = Router(2)  # else all groups stay at the engine that was left
        dying = pool._engines[0]
        asked = asyncio.ensure_future(replies(pool, tokens=80))
        while not dying._requests:
            await asyncio.sleep(0)
        if what == "actor":
            end_actor(dying)
        else:
            os.kill(dying.pid, signal.SIGKILL)
        mine = await asked
        assert dying.end.startswith(f"engine 1 (process {dying.pid} on node 127.0.0.2) ")
        assert ("its actor or its node has died" if what == "actor" else "was killed (SIGKILL)") in dying.end
        return mine

    assert_alike(run(play()), run(replies(alone, tokens=80)))
    assert pool.num_restarts == restarts + 1


def test_an_environment_of_a_file_that_the_node_has_not(tmp_path: Path, workers: Workers) -> None:
    file = tmp_path / "mine.py"
    file.write_text(ENV)
    make_env = partial(envs.make, f"{file}:Mine")
    local = play_group(make_runner(make_env), make_ticket(size=4))
    far_env = workers.far(make_env)
    file.unlink()
    runner = make_runner(far_env, step_s=20.0)
    assert summary(play_group(runner, make_ticket(size=4))) == summary(local)
    runner.close()


@pytest.mark.parametrize("what", ["actor", "process"])
def test_a_dead_worker_changes_no_episode_and_no_reply_is_sampled_again(
    what: str, tmp_path: Path, workers: Workers
) -> None:
    class Kills(FixedPolicy):
        """Ends the actor of a worker in the middle."""

        async def sample(self, *args: Any, **kwargs: Any) -> Any:
            if what == "actor" and len(self.requests) == 7:
                end_actor(workers.workers[1].process)
            return await super().sample(*args, **kwargs)

    mark = tmp_path / "mark"
    groups, policies = [], []
    for make_env in (Mortal, workers.far(partial(Mortal, "reply", str(mark) if what == "process" else ""))):
        policies.append(Kills() if make_env is not Mortal else FixedPolicy())
        runner = make_runner(make_env, policies[-1], step_s=60.0)
        groups.append(summary(play_group(runner, make_ticket(size=4))))
        runner.close()
    assert mark.exists() == (what == "process")
    assert groups[0] == groups[1] and not groups[1][1]
    assert Counter(session for session, *_ in policies[1].requests) == {f"0/{member}": 5 for member in range(4)}
    assert sum(worker._incarnation for worker in workers.workers) > 2


def test_a_deadline_in_a_worker_is_told_by_the_run_s_clock(workers: Workers) -> None:
    from tests.support.mortal import Stuck

    runner = make_runner(workers.far(Stuck), step_s=0.5, retries=0)
    before = time.monotonic()
    with WATCHDOG.running(interval_s=0.02):
        group = play_group(runner, make_ticket())
    assert "took longer than 0.5 s (--step-seconds)" in group.errored[0].error
    assert before <= runner.timeouts._last_time
    runner.close()


def test_a_run_on_two_nodes_goes_on_when_one_of_them_is_lost(cluster: LocalCluster, tmp_path: Path) -> None:
    """All tickets are trained once, with the tokens of one process, and what was on the node is on the other one."""
    words = flags("Talk", updates=6)
    alone = train_run(*words, out=tmp_path / "alone")
    node, out = cluster.add(cpus=4), tmp_path / "apart"
    has_lost = threading.Event()

    def lose() -> None:
        """Remove the node after the first update."""
        log = out / "metrics.jsonl"
        while not (log.exists() and log.read_text().count("\n")):
            time.sleep(0.02)
        cluster.remove(node)
        has_lost.set()

    threading.Thread(target=lose, daemon=True).start()
    result = train(*words, *CLUSTER, "--out", str(out))
    assert result.code == 0, result.err
    assert has_lost.is_set()
    assert_runs_alike(alone, out)
    assert sum(line["engines/restarts"] for line in metrics(out)) >= 1


def test_what_cannot_be_placed_is_one_line(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLUSTER_VARIABLE, "1")
    with pytest.raises(
        ValueError, match=r"^--cluster auto: --workers 99 need 99 CPUs, and the cluster has \d+ within 1 s"
    ):
        connect("auto", [Room("--workers", 99)])
    model, _ = load_pretrained(small_model())
    gpu = EngineOptions("hf", SLOTS, CONTEXT, "", "", "cuda")
    line = r"^--engines 2: engine . \(on no node yet\) found no node with 1 CPU and 1 GPU to spare within 1 s"
    with pytest.raises(ValueError, match=line):
        EnginePool(model, gpu, 2, host=connection("auto"))
    assert CLUSTER_VARIABLE in training_error(*flags(), "--workers", "99", "--cluster", "auto")


def test_a_node_that_lacks_what_the_run_has_is_named(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CLUSTER_VARIABLE, "60")
    monkeypatch.setenv("TURNWISE_DATA", "/nowhere/at all")
    line = r"^--cluster auto: node 127\.0\.0\.2 has no folder /nowhere/at all \(--data-root\)"
    with pytest.raises(ValueError, match=line):
        connect("auto", ())
    monkeypatch.delenv("TURNWISE_DATA")
    monkeypatch.setattr("rl.processes.cluster.connection.own_needs", lambda: own_needs()._replace(code="other"))
    with pytest.raises(ValueError, match=r"^--cluster auto: node 127\.0\.0\.2 has other code of this library in "):
        connect("auto", ())
    monkeypatch.undo()
    connect("auto", ())


def test_a_lost_node_that_is_still_listed_is_left_out(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    lost = {"Alive": True, "NodeID": "ab" * 28, "NodeManagerAddress": "127.0.0.9"}
    monkeypatch.setattr(ray, "nodes", lambda nodes=ray.nodes: [*nodes(), lost])
    connect("auto", ())


def test_a_cluster_is_reached_by_ray_s_client(cluster: LocalCluster) -> None:
    words = ("--env", "games/GuessNumber-v0", "--policy", "oracle", "--episodes", "4", "--workers", "2")
    command = [sys.executable, "-m", "rl.evaluate", *words, "--cluster", cluster.client_address]
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "success" in done.stdout and "4" in done.stdout


def test_nothing_is_left_of_a_run_that_is_killed(cluster: LocalCluster, tmp_path: Path) -> None:
    mark, log = f"TURNWISE_MARK={tmp_path}", tmp_path / "run" / "metrics.jsonl"
    words = [*flags("Talk", updates=100_000), *CLUSTER, "--out", str(tmp_path / "run")]
    environment = {**os.environ, "TURNWISE_MARK": str(tmp_path)}  # which is sent to all that the run starts
    command = [sys.executable, "-m", "rl.train", *words]
    run = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    wait_until(lambda: log.exists() and log.read_text().count("\n") > 1, 150)
    own = {pid for pid in marked(mark) if b"server" in words_of(pid)}
    homes = [Path(word) for pid in own for word in re.findall(r"/[\w/.-]*turnwise-\w+", words_of(pid).decode())]
    assert len(own) == 4 and len(homes) == 2 and all(home.is_dir() for home in homes)
    run.kill()
    run.wait()
    wait_until(lambda: not marked(mark) and not any(home.exists() for home in homes), 60)
