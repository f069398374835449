"""A client whose engine computes a step ahead: which tokens it returns, and what errors and interrupts leave behind."""

from collections import deque
from types import SimpleNamespace

import pytest
import torch

from rl.policy.engine import EngineDead
from rl.policy.vllm import engine_client, process
from rl.policy.vllm import policy as vllm_policy
from rl.policy.vllm.engine_client import VLLMEngineClient
from rl.policy.vllm.process import EngineLost
from rl.policy.vllm.requests import RequestSnapshot, SampledToken, StepOutput, as_columns
from rl.policy.vllm.version import Installation
from rl.records import SamplingParams
from tests.support.models import model

LENGTH = 4
CONFIG = SimpleNamespace(
    context=99,
    can_sleep=True,
    memory=SimpleNamespace(description="half of it"),
    weight_bytes=1,
    draws="native",
    shares_memory=False,
    lora_rank=0,
    dtype=torch.float32,
)


class Server:
    """In the place of an `EngineProcess`: every request gets a token for each step, and is finished by `LENGTH`."""

    def __init__(self, home, environment):
        self.home, self.pid, self.is_pending, self.is_killed = str(home), 1, False, False
        self.answers, self.lengths, self.methods, self.failure = deque(), {}, [], None

    def send(self, message):
        method, _, new_requests, aborted_keys = message
        if self.is_killed:
            raise EngineLost("it is gone")
        assert not self.is_pending
        self.is_pending = True
        self.methods.append(method)
        self.lengths |= {key: 0 for key, _ in new_requests}
        self.lengths = {key: length for key, length in self.lengths.items() if key not in aborted_keys}
        result = None
        if method == "step":
            self.lengths = {key: length + 1 for key, length in self.lengths.items()}
            ends = {key: length == LENGTH for key, length in self.lengths.items()}
            tokens = {key: SampledToken(10 * key + length, -1.0, -1.0) for key, length in self.lengths.items()}
            result = as_columns([StepOutput(key, tokens[key], ends[key]) for key in tokens])
            self.lengths = {key: length for key, length in self.lengths.items() if not ends[key]}
        self.answers.append(("failed", *self.failure) if self.failure else ("done", result, 0))

    def receive(self):
        if self.is_killed:
            raise EngineLost("it is gone")
        self.is_pending = False
        return self.answers.popleft()

    def kill(self):
        self.is_killed = True

    def close(self):
        self.is_killed = True


@pytest.fixture
def client(monkeypatch, tmp_path):
    monkeypatch.setattr(engine_client, "EngineProcess", Server)
    monkeypatch.setattr(engine_client, "make_folder", lambda size: str(tmp_path))
    return VLLMEngineClient(CONFIG, {})


def request():
    return RequestSnapshot((1,), SamplingParams(LENGTH), [])


def tokens(outputs):
    return [(output.key, output.sample.token) for output in outputs]


def test_the_next_step_is_begun_before_the_tokens_of_one_are_returned(client):
    key = client.add_request(request())
    assert tokens(client.step()) == [(key, 1)]
    assert client._process.methods == ["start", "step", "step"] and client._process.is_pending
    late = client.add_request(request())  # waits for a step more
    assert [tokens(client.step()) for _ in range(3)] == [[(0, 2)], [(0, 3), (late, 11)], [(0, 4), (late, 12)]]
    assert [tokens(client.step()) for _ in range(2)] == [[(late, 13)], [(late, 14)]]
    assert client.requests == {} and not client._process.is_pending


def test_another_message_keeps_the_tokens_of_the_step_until_they_are_asked_for(client):
    client.add_request(request())
    client.step()
    client.reset_prefix_cache()
    assert tokens(client.step()) == [(0, 2)]
    assert [tokens(client.step()) for _ in range(2)] == [[(0, 3)], [(0, 4)]] and client.requests == {}


def test_requests_that_are_aborted_do_not_come_back(client):
    for _ in range(3):
        client.add_request(request())
    client.step()
    client.abort([0])  # its next token is on its way
    client.reset_prefix_cache()  # that of 1 has arrived
    client.abort([1])
    assert tokens(client.step()) == [(2, 22)]
    client.abort([2])
    assert client.step() == [] and client.requests == {}


def test_a_new_process_has_nothing_of_the_last_one(client):
    client.add_request(request())
    client.step()
    client.reset_prefix_cache()
    assert client._unread_outputs
    client.start()
    assert client.step() == []


def test_tokens_are_returned_though_the_next_step_finds_no_process(client):
    client.add_request(request())
    client._send("step")
    send = client._process.send

    def die(message):
        client._process.kill()
        send(message)

    client._process.send = die
    assert tokens(client.step()) == [(0, 1)]
    with pytest.raises(EngineLost):
        client.step()


CALLS = {
    "sleep": lambda client: client.sleep(),
    "load weights": lambda client: client.load_weights([("a", torch.ones(1))]),
    "step": lambda client: client.step(),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_error_of_the_step_ends_the_process_at_whatever_call_is_next(client, call):
    client.add_request(request())
    client._process.failure = ("RuntimeError", "it gave a request up")
    client._send("step")
    client.abort([0])
    with pytest.raises(EngineLost, match="gave a request up"):
        CALLS[call](client)
    assert client._process.is_killed
    with pytest.raises(EngineLost):
        client.load_weights([("a", torch.ones(1))])


def test_errors_that_a_new_process_would_have_too_keep_their_types(client):
    client.add_request(request())
    client._process.failure = ("FloatingPointError", "not finite")
    with pytest.raises(FloatingPointError):
        client.step()
    assert not client._process.is_killed


@pytest.fixture
def policy(client, monkeypatch):
    """A policy over the client, whose weights are not checked."""
    monkeypatch.setattr(vllm_policy, "require_vllm", lambda: Installation("0.32.0", "cpu"))
    monkeypatch.setattr(vllm_policy, "make_engine_config", lambda *_, **__: CONFIG)
    monkeypatch.setattr(vllm_policy, "_start_engine", lambda config, environment: client)
    monkeypatch.setattr(vllm_policy.weight_sync, "push_weights", lambda engine, model: engine._call("load"))
    monkeypatch.setattr(vllm_policy.weight_sync, "check_weights", lambda *_: 0.0)
    return vllm_policy.VLLMPolicy(model(), slots=4, separate_process=True)


def test_an_engine_that_is_lost_before_a_rest_is_replaced_at_the_next_weights(policy, client, caplog):
    client.add_request(request())
    client._process.failure = ("RuntimeError", "it gave a request up")
    client._send("step")
    lost = client._process
    policy.pause()
    assert lost.is_killed and "sleep" not in lost.methods
    policy.sync_weights()
    assert client._process is not lost and client._process.methods == ["start", "load"]
    assert "starting another one" in caplog.text and policy.failure is None


@pytest.mark.parametrize("is_in_pool", [False, True])
def test_an_error_of_the_step_before_a_rest_is_that_of_the_engine(policy, client, is_in_pool):
    calls = []
    policy.on_failure = (lambda: calls.append(1)) if is_in_pool else None
    client._process.failure = ("FloatingPointError", "not finite")
    client.add_request(request())
    client._send("step")
    if is_in_pool:
        policy.pause()
        assert calls == [1]
    else:
        with pytest.raises(EngineDead, match="FloatingPointError: not finite"):
            policy.pause()
    assert isinstance(policy.failure, EngineDead)


def test_an_answer_that_nobody_waited_for_is_not_taken_for_another(monkeypatch, tmp_path):
    """As after Ctrl-C between a message and its answer."""
    monkeypatch.setattr(
        process,
        "_BOOT",
        "import sys; from multiprocessing.connection import Connection; channel = Connection(int(sys.argv[2]));"
        "[channel.send(channel.recv()) for _ in range(3)]",
    )
    apart = process.EngineProcess(str(tmp_path / "home"), {})
    apart.send("one")
    assert apart.is_pending and apart.receive() == "one" and not apart.is_pending
    apart.send("two")
    with pytest.raises(EngineLost, match="killed after a call that was interrupted"):
        apart.send("three")
    apart.close()
