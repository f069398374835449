"""An evaluation over vLLM's own HTTP server scores as one of the same model in this process."""

import json

import pytest
import torch

from rl.evaluate import __main__ as evaluate
from rl.policy import tiny
from rl.policy.pretrained import save_pretrained
from tests.support.runs import TASKS
from tests.support.vllm import free_port, needs_server, running_server

pytestmark = needs_server


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
    port = free_port()
    with running_server(folder, port, "--served-model-name", "mine", log=folder.parent / "log"):
        yield f"http://127.0.0.1:{port}/v1"


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
