"""What replies to the questions that a run asks of its judge: a model in this process, an endpoint, or a function."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envs.types import Messages, final_text
from rl.evaluate.clients.client import ChatClient, ChatRequest
from rl.evaluate.policies import LocalModel
from rl.methods.parts.verdict.questions import TooLong
from rl.policy.engine import Engine
from rl.records import SamplingParams

if TYPE_CHECKING:  # httpx is slow to import
    from rl.evaluate.clients.endpoint import EndpointClient

PROBE_S = 30.0  # without an answer of the server before the run


class Backend:
    """What replies to the questions.

    Attributes:
        client: What must be entered while questions are asked; None for nothing.
        engine: The engine of a model in this process; None for no such model.
    """

    client: AbstractAsyncContextManager[Any] | None = None
    engine: Engine | None = None

    def short_patience(self) -> AbstractContextManager[Any]:
        """Context in which a server that does not answer is given up soon."""
        return nullcontext()

    @abstractmethod
    async def reply(self, messages: Messages, params: SamplingParams) -> str:
        """Return the text of a reply, without its reasoning; "" for none in time.

        Raises `TooLong` or `CutOff` for a question without room for a reply.
        """
        ...


class ModelBackend(Backend):
    """Backend of a model in this process."""

    def __init__(self, model: LocalModel) -> None:
        self.engine = model.engine
        self._model, self._num_asked = model, 0

    async def reply(self, messages: Messages, params: SamplingParams) -> str:
        """See `Backend`."""
        engine, agent = self._model.engine, self._model.make_agent()
        prompt = agent.open(messages).ids
        if (room := engine.context - len(prompt)) < 1:
            raise TooLong
        self._num_asked += 1
        session = f"judge/{self._num_asked}"
        limit = min(params.max_tokens, room)
        try:
            completion = await engine.sample(
                prompt, replace(params, max_tokens=limit, stop=agent.stop), session=session
            )
        finally:
            engine.release(session)
        if completion.finish == "length" and limit < params.max_tokens:
            raise TooLong
        if completion.finish in ("deadline", "abort"):
            return ""
        return final_text(self._model.renderer.parse(completion.ids, prompt=prompt))


class ClientBackend(Backend):
    """Backend of an endpoint or a function."""

    def __init__(self, chat: ChatClient, endpoint: EndpointClient | None = None) -> None:
        """Take whom to ask, and the same again if it is an endpoint."""
        self.client = self._endpoint = endpoint
        self._chat, self._num_asked = chat, 0
        self._lock = asyncio.Lock()  # a function is called once at a time

    @contextmanager
    def short_patience(self) -> Iterator[None]:
        """See `Backend`."""
        if self._endpoint is None:
            yield
            return
        connection = self._endpoint.connection
        connection.patience_s, patience_s = PROBE_S, connection.patience_s
        try:
            yield
        finally:
            connection.patience_s = patience_s

    async def reply(self, messages: Messages, params: SamplingParams) -> str:
        """See `Backend`."""
        self._num_asked += 1
        session = f"judge/{self._num_asked}"
        request = ChatRequest(messages, (), params, session)
        try:
            if self._endpoint:
                response = await self._chat.complete(request)
            else:  # in a thread, so that episodes go on meanwhile
                async with self._lock:
                    response = await asyncio.to_thread(lambda: asyncio.run(self._chat.complete(request)))
        finally:
            self._chat.release(session)
        if response.finish == "length" and 0 < response.tokens < params.max_tokens:
            raise TooLong
        return final_text(response.message)
