"""Chat client for a model behind an OpenAI-compatible API: replies are cached, tokens are counted and limited."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from envs.types import Stop
from rl.cli import remedy
from rl.evaluate.clients import codec
from rl.evaluate.clients.cache import ReplyCache, digest
from rl.evaluate.clients.client import ChatRequest, ChatResponse, StopEvaluation
from rl.evaluate.clients.connection import Connection
from rl.evaluate.clients.failures import Refused, TimedOut
from rl.evaluate.runner import REQUEST_FIELDS
from rl.policy.engine import CutOff
from rl.seeds import generator

RESERVED_FIELDS = ("model", "messages", "tools", "stream", "n")  # request fields that this program sets itself

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EndpointModel:
    """The name and base URL of a model behind an API, and extra request fields (see `codec.encode_request`)."""

    name: str
    url: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_spec(cls, spec: str, fields: Mapping[str, Any] | None = None) -> EndpointModel:
        """Parse `MODEL@URL`, such as `qwen3@http://localhost:8000/v1`; `fields` are extra fields of every request.

        Raises `ValueError` for another form, a malformed URL or one with a key in it, or a field in `RESERVED_FIELDS`.
        """
        match = re.fullmatch(r"(.+?)@(https?://.+)", spec)
        if not match:
            raise ValueError(f"openai:{spec} is not openai:MODEL@URL, such as openai:qwen3@http://localhost:8000/v1")
        name, url = match[1], match[2].rstrip("/").removesuffix("/chat/completions")
        try:
            parts = urlsplit(url)
            is_valid, has_key = bool(parts.hostname) and parts.port != 0, parts.username is not None
        except ValueError:
            is_valid = has_key = False
        if has_key:
            raise ValueError("a URL with a name or a key would end up in results; put the key in OPENAI_API_KEY")
        if not is_valid or re.search(r"\s", url):
            raise ValueError(f"{url!r} is no URL of a server, such as http://localhost:8000/v1")
        for key in fields or ():
            if key in RESERVED_FIELDS:
                raise ValueError(f"the request field {key!r} cannot be set; leave it out of --api-arg")
        return cls(name, url, fields or {})

    @property
    def limit_flag(self) -> str:
        """What sets the limit of a reply on a command line: a field of the request, else `--turn-tokens`."""
        names = [name for name in self.fields if REQUEST_FIELDS.get(name) == "turn_tokens"]
        name = min(names, key=lambda name: self.fields[name] is None, default="")
        return f"--api-arg {name}" if name else "--turn-tokens"


class EndpointClient:
    """Requests replies from an API. Used inside `async with`.

    A reply is cached under a digest of the URL, the request and the seed of the reply. The seed keeps samples, turns
    and tasks apart even if the request itself has no `seed` field.

    Args:
        model: The model to ask.
        connection: Sends the requests.
        concurrency: Most requests that are open at the same time.
        budget: Most tokens of the whole evaluation, prompts and cached replies included; None for no limit. Once they
            are used up no request is sent; open requests are completed first.
        context: Most tokens of one episode by the server's count; None for no limit.
        cache: Where replies are stored; None to store none.
    """

    def __init__(
        self,
        model: EndpointModel,
        connection: Connection,
        *,
        concurrency: int = 16,
        budget: int | None = None,
        context: int | None = None,
        cache: ReplyCache | None = None,
    ) -> None:
        self.model, self.connection, self.cache = model, connection, cache
        self.concurrency, self.budget, self.context = concurrency, budget, context
        self.total_tokens = 0
        self._contexts: dict[str, int] = {}  # tokens of the dialogue, by session
        # By digest without a seed: a retry of the episode, though it draws anew, raises them without a request.
        self._errors: dict[str, Exception] = {}
        self._warned_of_usage = False

    async def __aenter__(self) -> EndpointClient:
        self._slots = asyncio.Semaphore(self.concurrency)
        self._open_requests = 0
        self._no_open_requests = asyncio.Event()
        self._no_open_requests.set()
        await self.connection.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.connection.__aexit__(*exception)

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Return the reply from the cache or from the server.

        Raises `CutOff` if the episode's tokens are used up, `StopEvaluation` if the budget is or no request can
        succeed, and `Refused` or `Unreachable` if this request fails.
        """
        if self.context is not None:
            room = self.context - self._contexts.get(request.session, 0)
            if room < 1:
                raise CutOff(Stop.TOKEN_LIMIT)
            request = request._replace(params=replace(request.params, max_tokens=min(request.params.max_tokens, room)))
        body = codec.encode_request(request, self.model.name, self.model.fields)
        key = digest(self.model.url, body, request.params.seed)
        fields = self.cache.get(key) if self.cache else None
        if fields is None:
            async with self._slots:
                response = await self._fetch(body, key, request)
        else:
            response = ChatResponse(**fields)
            self.connection.has_answered = True
            self.total_tokens += response.context
        if not response.context:
            self._handle_missing_usage()
        self._contexts[request.session] = response.context
        return response

    def release(self, session: str) -> None:
        """Forget how many tokens an episode that ended had; `session` is its name, "TICKET/MEMBER"."""
        self._contexts.pop(session, None)

    async def _fetch(self, body: Mapping[str, Any], key: str, request: ChatRequest) -> ChatResponse:
        """Request a reply from the server and store it under `key`."""
        content_key = digest(self.model.url, {**body, "seed": None}, request.session)
        if content_key in self._errors:
            raise self._errors[content_key]
        if self.budget is not None and self.total_tokens >= self.budget:
            await self._no_open_requests.wait()
            hint = "" if self.cache is None else "; the same command with a larger one goes on from here"
            raise StopEvaluation(f"--token-budget {self.budget} is used up ({self.total_tokens} tokens{hint})")
        self._open_requests += 1
        self._no_open_requests.clear()
        try:
            content = json.dumps(body).encode()  # escaped to ASCII: a lone surrogate has no UTF-8
            decode = partial(codec.decode_response, request=request)
            response = await self.connection.post(content, decode, generator(key, "back-off"))
            self.total_tokens += response.context
            self._store(key, response)
        except (Refused, TimedOut, CutOff) as error:
            self._errors[content_key] = error
            raise
        finally:
            self._open_requests -= 1
            if not self._open_requests:
                self._no_open_requests.set()
        return response

    def _store(self, key: str, response: ChatResponse) -> None:
        if self.cache is None:
            return
        try:
            self.cache.put(key, asdict(response))
        except OSError as error:
            reason = f"{self.cache.folder}: {(error.strerror or str(error)).lower()}; replies cannot be kept"
            raise StopEvaluation(f"{reason}; {remedy(error.errno)}, or use --no-cache") from error

    def _handle_missing_usage(self) -> None:
        """Stop if the server reports no token counts but a budget needs them; else warn once."""
        if self.budget is not None:
            reason = "the server counts no tokens (no `usage`), so --token-budget cannot be kept"
            raise StopEvaluation(f"{self.connection.flag} {self.connection.name}: {reason}", is_user_error=True)
        if not self._warned_of_usage:
            self._warned_of_usage = True
            log.warning("%s: counts no tokens (no `usage` in its answers); they are taken as 0", self.connection.name)
