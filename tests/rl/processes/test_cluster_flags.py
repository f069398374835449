"""What `--cluster` refuses before anything is started, without Ray, and that other runs do without it."""

from __future__ import annotations

import socket
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from rl.evaluate.__main__ import main as evaluate
from rl.processes.cluster.connection import _open
from rl.processes.timeout import CLUSTER_VARIABLE
from sandboxes.extras import install_command
from tests.support.paths import ROOT
from tests.support.runs import flags, train, training_error

CONNECTION = "rl.processes.cluster.connection"
NOTHING = "nothing would be there; add --workers 1 or --engines 2 or more, or leave it out"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--cluster", "auto"),
            "--cluster auto: nothing would be there; add --workers 1, --engines 2 or --trainers 2 or more, or leave it "
            "out",
        ),
        (
            ("--cluster", "auto", "--trainers", "2", "--trainer-devices", "0,1"),
            "--trainer-devices 0,1: with --cluster, Ray gives out the devices; leave it out",
        ),
        (
            ("--cluster", "auto", "--engines", "2", "--engine-devices", "0;1"),
            "--engine-devices 0;1: with --cluster, Ray gives out the devices; leave it out",
        ),
        (
            ("--cluster", "head:6379", "--workers", "1"),
            "--cluster head:6379: must be auto, the cluster that this machine is a node of, or ray://HOST:PORT (Ray's "
            "client port is 10001)",
        ),
    ],
)
def test_nonsense_is_refused_in_one_line(words: tuple[str, ...], message: str) -> None:
    assert training_error(*flags(), *words) == message


@pytest.mark.parametrize("spec", [None, ModuleSpec("ray", None)], ids=["nothing", "a folder named ray"])
def test_without_ray_the_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, spec: ModuleSpec | None) -> None:
    monkeypatch.setattr(f"{CONNECTION}.find_spec", lambda name: spec)
    line = f"--cluster auto: Ray is not installed; {install_command('ray')}"
    assert training_error(*flags(), "--cluster", "auto", "--workers", "1") == line


def test_an_address_that_nothing_answers_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CONNECTION}.find_spec", lambda name: ModuleSpec(name, None, origin="ray"))
    monkeypatch.setattr(f"{CONNECTION}._connections", {})
    address = "ray://127.0.0.1:1"
    line = f"--cluster {address}: nothing answers there (Connection refused)"
    assert training_error(*flags(), "--cluster", address, "--workers", "1") == line


def test_a_cluster_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Event

    monkeypatch.setattr(f"{CONNECTION}.find_spec", lambda name: ModuleSpec(name, None, origin="ray"))
    monkeypatch.setattr(f"{CONNECTION}._connections", {})
    monkeypatch.setattr(f"{CONNECTION}._init", lambda *args: Event().wait(30))
    monkeypatch.setenv(CLUSTER_VARIABLE, "0.2")
    line = "--cluster auto: no cluster has answered within 0.2 s (TURNWISE_CLUSTER_TIMEOUT_S)"
    assert training_error(*flags(), "--cluster", "auto", "--workers", "1") == line
    monkeypatch.setenv(CLUSTER_VARIABLE, "soon")
    assert "TURNWISE_CLUSTER_TIMEOUT_S=soon: must be" in training_error(*flags(), "--cluster", "auto", "--workers", "1")


@pytest.mark.parametrize(("failures", "timeout_s"), [(1, 60.0), (9, 0.1)], ids=["one failure", "failures only"])
def test_a_client_connects_again_if_the_head_could_not_start_its_server(
    failures: int, timeout_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []

    def init(address: str, **options: object) -> None:
        attempts.append(address)
        if len(attempts) <= failures:
            raise ConnectionAbortedError("Initialization failure from server")

    ray = ModuleType("ray")
    monkeypatch.setattr(ray, "init", init, raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: len(attempts) > failures, raising=False)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"ray://127.0.0.1:{head.getsockname()[1]}"
        if failures == 1:
            _open(address, timeout_s)
            assert attempts == [address] * 2
        else:
            with pytest.raises(ValueError, match=f"^--cluster {address}: Initialization failure from server$"):
                _open(address, timeout_s)


def test_a_dry_run_names_what_it_would_start_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CONNECTION}.find_spec", lambda name: None)
    result = train(*flags(), "--trainers", "8", "--cluster", "ray://head:10001", "--dry-run")
    assert result.code == 0, result.err
    assert "neither started nor checked on this machine: --trainers 8, --cluster ray://head:10001\n" in result.out


def test_an_evaluation_refuses_a_cluster_with_nothing_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exception, match=NOTHING):
        evaluate(["--env", "games/GuessNumber-v0", "--policy", "oracle", "--cluster", "auto"])


def test_a_run_without_a_cluster_imports_no_ray(tmp_path: Path) -> None:
    """Workers and engines included, whose processes must not import it either."""
    words = flags("Low", updates=1, eval_episodes=0)
    script = f"""
import sys
sys.modules["ray"] = None  # so that importing it raises
from rl.train.__main__ import main
code = main({[*words, "--workers", "1", "--out", str(tmp_path / "run")]!r})
assert not any(name.startswith("rl.processes.cluster") for name in sys.modules), "cluster"
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
