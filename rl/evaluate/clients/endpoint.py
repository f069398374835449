"""A model behind an OpenAI-compatible API as a speaker: its replies are cached, its tokens counted and bounded."""

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
from rl.evaluate.clients import codec
from rl.evaluate.clients.cache import ReplyCache, digest
from rl.evaluate.clients.client import Asked, Halt, Said
from rl.evaluate.clients.connection import Connection, Refused
from rl.records import CutOff
from rl.seeds import generator

OWN = ("model", "messages", "tools", "stream", "n")  # fields that mean something to this program

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Model:
    """What replies depend on besides the dialogue and how it is sampled; `fields` are those of `wire.request`."""

    name: str
    url: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, spec: str, fields: Mapping[str, Any] | None = None) -> Model:
        """The model that `MODEL@URL` names. Raises `ValueError`."""
        found = re.fullmatch(r"(.+?)@(https?://.+)", spec)
        if not found:
            raise ValueError(f"openai:{spec} is not openai:MODEL@URL, such as openai:qwen3@http://localhost:8000/v1")
        name, url = found[1], found[2].rstrip("/").removesuffix("/chat/completions")
        parts = urlsplit(url)
        if parts.username is not None:
            raise ValueError("a URL with a name or a key would end up in results; put the key in OPENAI_API_KEY")
        try:
            named = bool(parts.hostname) and parts.port != 0
        except ValueError:
            named = False
        if not named or re.search(r"\s", url):
            raise ValueError(f"{url!r} is no URL of a server, such as http://localhost:8000/v1")
        for key in fields or ():
            if key in OWN:
                raise ValueError(f"the request's field {key!r} is not for you to set")
        return cls(name, url, fields or {})


class Endpoint:
    """Asks for at most `concurrency` replies at the same time; used inside `async with`.

    A reply is cached under the digest of the URL, the whole request and the seed of this very reply, which tells
    samples, turns and tasks apart even where the request does not hold it. `budget` bounds the tokens of all requests,
    prompts and cached replies included: once they are used up nothing more is sent, and the requests under way are
    waited for. `context` bounds the tokens of one episode, by the server's count.
    """

    def __init__(
        self,
        model: Model,
        connection: Connection,
        *,
        concurrency: int = 16,
        budget: int | None = None,
        context: int | None = None,
        cache: ReplyCache | None = None,
    ) -> None:
        self.model, self.connection, self.cache = model, connection, cache
        self.concurrency, self.budget, self.context = concurrency, budget, context
        self.spent = 0
        self._contexts: dict[str, int] = {}
        self._denied: dict[str, Exception] = {}  # requests that need not be sent again, should an episode be repeated
        self._uncounted = False

    async def __aenter__(self) -> Endpoint:
        self._seats, self._quiet, self._asking = asyncio.Semaphore(self.concurrency), asyncio.Event(), 0
        self._quiet.set()
        await self.connection.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.connection.__aexit__(*exception)

    async def say(self, asked: Asked) -> Said:
        """The reply, from the cache or from the server."""
        if self.context is not None:
            room = self.context - self._contexts.get(asked.session, 0)
            if room < 1:
                raise CutOff(Stop.TOKEN_LIMIT)
            asked = asked._replace(params=replace(asked.params, max_tokens=min(asked.params.max_tokens, room)))
        body = codec.request(asked, self.model.name, self.model.fields)
        key = digest(self.model.url, body, asked.params.seed)
        kept = self.cache.get(key) if self.cache else None
        if kept is None:
            async with self._seats:
                said = await self._ask(body, key, asked)
        else:
            said = Said(**kept)
            self.connection.proven = True
            self.spent += said.context
        self._contexts[asked.session] = said.context
        return said

    def release(self, session: str) -> None:
        """Forget an episode that ended."""
        self._contexts.pop(session, None)

    async def _ask(self, body: Mapping[str, Any], key: str, asked: Asked) -> Said:
        if key in self._denied:
            raise self._denied[key]
        if self.budget is not None and self.spent >= self.budget:
            await self._quiet.wait()
            further = "" if self.cache is None else "; the same command with a larger one goes on from here"
            raise Halt(f"--token-budget {self.budget} is used up ({self.spent} tokens{further})")
        self._asking += 1
        self._quiet.clear()
        try:
            sent = json.dumps(body).encode()  # ASCII, because half a surrogate pair has no UTF-8
            read = partial(codec.read, asked=asked)
            said = await self.connection.ask(sent, read, generator(key, "back-off"))
            self.spent += said.context
            self._keep(key, said)
        except (Refused, CutOff) as error:
            self._denied[key] = error
            raise
        finally:
            self._asking -= 1
            if not self._asking:
                self._quiet.set()
        if not said.context:
            self._tell_uncounted()
        return said

    def _keep(self, key: str, said: Said) -> None:
        if self.cache is None:
            return
        try:
            self.cache.put(key, asdict(said))
        except OSError as error:
            why = f"{self.cache.folder}: {(error.strerror or str(error)).lower()}; replies cannot be kept"
            raise Halt(f"{why}; make room, or use --no-cache") from error

    def _tell_uncounted(self) -> None:
        """Say once that a server counts no tokens."""
        if self.budget is not None:
            why = "the server counts no tokens (no `usage`), so --token-budget cannot be kept"
            raise Halt(f"--policy {self.connection.name}: {why}", refused=True)
        if not self._uncounted:
            self._uncounted = True
            log.warning("%s: counts no tokens (no `usage` in its answers); they are taken as 0", self.connection.name)
