"""Ranks on the nodes of a Ray cluster train as those of this machine do, whatever dies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("ray", reason="needs Ray: pip install 'turnwise-rl[ray]'")

from ray.util import placement_group_table

from rl.processes.cluster.connection import Room, connect, connection
from rl.processes.timeout import CLUSTER_VARIABLE
from rl.train.trainers.processes import TrainerProcesses, TrainersLost
from tests.rl.train.trainers.test_runs import assert_alike, weights, when_gone
from tests.support.cluster import LocalCluster, connected_cluster, marked, wait_until, words_of
from tests.support.paths import ROOT
from tests.support.runs import Result, flags, train, train_run, training_error

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]
TWO = ("--trainers", "2")
FAR = (*TWO, "--cluster", "auto")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two nodes with room for one rank each."""
    with connected_cluster(cpus=1) as cluster:
        cluster.add(cpus=1)
        yield cluster


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A variable that all processes of the test's runs have."""
    monkeypatch.setenv("TURNWISE_MARK", str(tmp_path))
    return f"TURNWISE_MARK={tmp_path}"


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two ranks on this machine."""
    return train_run(*words(), *TWO, out=tmp_path_factory.mktemp("alone") / "run")


def words(updates: int = 4) -> list[str]:
    return flags("Talk", updates=updates, algo="ppo", penalty="kl_k3:coef=0.1", save_every=1)


def ranks(mark: str) -> list[int]:
    """Process ids of a test's ranks."""
    return [pid for pid in marked(mark) if b"trainers.line" in words_of(pid)]


def groups() -> list[Any]:
    """The placement groups that there are."""
    return [group for group in placement_group_table().values() if group["state"] != "REMOVED"]


def assert_same(one: Path, other: Path) -> None:
    """Check that two runs have the same tokens, metrics and weights, bit for bit."""
    assert_alike(one, other, tolerance=0)
    assert all(torch.equal(weight, weights(other)[name]) for name, weight in weights(one).items())


def harmed(out: Path, harm: Callable[[], None]) -> Result:
    """Train on the cluster, and do harm after the second update."""
    log = out / "metrics.jsonl"

    def wait() -> None:
        wait_until(lambda: log.exists() and log.read_text().count("\n") > 1, 250)
        harm()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    result = train(*words(), *FAR, "--out", str(out))
    thread.join(1)
    assert not thread.is_alive() and result.code == 0, result.err
    return result


def test_ranks_on_two_nodes_train_as_two_of_this_machine(
    cluster: LocalCluster, left_alone: Path, mark: str, tmp_path: Path
) -> None:
    """Then one process goes on with the run of two nodes, and two nodes with the run of one process."""
    apart = train_run(*words(), *FAR, out=tmp_path / "apart")
    assert_same(left_alone, apart)
    assert when_gone(ranks(mark)) and not groups()
    one = train_run(*words(2), out=tmp_path / "one")
    assert train("--resume", "--out", str(one), "--updates", "4", *FAR).code == 0
    assert_alike(left_alone, one, tolerance=1e-3)
    first = train_run(*words(2), *FAR, out=tmp_path / "first")
    assert train("--resume", "--out", str(first), "--updates", "4", "--trainers", "1", "--cluster", "").code == 0
    assert_alike(left_alone, first, tolerance=1e-3)
    second = train_run(*words(2), *FAR, out=tmp_path / "second")
    assert train("--resume", "--out", str(second), "--updates", "4").code == 0
    assert_same(left_alone, second)


@pytest.mark.parametrize("what", ["process", "actor"])
def test_a_run_goes_on_when_a_rank_is_lost(
    what: str, cluster: LocalCluster, left_alone: Path, mark: str, tmp_path: Path
) -> None:
    lost: list[int] = []

    def harm() -> None:
        pid = ranks(mark)[0]
        lost.append(pid)
        keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(keeper if what == "actor" else pid, signal.SIGKILL)

    result = harmed(tmp_path / "harmed", harm)
    assert re.search(
        r"trainer [01] \(process \d+ on node 127\.0\.0\.[23]\) .*; starting again after update \d", result.out
    )
    assert str(lost[0]) in result.out
    assert_same(left_alone, tmp_path / "harmed")
    assert when_gone(ranks(mark)) and not groups()


def test_what_cannot_be_placed_is_one_line(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLUSTER_VARIABLE, "1")
    line = r"--cluster auto: --trainers 9 need 9 CPUs, and the cluster has 2 within 1 s \(TURNWISE_CLUSTER_TIMEOUT_S\)"
    assert re.match(line, training_error(*flags(), "--trainers", "9", "--cluster", "auto"))
    with pytest.raises(ValueError, match=r"--trainers 2 need 2 GPUs, and the cluster has 0 within 1 s"):
        connect("auto", [Room("--trainers", 2, 1)])
    line = r"found no nodes with room for 2 processes of 1 CPU and 1 GPU each within 1 s \(TURNWISE_CLUSTER_TIMEOUT_S\)"
    with pytest.raises(TrainersLost, match=line):
        TrainerProcesses("trainer", 2, 1, host=connection("auto"), gpus=1)
    assert not groups()


def test_nothing_is_left_of_a_run_that_is_killed(cluster: LocalCluster, mark: str, tmp_path: Path) -> None:
    log = tmp_path / "run" / "metrics.jsonl"
    command = [sys.executable, "-m", "rl.train", *words(100_000), *FAR, "--out", str(tmp_path / "run")]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_until(lambda: log.exists() and log.read_text().count("\n") > 1, 150)
    own = ranks(mark)
    homes = [Path(word) for pid in own for word in re.findall(r"/[\w/.-]*turnwise-\w+", words_of(pid).decode())]
    assert len(own) == 2 and len(set(homes)) == 2 and all(home.is_dir() for home in homes) and len(groups()) == 1
    run.kill()
    run.wait()
    wait_until(lambda: not (ranks(mark) or groups() or any(home.exists() for home in homes)), 60)


def test_a_run_goes_on_when_a_node_with_ranks_is_lost(
    cluster: LocalCluster, left_alone: Path, mark: str, tmp_path: Path
) -> None:
    """Ray puts both ranks on the largest node, where they share the files that they are sent; then one on each."""
    node = cluster.add(cpus=2)
    places: list[str] = []

    def harm() -> None:
        places.extend(place for group in groups() for place in group["bundles_to_node_id"].values())
        cluster.remove(node)

    result = harmed(tmp_path / "harmed", harm)
    assert places == [node.node_id] * 2
    assert "starting again after update" in result.out
    assert_same(left_alone, tmp_path / "harmed")
    assert when_gone(ranks(mark)) and not groups()
