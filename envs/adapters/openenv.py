"""An environment of an OpenEnv server: `openenv:http://127.0.0.1:8000`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import httpx

from envs.adapters.action_schema import ActionSchema
from envs.adapters.foreign_env import ForeignEnv, Style, finite_reward
from envs.adapters.loop_thread import LoopThread
from envs.adapters.schemes import import_extra
from envs.data import NoSplit
from envs.procedural import digest
from envs.spaces import message_error
from envs.types import Message, Messages, Outcome, Task, system, user

DEFAULT_TURNS = 50
RETRY_S = 0.1  # between two attempts to open a session at a server that has no free one
HIDDEN_KEYS = ("metadata", "done", "reward", "info", "tools")  # of an observation, not shown to the policy
FULL, INVALID = "CAPACITY_REACHED", "VALIDATION_ERROR"  # codes of the server's errors


class OpenEnvEnv(ForeignEnv):
    """An environment behind OpenEnv's WebSocket. Each episode has a session of its own, closed at its end.

    Observation: the messages of an observation with a field `messages`, as Turnwise's own server sends them; else a
    line `key: value` per field.
    Action: the reply as the one field that the server's action schema requires, or a JSON object on the last line. What
    the server's validation refuses is an invalid reply; any other error of the server is an infrastructure fault.
    Reward: the server's.
    Episode end: terminated when the server says done, truncated if it says that it truncated, or after `max_turns`.
    Splits: those of the server's Task API; one task per seed for a server without tasks.

    Args:
        name: URL of the server.
        field: The field of an action that takes the reply. Default: see above.
        goal: What the policy has to do, in sentences. Default: the description that the server gives of itself.
        seconds: Limit of one call, and of the wait for a free session.
        max_turns: Default 50.
        style: See `ForeignEnv`.
        **limits: Other arguments of `Env`.

    Raises:
        ValueError: No server answers at the URL, or it knows no such field.
        ImportError: The package openenv is not installed.
    """

    blocking = True
    max_turns = DEFAULT_TURNS

    def __init__(
        self,
        name: str,
        /,
        *,
        field: str = "",
        goal: str = "",
        seconds: float = 30.0,
        style: Style = "full",
        **limits: Any,
    ) -> None:
        super().__init__(name.rstrip("/"), style=style, **limits)
        if not seconds > 0:
            raise ValueError(f"seconds must be above 0, not {seconds}")
        self.core = import_extra("openenv.core", "openenv")
        self.seconds = float(seconds)
        schema = fetch(self.name, "/schema", self.seconds)["action"]
        self.actions = ActionSchema(schema, field)
        self.facts = server_facts(self.name, json.dumps(schema), self.seconds)
        self.goal = goal or self.facts.description
        self._thread: LoopThread | None = None
        self._client: Any = None

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the server's tasks, or one per seed if it has none. Raises MissingData for a split it lacks."""
        sizes = self.facts.split_sizes
        if sizes is None:
            return super().tasks(split)
        if split not in sizes:
            raise NoSplit(f"the server at {self.name} has no split {split!r}; it has {', '.join(sizes)}")
        return [
            Task(f"{split}/{i}", metadata={"seed": digest(self.name, split, i) >> 33, "index": i})
            for i in range(sizes[split])
        ]

    def start(self) -> Messages:
        """Open a session, reset its environment and return the first messages."""
        self._end_session()
        self.is_truncated = False
        self._open_session()
        index = self.task.metadata.get("index")
        options = {"split": self.split, "index": index} if index is not None else {}
        result = self._call(lambda: self._client.reset(seed=int(self.task.metadata["seed"]), **options))
        tools = result.observation.get("tools")
        self.tools = tools if isinstance(tools, list) else ()
        messages = _messages(result.observation)
        return (
            messages if "messages" in result.observation or self.style == "short" else (system(self._rules), *messages)
        )

    def reply(self, action: Message) -> Outcome:
        """Send the action and return what the server answers."""
        request = self.actions.parse(action)
        correction = self.actions.rule
        if request is not None:
            try:
                result = self._call(lambda: self._client.step(request))
            except RuntimeError as error:
                if INVALID not in str(error):
                    raise
                request, correction = None, f"{error}\n{correction}"
        if request is None:
            return Outcome((user(f"Your last reply is no valid action. {correction}"),), valid=False)
        info = _info(result.observation)
        is_done, reward = bool(result.done), finite_reward(result.reward or 0.0, self.name)
        self.is_truncated = is_done and info.get("truncated") is True
        if is_over := is_done or self.turns + 1 >= self.max_turns:
            self._end_session()
        return Outcome(
            messages=() if is_over else _messages(result.observation),
            reward=reward,
            terminated=is_done and not self.is_truncated,
            success=bool(info.get("success", is_done and reward > 0)),
            valid=bool(info.get("valid", True)),
            rewards=_numbers(info.get("rewards")),
            metrics=_numbers(info.get("metrics")),
        )

    def close(self) -> None:
        """Close the session and end the thread of its connection."""
        self._end_session()
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    @property
    def _rules(self) -> str:
        end = f"The episode ends after {self.max_turns} turns at the latest, and an invalid reply uses up a turn."
        return "\n\n".join(part for part in (self.goal, self.actions.rule, end) if part)

    def _call(self, call: Any) -> Any:
        assert self._thread is not None
        return self._thread.run(call, self.seconds)

    def _open_session(self) -> None:
        """Connect and wait until the server has a free session. Raises ConnectionError after `seconds` without one."""
        if self._thread is None:
            self._thread = LoopThread("openenv")
        deadline = time.monotonic() + self.seconds
        while True:
            client = self._client = self.core.GenericEnvClient(base_url=self.name)
            try:
                self._call(client.connect)
                self._call(client.state)  # a full server accepts the connection and refuses the first message
                return
            except RuntimeError as error:
                self._end_session()
                if FULL not in str(error):
                    raise
                if time.monotonic() > deadline:
                    raise ConnectionError(f"{self.name} had no free session for {self.seconds:g} s") from None
            time.sleep(RETRY_S)

    def _end_session(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            self._call(client.close)


class ServerFacts(NamedTuple):
    """What a server says about itself.

    Attributes:
        description: Of its environment; "" without one.
        split_sizes: Number of tasks by split; None for a server without the Task API.
    """

    description: str
    split_sizes: dict[str, int] | None


@lru_cache
def server_facts(url: str, schema: str, seconds: float) -> ServerFacts:
    """Ask a server about itself, once per process for servers at one address with one `schema` of actions.

    Each request may take `seconds`. What the server does not answer is left out.
    """
    description = ""
    with suppress(ValueError, AttributeError):
        description = str(fetch(url, "/metadata", seconds).get("description") or "")
    try:
        (name,) = fetch(url, "/list_environments", seconds)
        splits = [each["name"] for each in fetch(url, f"/{name}/splits", seconds)]
        sizes = {split: fetch(url, f"/{name}/num_tasks", seconds, {"split": split})["num_tasks"] for split in splits}
    except (ValueError, TypeError, KeyError):
        return ServerFacts(description, None)
    return ServerFacts(description, {split: int(size) for split, size in sizes.items()})


def fetch(url: str, path: str, seconds: float, body: Mapping[str, Any] | None = None) -> Any:
    """Return the JSON that a server answers to a GET, or with a `body` to a POST. Raises ValueError for none."""
    try:
        with httpx.Client(base_url=url, timeout=seconds, verify=url.startswith("https")) as client:
            answer = client.get(path) if body is None else client.post(path, json=body)
        return answer.raise_for_status().json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise ValueError(f"no OpenEnv server answers {path} at {url!r}: {' '.join(str(error).split())}") from None


def _messages(observation: Mapping[str, Any]) -> Messages:
    """The messages of an observation, or a user message with a line per field."""
    messages = observation.get("messages")
    if isinstance(messages, list):
        for message in messages:
            error = message_error(message)
            if error or message["role"] == "assistant":
                raise RuntimeError(f"the server sent a message that is none of an environment: {error or 'assistant'}")
        return tuple(messages)
    lines = [
        f"{key}: {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in observation.items()
        if key not in HIDDEN_KEYS
    ]
    return (user("\n".join(lines)),)


def _info(observation: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an observation says about the turn, in `info` or `metadata`, or beside the rest."""
    for key in ("info", "metadata"):
        if isinstance(observation.get(key), dict) and observation[key]:
            return observation[key]
    return {key: observation[key] for key in ("success", "truncated", "valid") if key in observation}


def _numbers(parts: Any) -> dict[str, float]:
    return {str(key): float(value) for key, value in parts.items()} if isinstance(parts, dict) else {}
