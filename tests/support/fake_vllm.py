"""A small HTTP server that speaks vLLM's interface for prompts of tokens and new weights, over a model of this process.

It has faults that a real server cannot be told to have. `tests/rl/policy/vllm/test_weight_server.py` has real ones.
"""

from __future__ import annotations

import copy
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import torch

from rl.policy.vllm.requests import BACKEND, WORKER_EXTENSION
from rl.policy.vllm.weight_file import read_weights

NAMES = "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "tie_word_embeddings"


class FakeVLLM:
    """A server of `net`'s weights as they are now, on a free port, within `with`.

    Attributes:
        calls: Paths of its requests, in their order.
        weights: Label of its weights.
        missing: Paths that it does not have, with the status that it answers with.
        silent: Paths to which it gives no answer.
        drops_weights: Whether it says that it takes weights over, and does not.
        step: Acquired before each token, if it is not None; a pause sets it to None.
        model_config, config: Parts of what it says about itself.
        describes: What its workers say.
    """

    def __init__(self, net: Any) -> None:
        self._original = copy.deepcopy(net)
        self.model_config: dict[str, Any] = {
            "dtype": "torch.float32",
            "logprobs_mode": "processed_logprobs",
            "max_model_len": net.config.max_position_embeddings,
        }
        self.config: dict[str, Any] = {
            "parallel_config": {"worker_extension_cls": WORKER_EXTENSION},
            "weight_transfer_config": {"backend": BACKEND},
            "scheduler_config": {"max_num_seqs": 64, "enable_chunked_prefill": False},
            "device_config": {"device": "cpu"},
        }
        self.describes = {"config": {name: getattr(net.config, name) for name in NAMES}, "reads": True}
        self.calls: list[str] = []
        self.missing: dict[str, int] = {}
        self.silent: set[str] = set()
        self.drops_weights = False
        self.step: threading.Semaphore | None = None
        self.num_generating = 0
        self._port = 0
        self._server: ThreadingHTTPServer | None = None
        self._connections: set[socket.socket] = set()
        self._reset()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> FakeVLLM:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, on the port that it had before, with the weights that it started with at first."""
        self._reset()
        self._server = _Server(("127.0.0.1", self._port), _handler(self))
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """End as a process does that is killed: no request in flight is answered."""
        self._is_killed = True
        self.silent, self.step = set(), None
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        for connection in list(self._connections):
            connection.close()

    def _reset(self) -> None:
        self.net, self.weights = copy.deepcopy(self._original), "default"
        self._is_paused = threading.Event()
        self._may_run = threading.Event()
        self._may_run.set()
        self._is_updating = self._is_killed = False
        self._lock = threading.Lock()

    def answer(self, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        """Return the status and the JSON of the answer to a request."""
        self.calls.append(path)
        if path in self.silent:
            threading.Event().wait(30)
        if path in self.missing:
            return self.missing[path], {"error": {"message": "not here"}}
        match path:
            case "/v1/models":
                return 200, {"data": [{"id": "m", "max_model_len": self.model_config["max_model_len"]}]}
            case "/server_info":
                return 200, {"vllm_config": {"model_config": self.model_config, **self.config}}
            case "/weight_info":
                return 200, {"weight_version": self.weights}
            case "/collective_rpc":
                return 200, {"results": [self.describes]}
            case "/pause":
                assert query["mode"] == ["abort"]
                self._may_run.clear()
                self._is_paused.set()
                while self.num_generating:
                    threading.Event().wait(0.002)
                self.step = None
            case "/resume":
                self._is_paused.clear()
                self._may_run.set()
            case "/start_weight_update":
                if self._is_updating:
                    return 500, {"error": {"message": "a weight update is already active"}}
                self._is_updating = True
            case "/update_weights":
                if not self.drops_weights:
                    state = dict(read_weights(body["update_info"]["path"], body["update_info"]["tied"]))
                    self.net.load_state_dict(state, strict=False)
            case "/finish_weight_update":
                self.weights, self._is_updating = body["weight_version"], False
            case "/reset_prefix_cache":
                return 200, {"success": True}
            case "/inference/v1/generate":
                return self._generate(body) if body else (400, {"error": {"message": "no tokens"}})
        return 200, {}

    def _generate(self, body: Any) -> tuple[int, Any]:
        self._may_run.wait(30)
        with self._lock:
            self.num_generating += 1
        try:
            return 200, {"choices": [self._reply(body["token_ids"], body["sampling_params"])]}
        finally:
            with self._lock:
                self.num_generating -= 1

    def _reply(self, prompt: list[int], how: dict[str, Any]) -> dict[str, Any]:
        ids, content, finish = list(prompt), [], "length"
        noise = torch.Generator().manual_seed(how.get("seed", 0) % 2**62)
        while len(content) < how["max_tokens"]:
            while self.step is not None and not self._is_paused.is_set() and not self.step.acquire(timeout=0.01):
                pass
            if self._is_paused.is_set():
                finish = "abort"
                break
            with torch.no_grad():
                logits = self.net(input_ids=torch.tensor([ids])).logits[0, -1]
            logprobs = (logits / (how["temperature"] or 1.0)).log_softmax(-1)
            drawn = torch.multinomial(logprobs.exp(), 1, generator=noise) if how["temperature"] else logprobs.argmax()
            token = int(drawn)
            ids.append(token)
            content.append({"token_id": token, "logprob": float(logprobs[token]), "top_logprobs": []})
            if token in how["stop_token_ids"]:
                finish = "stop"
                break
        return {
            "token_ids": ids[len(prompt) :],
            "finish_reason": finish,
            "logprobs": {"content": content},
            "weight_versions": [{"version": self.weights, "start": 0, "end": len(content)}] if content else [],
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def _handler(fake: FakeVLLM) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            super().setup()
            fake._connections.add(self.connection)

        def do_GET(self) -> None:
            where = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = fake.answer(where.path, parse_qs(where.query), body)
            if fake._is_killed:
                return
            data = json.dumps(answer).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:  # nobody waits for it any more
                return

        do_POST = do_GET

        def log_message(self, *words: object) -> None:
            """Print nothing."""

    return Handler
