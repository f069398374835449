"""A toy environment, a clock and a server that follows a script, for tests of policies behind an API."""

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
from rl.evaluate.clients.client import Asked, converse
from rl.evaluate.clients.connection import Connection
from rl.evaluate.clients.endpoint import Endpoint, Model
from rl.evaluate.runner import sampling, tickets
from rl.records import Group, SamplingParams
from tests.support.chat_server import Answer, completion, serve, solved

KEY = "sk-very-secret"
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}


class Sums(Env):
    """Thirty sums; with `turns` > 1 every reply but the last is met with the same question."""

    def __init__(self, *, turns: int = 1, tools: bool = False, **limits: Any) -> None:
        super().__init__(max_turns=9, **limits)
        self.wanted, self.tools = turns, (TOOL,) if tools else ()

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"{split}/{i}", (user(f"{i} + 1 = ?"),), str(i + 1)) for i in range(30)]

    def reply(self, action: Message) -> Outcome:
        calls = action.get("tool_calls", ())
        if calls:
            return Outcome(({"role": "tool", "content": "2", "tool_call_id": calls[0]["id"]},))
        if self.turns + 1 < self.wanted:
            return Outcome(self.task.prompt)
        won = action["content"] == self.task.answer
        return Outcome(reward=float(won), terminated=True, success=won)

    def oracle(self) -> Iterator[Message]:
        raise NotImplementedError


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Script:
    """Responds with the given answers in turn, then rightly; remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.asked = list(answers), list[tuple[str, dict[str, str], Any]]()

    async def __call__(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if path.endswith("/models"):
            return Answer(body={"data": [{"id": "qwen3-8b"}, {"id": "llama"}]})
        self.asked.append((path, headers, json.loads(body)))
        if self.answers:
            return self.answers.pop(0)
        parsed = json.loads(body)
        return Answer(body=completion(solved(parsed), prompt=10 * len(parsed["messages"])))


def asked(*messages: Message, tools: tuple = (), **params: Any) -> Asked:
    return Asked(messages or (user("1 + 1 = ?"),), tools, SamplingParams(**params), "0/0")


def on(
    respond: Callable[..., Awaitable[Answer]], use: Callable[[str], Awaitable[Any]], path: str = "/v1", port: int = 0
) -> Any:
    """What `use(url)` returns while a server answers there."""

    async def both() -> Any:
        async with await serve(respond, port) as server:
            return await use(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}")

    return asyncio.run(both())


def ask_once(script: Script, clock: Clock | None = None, **settings: Any) -> Any:
    """What a connection makes of one request."""
    clock = clock or Clock()

    async def use(url: str) -> Any:
        async with Connection("qwen-8b", url, sleep=clock.sleep, clock=clock, **settings) as connection:
            question = asked()
            body = json.dumps(codec.request(question, "qwen-8b", {})).encode()
            return await connection.ask(body, partial(codec.read, asked=question), np.random.default_rng(0))

    return on(script, use)


def play(script: Callable[..., Awaitable[Answer]], number: int = 6, samples: int = 1, **settings: Any) -> list[Group]:
    """The groups that an endpoint plays; `settings` are the endpoint's, `env` the environment's."""
    env, patience = settings.pop("env", {}), settings.pop("patience", 5.0)
    clock = Clock()

    async def use(url: str) -> list[Group]:
        # The same name whatever the port, so that a cache is found again.
        model = Model("toy", "http://toy/v1", settings.pop("fields", {}))
        connection = Connection("toy", url, key=KEY, patience_s=patience, sleep=clock.sleep, clock=clock)
        async with Endpoint(model, connection, **settings) as endpoint:
            chosen = tickets(30, number, samples, 0)
            params = sampling(samples, turn_tokens=64)
            return await converse(lambda: Sums(**env), endpoint, params, chosen, at_once=8)

    return on(script, use)


def successes(groups: list[Group]) -> list[list[bool]]:
    return [[trajectory.success for trajectory in group.trajectories] for group in groups]
