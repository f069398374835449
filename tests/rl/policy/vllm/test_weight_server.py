"""A server of vLLM that somebody else has started, as the engine of a run that hands it weights at every update."""

import asyncio
import json
import os
import signal
from importlib.util import find_spec
from urllib.request import urlopen

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from agents.images import PlacedImage
from rl.policy.engine import EngineDead
from rl.policy.images.inputs import image_inputs
from rl.policy.pretrained import load_pretrained, save_pretrained
from rl.policy.servers.policy import ServerPolicy
from rl.policy.vllm.requests import BACKEND, WORKER_EXTENSION
from tests.support.models import perturb_weights, teacher_forced_logprobs
from tests.support.runs import flags, metrics, rollouts, small_model, train, train_run
from tests.support.sampling import params, sample_all
from tests.support.vision import PICTURES, vision_model
from tests.support.vllm import free_port, needs_server, running_server

pytestmark = needs_server
WORDS = ["--enable-scale-out", "--logprobs-mode", "processed_logprobs", "--worker-extension-cls", WORKER_EXTENSION]
WORDS += ["--weight-transfer-config", json.dumps({"backend": BACKEND})]
WORDS += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "512"]
TOLERANCE = 5e-4  # of `rl.policy.vllm.weight_sync`, in float32


class Served:
    """A server that can be killed and started again on its port."""

    def __init__(self, log, model=None):
        self.port, self.log, self._model, self._context = free_port(), log, model or small_model(), None
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self):
        self._context = running_server(self._model, self.port, *WORDS, log=self.log, VLLM_SERVER_DEV_MODE="1")
        self.process = self._context.__enter__()

    def stop(self):
        if self._context is not None:
            self._context.__exit__(None, None, None)
            self._context = None


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server of the model that the runs of these tests begin with."""
    served = Served(tmp_path_factory.mktemp("server") / "log")
    served.start()
    yield served
    served.stop()


@pytest.fixture(scope="module")
def words(server):
    return flags("Talk", "--engine-url", server.url, engine="vllm", max_tokens=128, save_every=1)


def net():
    return AutoModelForCausalLM.from_pretrained(small_model()).eval()


def make_likely(model, token):
    """Give a token a row of the output matrix that points where last hidden states do."""
    with torch.no_grad():
        hidden = model(input_ids=torch.tensor([PROMPTS[-1]]), output_hidden_states=True).hidden_states[-1][0].mean(0)
        model.get_output_embeddings().weight[token] = 3 * hidden / hidden.norm() ** 2


@torch.no_grad()
def as_images_are_read(model, prompt, reply):
    """Log-probabilities of a reply, with the stand-in where a token stands for an image that is not there."""
    ids = torch.tensor([[*prompt, *reply]])
    fed, _ = image_inputs(model).resolve(ids)
    logprobs = model(input_ids=fed).logits[0].log_softmax(-1)
    return [float(logprobs[len(prompt) - 1 + i, id]) for i, id in enumerate(reply)]


@pytest.mark.skipif(find_spec("torchvision") is None, reason="vLLM reads images with torchvision")
@pytest.mark.parametrize("family", ["qwen2_vl", "qwen3_vl"])
def test_a_model_that_reads_images_is_served_for_texts(family, tmp_path):
    """Also with a token that stands for an image where there is none: a policy may sample it."""
    save_pretrained(*vision_model(family), tmp_path / "model")
    model = load_pretrained(str(tmp_path / "model"))[0]
    images = image_inputs(model)
    served = Served(tmp_path / "log", tmp_path / "model")
    served.start()
    requests = [(prompt, params(n, 16, stop=())) for n, prompt in enumerate(PROMPTS)]
    requests += [((*PROMPTS[1][:4], images.token, *PROMPTS[1][4:]), params(9, 8, stop=()))]
    try:
        policy = ServerPolicy(model, [served.url], context=512, dtype="float32")
        perturb_weights(model, 1, 0.05)
        make_likely(model, images.token)
        policy.sync_weights()
        replies = sample_all(policy, *requests)
        assert any(images.token in reply.ids[:-1] for reply in replies)
        for (prompt, _), reply in zip(requests, replies, strict=True):
            assert set(reply.versions) == {1}
            expected = as_images_are_read(model, prompt, reply.ids)
            np.testing.assert_allclose(reply.logprobs, expected, atol=TOLERANCE)
        with pytest.raises(
            EngineDead, match="is given text alone, and this environment shows images; use --engine vllm:process"
        ):
            asyncio.run(policy.sample(PROMPTS[0], params(), images=[PlacedImage(0, PICTURES[0])]))
    finally:
        policy.close()
        served.stop()


PROMPTS = [tuple(40 + (7 * n + i) % 60 for i in range(3 + 17 * n)) for n in range(5)]


def test_the_server_computes_with_the_trainers_weights_after_each_push(server):
    model, requests = net(), [(prompt, params(n, 16, stop=(257,))) for n, prompt in enumerate(PROMPTS)]
    policy = ServerPolicy(model, [server.url], context=512, dtype="float32")
    try:
        before = sample_all(policy, *requests)
        perturb_weights(model, 1, 0.05)
        unpushed = sample_all(policy, *requests)
        assert [reply.ids for reply in unpushed] == [reply.ids for reply in before]  # by its seed alone
        gap = max(
            np.abs(np.subtract(reply.logprobs, teacher_forced_logprobs(model, prompt, reply.ids))).max()
            for prompt, reply in zip(PROMPTS, unpushed, strict=True)
        )
        assert gap > 100 * TOLERANCE  # without a push it would sample by other weights
        policy.sync_weights()
        for temperature in (1.0, 0.7, 0.0):
            how = [(prompt, params(n, 16, temperature=temperature)) for n, prompt in enumerate(PROMPTS)]
            for (prompt, _), reply in zip(how, sample_all(policy, *how), strict=True):
                assert set(reply.versions) == {1}
                mine = reply.logprobs if temperature else reply.model_logprobs
                expected = teacher_forced_logprobs(model, prompt, reply.ids, temperature or 1.0)
                np.testing.assert_allclose(mine, expected, atol=TOLERANCE)
    finally:
        policy.close()


def test_a_reply_in_flight_has_tokens_of_both_weights(server):
    model = net()
    old = net()

    async def play(policy):
        tasks = [
            asyncio.create_task(policy.sample(prompt, params(n, 400, stop=()))) for n, prompt in enumerate(PROMPTS)
        ]
        while not policy._fleet.servers[0].tasks:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)  # some tokens
        perturb_weights(model, 2, 0.05)
        policy.sync_weights()
        return await asyncio.gather(*tasks)

    policy = ServerPolicy(model, [server.url], context=512, dtype="float32")
    try:
        replies = asyncio.run(play(policy))
    finally:
        policy.close()
    assert {version for reply in replies for version in reply.versions} == {0, 1}
    for prompt, reply in zip(PROMPTS, replies, strict=True):
        assert len(reply.ids) == 400 and list(reply.versions) == sorted(reply.versions)
        border = reply.versions.count(0)
        for one, part in ((old, slice(0, border)), (model, slice(border, None))):
            expected = teacher_forced_logprobs(one, prompt, reply.ids)[part]
            np.testing.assert_allclose(reply.logprobs[part], expected, atol=TOLERANCE)


def test_a_run_trains_with_the_tokens_of_a_server(server, words, tmp_path):
    out = train_run(*words, "--updates", "3", out=tmp_path / "run")
    lines = metrics(out)
    assert [line["update"] for line in lines] == [1, 2, 3]
    for update, line in enumerate(lines):
        assert line["tokens/trained"] > 0 == line["episodes/errored"] and line["logp_gap/max"] < 1e-4
        turns = [turn for one in rollouts(out, update + 1) for turn in one["turns"]]
        assert {version for turn in turns for version in turn["versions"]} == {update}
    with urlopen(f"{server.url}/weight_info", timeout=30) as answer:
        assert json.load(answer)["weight_version"].endswith("-4")


def test_a_server_that_is_killed_ends_the_run_in_a_line_and_a_new_one_goes_on(server, words, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNWISE_SERVER_TIMEOUT_S", "2")
    out, calls, sample = tmp_path / "run", [], ServerPolicy.sample

    async def sample_and_kill(self, *args, **kwargs):
        calls.append(self.version)
        if calls.count(2) == 3:  # the third update has begun
            os.killpg(server.process.pid, signal.SIGKILL)
        return await sample(self, *args, **kwargs)

    monkeypatch.setattr(ServerPolicy, "sample", sample_and_kill)
    ended = train(*words, "--updates", "4", "--out", str(out))
    monkeypatch.undo()
    assert ended.code == 2, ended
    (line,) = [line for line in ended.err.splitlines() if "error:" in line]
    assert f"{server.url} does not answer" in line and "start it again" in line
    assert line.endswith(f"(the run in {out} can be resumed)") and "Traceback" not in ended.out + ended.err
    assert [one["update"] for one in metrics(out)] == [1, 2]
    server.stop()
    server.start()  # with the weights that the run began with
    again = train("--resume", "--out", str(out))
    assert again.code == 0, again.err
    assert [one["update"] for one in metrics(out)] == [1, 2, 3, 4]
    assert max(one["logp_gap/max"] for one in metrics(out)) < 1e-4
