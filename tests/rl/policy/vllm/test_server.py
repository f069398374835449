"""An evaluation over vLLM's own HTTP server scores as one of the same model in this process."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from urllib.request import urlopen

import pytest
import torch

from rl.evaluate import __main__ as evaluate
from rl.policy import tiny
from rl.policy.pretrained import save_pretrained
from tests.support.runs import TASKS
from tests.support.vllm import needs_vllm

SERVER_PACKAGES = ("uvicorn", "watchfiles", "prometheus_fastapi_instrumentator", "model_hosting_container_standards")
missing = [name for name in SERVER_PACKAGES if find_spec(name) is None]
pytestmark = [*needs_vllm, pytest.mark.skipif(bool(missing), reason=f"vLLM's server needs {', '.join(missing)}")]
QUIET = {
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
SERVER_FLAGS = "--enforce-eager --dtype float32 --max-model-len 512 --kv-cache-memory-bytes 64M --block-size 32"
START_S = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder of a model that samples printable letters only, as other bytes are lost over HTTP."""
    model, tokenizer = tiny.create(1, hidden=64, layers=2, heads=2, intermediate=64)
    with torch.no_grad():
        for weight in model.model.layers.parameters():
            weight.mul_(10.0)
        embedding = model.get_input_embeddings().weight
        embedding[:, 0] = 0.5
        embedding[[*range(33, 127), tokenizer.eos_token_id], 0] = 4.0
    path = tmp_path_factory.mktemp("served") / "model"
    save_pretrained(model, tokenizer, path)
    return path


@pytest.fixture(scope="module")
def url(folder):
    """URL of a server on a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(folder),
        *SERVER_FLAGS.split(),
    ]
    command += ["--served-model-name", "mine", "--host", "127.0.0.1", "--port", str(port)]
    log = open(folder.parent / "log", "w+")  # noqa: SIM115 (the server writes there to its end)
    server = subprocess.Popen(
        command, env={**os.environ, **QUIET}, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        until = time.monotonic() + START_S
        while not answers(port):
            assert server.poll() is None and time.monotonic() < until, (folder.parent / "log").read_text()[-2000:]
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        log.close()


def answers(port):
    try:
        return urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5).status == 200
    except OSError:
        return False


def test_a_served_model_plays_as_its_folder_does(url, folder, tmp_path):
    reports = []
    for policy in (f"openai:mine@{url}", str(folder)):
        out = tmp_path / f"{len(reports)}.json"
        words = ["--env", f"{TASKS}:Low", "--policy", policy, "--temperature", "0", "--turn-tokens", "24"]
        assert evaluate.main([*words, "--max-tokens", "400", "--json", str(out)]) == 0
        reports.append(json.loads(out.read_text()))
    served_report, folder_report = reports
    assert served_report["errors"] == folder_report["errors"] == 0
    assert served_report["per_task"] == folder_report["per_task"]
    assert len({json.dumps(one) for one in folder_report["per_task"]}) > 3  # the model does say different things
