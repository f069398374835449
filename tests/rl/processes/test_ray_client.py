"""Runs on a cluster that is reached by Ray's client, `ray://HOST:PORT`, do what they do on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs Ray: pip install 'turnwise-rl[ray]'")

from ray.exceptions import RaySystemError

from rl.processes.cluster.actor_process import ActorProcess, Objects
from rl.processes.timeout import CLUSTER_VARIABLE
from tests.rl.policy.pool.test_runs import assert_alike as assert_tokens_alike
from tests.rl.train.trainers.test_runs import assert_alike
from tests.support.cluster import LocalCluster, wait_until
from tests.support.paths import ROOT
from tests.support.runs import flags, train_run

pytestmark = [pytest.mark.ray, pytest.mark.timeout(400)]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """A cluster that this process is not connected to."""
    cluster = LocalCluster(cpus=6)
    yield cluster
    cluster.close()


def start(words: list[str], address: str, out: Path) -> subprocess.Popen[str]:
    """Start a run on the cluster at an address, in a process of its own."""
    command = [sys.executable, "-m", "rl.train", *words, "--cluster", address, "--out", str(out)]
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"} | {CLUSTER_VARIABLE: "120"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=-1, stderr=subprocess.STDOUT)


def test_trainers_make_the_bits_of_this_machine_s_and_engines_its_tokens(cluster: LocalCluster, tmp_path: Path) -> None:
    words = flags("Talk", updates=2)
    for name, more in (("trainers", ["--trainers", "2"]), ("engines", ["--engines", "2", "--workers", "2"])):
        run = start([*words, *more], cluster.client_address, tmp_path / name)
        output = run.communicate(timeout=300)[0]
        assert run.returncode == 0, output
    assert_alike(train_run(*words, "--trainers", "2", out=tmp_path / "here"), tmp_path / "trainers", tolerance=0)
    assert_tokens_alike(train_run(*words, out=tmp_path / "one"), tmp_path / "engines")


def test_a_run_whose_cluster_is_gone_ends_in_one_line_and_starts_no_other(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    log = tmp_path / "run" / "metrics.jsonl"
    words = flags("Talk", updates=100_000, save_every=1, trainers=2)
    run = start(words, cluster.client_address, tmp_path / "run")
    wait_until(lambda: log.exists() and log.read_text().count("\n") > 1, 200)
    cluster.close()
    deadline = time.monotonic() + 150
    output = run.communicate(timeout=deadline - time.monotonic())[0]
    assert run.returncode == 2, output
    line = f"--cluster {cluster.client_address}: the connection is lost; the run can be resumed with --resume"
    assert line in output and "Traceback" not in output


def test_a_file_that_a_lost_cluster_does_not_take_is_no_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The process that was to have it is found to be gone where its answers are awaited."""
    (tmp_path / "weights").write_bytes(b"1")
    process = ActorProcess.__new__(ActorProcess)
    process._objects = Objects()
    for error in (ConnectionError("Request can't be sent"), RaySystemError("no store")):

        def put(value: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("ray.put", put)
        assert process.send_file(str(tmp_path / "weights")) == "weights"
    with pytest.raises(FileNotFoundError):
        process.send_file(str(tmp_path / "none"))
