"""A toy environment, a fake clock and a scripted server, for tests of policies behind an API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from envs.env import Env
from envs.types import Message, Outcome, Task, user
from rl.evaluate.clients import codec
from rl.evaluate.clients.client import ChatRequest, evaluate_client
from rl.evaluate.clients.connection import Connection
from rl.evaluate.clients.endpoint import EndpointClient, EndpointModel
from rl.evaluate.runner import sampling_params, tickets
from rl.records import Group, SamplingParams
from tests.support.chat_server import Answer, completion, serve, solve

KEY = "sk-very-secret"
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}


class Sums(Env):
    """Thirty sums; with `turns` > 1 every reply but the last is answered with the same question."""

    def __init__(self, *, turns: int = 1, tools: bool = False, **limits: Any) -> None:
        super().__init__(max_turns=9, **limits)
        self.num_turns, self.tools = turns, (TOOL,) if tools else ()

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"{split}/{i}", (user(f"{i} + 1 = ?"),), str(i + 1)) for i in range(30)]

    def reply(self, action: Message) -> Outcome:
        calls = action.get("tool_calls", ())
        if calls:
            return Outcome(({"role": "tool", "content": "2", "tool_call_id": calls[0]["id"]},))
        if self.turns + 1 < self.num_turns:
            return Outcome(self.task.prompt)
        success = action["content"] == self.task.answer
        return Outcome(reward=float(success), terminated=True, success=success)

    def oracle(self) -> Iterator[Message]:
        raise NotImplementedError


class Clock:
    """A clock that advances only while somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.waits = 0.0, list[float]()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class ScriptedServer:
    """Gives `answers` one after the other, then correct ones, and records the requests as (path, headers, body)."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.requests = list(answers), list[tuple[str, dict[str, str], Any]]()

    async def __call__(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if path.endswith("/models"):
            return Answer(body={"data": [{"id": "qwen3-8b"}, {"id": "llama"}]})
        self.requests.append((path, headers, json.loads(body)))
        if self.answers:
            return self.answers.pop(0)
        fields = json.loads(body)
        return Answer(body=completion(solve(fields), prompt=10 * len(fields["messages"])))


def chat_request(*messages: Message, tools: tuple = (), **params: Any) -> ChatRequest:
    return ChatRequest(messages or (user("1 + 1 = ?"),), tools, SamplingParams(**params), "0/0")


def with_server(
    respond: Callable[..., Awaitable[Answer]], use: Callable[[str], Awaitable[Any]], path: str = "/v1", port: int = 0
) -> Any:
    """Return the result of `use(url)` while a server answers at the URL."""

    async def serve_and_use() -> Any:
        async with await serve(respond, port) as server:
            return await use(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}")

    return asyncio.run(serve_and_use())


def post_once(server: ScriptedServer, clock: Clock | None = None, **settings: Any) -> Any:
    """Post one request to the server and return the decoded response; `settings` are those of the connection."""
    clock = clock or Clock()

    async def use(url: str) -> Any:
        async with Connection("qwen-8b", url, sleep=clock.sleep, clock=clock, **settings) as connection:
            request = chat_request()
            body = json.dumps(codec.encode_request(request, "qwen-8b", {})).encode()
            decode = partial(codec.decode_response, request=request)
            return await connection.post(body, decode, np.random.default_rng(0))

    return with_server(server, use)


def play(respond: Callable[..., Awaitable[Answer]], number: int = 6, samples: int = 1, **settings: Any) -> list[Group]:
    """Play `number` tasks of `Sums` and return the groups.

    `settings` are those of the client, `env` the arguments of `Sums`, `fields` extra request fields, `patience` seconds.
    """
    env, patience = settings.pop("env", {}), settings.pop("patience", 5.0)
    clock = Clock()

    async def use(url: str) -> list[Group]:
        # The URL of the model does not name the port, so that cached replies are found again.
        model = EndpointModel("toy", "http://toy/v1", settings.pop("fields", {}))
        connection = Connection("toy", url, key=KEY, patience_s=patience, sleep=clock.sleep, clock=clock)
        async with EndpointClient(model, connection, **settings) as client:
            selection = tickets(30, number, samples, 0)
            params = sampling_params(samples, turn_tokens=64)
            return await evaluate_client(lambda: Sums(**env), client, params, selection, concurrency=8)

    return with_server(respond, use)


def successes(groups: list[Group]) -> list[list[bool]]:
    return [[trajectory.success for trajectory in group.trajectories] for group in groups]
