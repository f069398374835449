"""Requests to a server that may be busy, broken or away for a while: what is repeated, how often, and what is not."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Any, TypeVar

import httpx
import numpy as np

from envs.suggestions import nearest
from envs.types import Stop
from rl.evaluate.clients.client import Halt
from rl.evaluate.clients.codec import error_text
from rl.records import CutOff

T = TypeVar("T")

CONNECT_S, REPLY_S = 20.0, 60.0
FIRST_S, LONGEST_S = 0.5, 20.0  # waits between attempts double from the first to the longest
TOLD_S = 5.0  # an outage as long as this is worth a line
STRIKES = 6  # failures of one request while others are answered
REFUSALS = 8  # requests refused before any was answered
FORBIDDEN, MISSING, TOO_MANY = (401, 402, 403), (404, 405, 410), 429
PASSING = (408, 409, 425, TOO_MANY)  # and every 5xx
TOO_LONG = ("context_length_exceeded", "context length", "context window")

log = logging.getLogger(__name__)


class Unreachable(ConnectionError):
    """A request had no answer in all the time that it was given: a fault of the endpoint, not of the model."""


class Refused(ValueError):
    """The server will not answer this request, however often it is asked."""


class _Trouble(Exception):
    """A failure that may pass. `wait_s` is what the server asks for; `busy` that it is sound, but has no time."""

    def __init__(self, what: str, wait_s: float | None = None, busy: bool = False) -> None:
        super().__init__(what)
        self.wait_s, self.busy = wait_s, busy


class Connection:
    """Posts JSON to `url/chat/completions`.

    A failure is repeated until the endpoint has answered nobody for `patience_s`, which also bounds the wait for one
    answer where it is longer than `REPLY_S`; or until one request failed `STRIKES` times while others were answered.
    """

    def __init__(
        self,
        model: str,
        url: str,
        *,
        key: str = "",
        patience_s: float = 600.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.patience_s = f"openai:{model}@{url}", patience_s
        self.proven = False  # whether it has ever answered, a cached reply included
        self.answers = 0
        self._model, self._url, self._key = model, httpx.URL(url), key
        self._sleep, self._clock = sleep, clock
        self._client: httpx.AsyncClient | None = None
        self._silent_since: float | None = None
        self._told = False
        self._refused = 0

    async def __aenter__(self) -> Connection:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)  # callers bound how many
        timeout = httpx.Timeout(max(self.patience_s, REPLY_S), connect=CONNECT_S)
        self._client = httpx.AsyncClient(headers=headers, limits=limits, timeout=timeout)
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._client is not None:
            await self._client.aclose()
        self._client = None

    async def ask(self, body: bytes, read: Callable[[Any], T], rng: np.random.Generator) -> T:
        """What `read` makes of the answer to `body`; `rng` draws how much longer than needed a repetition waits.

        `read` raises `ValueError` for an answer that is none. Raises `Unreachable`, `Refused`, `CutOff` where the
        dialogue is longer than the model can read, and `Halt` where no request can succeed.
        """
        strikes, seen = 0, self.answers
        for failures in count():
            try:
                answer = await self._attempt(body, read)
            except _Trouble as trouble:
                strikes += not trouble.busy and self.answers > seen
                seen = self.answers
                await self._sleep(self._wait(trouble, failures, strikes, rng))
            else:
                self._answered()
                return answer
        raise AssertionError("endless")

    def _answered(self) -> None:
        if self._told and self._silent_since is not None:
            log.warning("%s: answers again after %.0f s", self.name, self._clock() - self._silent_since)
        self.answers, self.proven = self.answers + 1, True
        self._silent_since, self._told = None, False

    def _wait(self, trouble: _Trouble, failures: int, strikes: int, rng: np.random.Generator) -> float:
        """Seconds until the next attempt. Raises `Unreachable` where there is to be none."""
        now = self._clock()
        if self._silent_since is None:
            self._silent_since = now
        silent = now - self._silent_since
        if silent >= self.patience_s:
            raise Unreachable(f"{trouble}; no answer for {silent:.0f} s (--patience {self.patience_s:g})")
        if strikes >= STRIKES:
            raise Unreachable(f"{trouble}; {failures + 1} times, while other requests were answered")
        wait_s = min(LONGEST_S, FIRST_S * 2 ** min(failures, 16)) * (0.5 + float(rng.random()))
        if trouble.wait_s is not None:
            wait_s = trouble.wait_s * (1 + 0.1 * float(rng.random()))
            if trouble.wait_s > self.patience_s:
                raise Unreachable(f"{trouble}; asks to wait {trouble.wait_s:g} s (--patience {self.patience_s:g})")
        if silent >= TOLD_S and not self._told:
            self._told = True
            log.warning("%s: %s; trying again for %.0f s", self.name, trouble, self.patience_s - silent)
        return wait_s

    async def _attempt(self, body: bytes, read: Callable[[Any], T]) -> T:
        """One request."""
        assert self._client is not None, "a connection is used inside `async with`"
        try:
            response = await self._client.post(
                self._at("chat/completions"), content=body, headers={"Content-Type": "application/json"}
            )
        except httpx.RequestError as error:
            raise self._unanswered(error) from error
        if not response.is_success:
            raise await self._refusal(response)
        try:
            return read(response.json())
        except ValueError as error:
            if not self.proven and "json" not in response.headers.get("content-type", ""):
                raise self._halt(f"{self._url} is no such API: it answers with a page; is the URL right?") from error
            raise _Trouble(self._clean(str(error))) from error

    def _unanswered(self, error: httpx.RequestError) -> BaseException:
        refused = next((cause for cause in _causes(error) if isinstance(cause, OSError) and cause.strerror), None)
        text = self._clean(str(error)) or type(error).__name__
        if not self.proven and any(isinstance(cause, socket.gaierror) for cause in _causes(error)):
            return self._halt(f"there is no host {self._url.host!r} ({text})")
        if not self.proven and any(isinstance(cause, ssl.SSLError) for cause in _causes(error)):
            return self._halt(f"no secure connection to {self._url.host!r} ({text})")
        if isinstance(error, httpx.TimeoutException):
            text = f"no answer in time ({type(error).__name__})"
        elif refused is not None:
            text = os.strerror(refused.errno).lower() if refused.errno else str(refused)
        return _Trouble(text)

    async def _refusal(self, response: httpx.Response) -> BaseException:
        """What a status other than success means."""
        status, words = response.status_code, self._clean(_words(response))
        if status in FORBIDDEN:
            how = "the key in OPENAI_API_KEY is refused" if self._key else "it wants a key; set OPENAI_API_KEY"
            return self._halt(f"{how} ({status}: {words})" if status != 402 else f"it wants to be paid ({words})")
        if "model" in words.lower() and (status == 404 or "model_not_found" in response.text):
            return self._halt(f"unknown model{await self._nearest_model()} ({status}: {words})")
        if "insufficient_quota" in response.text:
            return self._halt(f"the account's quota is used up ({status}: {words})")
        if (status in MISSING or response.is_redirect) and not self.proven:
            where = response.headers.get("location", "")
            hint = f"it points to {where}" if where else "most servers want a URL that ends in /v1"
            return self._halt(f"nothing answers at {self._at('chat/completions')} ({status}); {hint}")
        if status in PASSING or status in MISSING or status >= 500 or response.is_redirect:
            return _Trouble(f"{status}: {words}", _retry_after(response), busy=status == TOO_MANY)
        if status in (400, 413, 422) and any(sign in response.text.lower() for sign in TOO_LONG):
            return CutOff(Stop.TOKEN_LIMIT, f"the dialogue is too long for the model ({status}: {words})")
        return self._no(f"{status}: {words}")

    def _no(self, what: str) -> BaseException:
        """A request that is refused for its content; where all of them are, asking on is of no use."""
        self._refused += 1
        if self.proven:
            return Refused(what)
        hint = "--api-arg KEY=VALUE changes a field of the request, null leaves it out"
        return self._halt(f"{what}; {hint}") if self._refused >= REFUSALS else Refused(f"{what}; {hint}")

    async def _nearest_model(self) -> str:
        """`; did you mean M?` from the server's own list, if it has one."""
        assert self._client is not None
        with suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
            listed = (await self._client.get(self._at("models"))).json()["data"]
            known = [str(entry["id"]) for entry in listed]
            near = nearest(self._model, known)
            if near:
                return f"; did you mean {near}?"
            return f"; it has {', '.join(known[:5])}" if known else ""
        return ""

    def _at(self, path: str) -> httpx.URL:
        return self._url.copy_with(path=f"{self._url.path.removesuffix('/')}/{path}")

    def _halt(self, why: str) -> Halt:
        return Halt(f"--policy {self.name}: {why}", refused=True)

    def _clean(self, text: str) -> str:
        """One line, without the key, should a server repeat it."""
        return " ".join((text.replace(self._key, "(key)") if self._key else text).split())


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__


def _words(response: httpx.Response) -> str:
    """What a server says of its refusal."""
    with suppress(ValueError):
        said = error_text(response.json())
        if said:
            return said
    text = response.text.strip()
    return response.reason_phrase if not text or text.startswith("<") else text[:200]


def _retry_after(response: httpx.Response) -> float | None:
    """The `Retry-After` header in seconds: a number, or a date (RFC 9110, 10.2.3)."""
    said = response.headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.1, float(said))
    with suppress(ValueError):
        when = parsedate_to_datetime(said)
        return max(0.1, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    return None
