"""vLLM for tests: models that its kernels support, engines that are closed before the next one starts, and servers."""

import gc
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
import torch

from tests.support.models import model

TALL = {"hidden_size": 128, "intermediate_size": 160, "head_dim": 32, "initializer_range": 0.15}
needs_vllm = [pytest.mark.vllm, pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")]

SERVER_PACKAGES = ("uvicorn", "watchfiles", "prometheus_fastapi_instrumentator", "model_hosting_container_standards")
missing = [name for name in SERVER_PACKAGES if find_spec(name) is None]
needs_server = [*needs_vllm, pytest.mark.skipif(bool(missing), reason=f"vLLM's server needs {', '.join(missing)}")]
QUIET = {
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
SERVER_FLAGS = "--enforce-eager --dtype float32 --max-model-len 512 --kv-cache-memory-bytes 64M --block-size 32"
START_S = 300


def free_port():
    """Return a port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextmanager
def running_server(folder, port, *words, log, **environment):
    """Context with a process of vLLM's server for the model in `folder`, which is killed at the end.

    `words` are further flags, `log` is a file for its output, `environment` is added to that of this process.
    """
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
    command += [*SERVER_FLAGS.split(), *words, "--host", "127.0.0.1", "--port", str(port)]
    root = str(Path(__file__).parents[2])  # of the package that its workers import
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    everything = {**os.environ, **QUIET, "PYTHONPATH": path, **environment}
    with open(log, "w+") as output:
        server = subprocess.Popen(
            command, env=everything, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            until = time.monotonic() + START_S
            while not _answers(port):
                assert server.poll() is None and time.monotonic() < until, Path(log).read_text()[-2000:]
                time.sleep(0.5)
            yield server
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _answers(port):
    try:
        return urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5).status == 200
    except OSError:
        return False


def vllm_model(kind="llama", seed=0, **changes):
    """Return a toy model with heads of a size that vLLM's CPU kernels support."""
    return model(kind, seed, **{**TALL, **changes})


@contextmanager
def open_vllm(net, **options):
    """Context with a `VLLMPolicy` over `net`, closed at the end."""
    from rl.policy.vllm.policy import VLLMPolicy

    gc.collect()
    gc.freeze()  # vLLM collects garbage seven times during a start
    policy = VLLMPolicy(net, **options)
    try:
        yield policy
    finally:
        policy.close()


def assert_replies_match(replies, expected):
    """Assert that replies are equal up to rounding, which may change the tokens of at most one of them."""
    assert len(replies) == len(expected) > 3
    same = [(mine, other) for mine, other in zip(replies, expected, strict=True) if mine.ids == other.ids]
    assert len(same) >= len(replies) - 1
    for mine, other in same:
        assert mine.finish == other.finish
        np.testing.assert_allclose(mine.logprobs, other.logprobs, atol=1e-4)


def process_state():
    """Return the state of this process that starting an engine must not change."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
    numpy_state = np.random.get_state()[1].tolist()  # noqa: NPY002
    random_states = (random.getstate(), numpy_state, torch.get_rng_state().tolist())
    return (
        environment,
        random_states,
        torch.set_num_threads,
        torch.get_num_threads(),
        torch.get_default_dtype(),
        os.sched_getaffinity(0),
    )
