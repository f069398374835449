"""HTTP requests to a chat-completions API: retries with back-off, and errors that a retry cannot fix."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

import httpx
import numpy as np

from envs.suggestions import nearest
from envs.types import Stop
from rl.evaluate.clients.client import StopEvaluation
from rl.evaluate.clients.failures import FIELD_HINT, FailedAlone, Refused, TimedOut, Unreachable
from rl.evaluate.clients.responses import response_text, retry_after_s
from rl.policy.engine import CutOff

T = TypeVar("T")

CONNECT_S, MIN_ANSWER_S = 20.0, 1.0  # most seconds of connecting, least of the timeout of a whole answer
HINT_S = 5.0  # timeout of the list of models, which only improves a message
MAX_ANSWER_BYTES = 32 * 2**20
QUOTE_CHARS = 60  # of an answer that is no JSON, in messages
MIN_BACKOFF_S, MAX_BACKOFF_S = 0.5, 20.0  # the wait between attempts doubles from the first to the second
OUTAGE_NOTICE_S = 5.0  # an outage that lasts this long is logged
MAX_FAILURES = 6  # failures of one request while other requests succeed
SLOW_WEIGHT = 3  # failures that count as one that took all the time there is
MAX_REFUSALS = 8  # refused requests while none has succeeded yet
TOO_MANY_REQUESTS = 429
AUTH_STATUSES, MISSING_STATUSES = (401, 402, 403), (404, 405, 410)
TRANSIENT_STATUSES = (408, 409, 425, TOO_MANY_REQUESTS)  # and every 5xx
TRANSFER_HEADERS = ("content-encoding", "content-length", "transfer-encoding")  # of a body that is read and decoded
CONTEXT_ERROR_TEXTS = (
    *("context_length_exceeded", "context length", "context window", "context size"),
    *("maximum model length", "max_model_len", "maximum allowed length"),
)
PLAYER_FLAGS = ("--policy", "--opponent")  # of models whose replies the flags of sampling are about

log = logging.getLogger(__name__)


class _TransientError(Exception):
    """A failure that a retry may fix.

    `retry_after_s` is the wait that the server asks for, None without one. `is_busy` marks a rate limit, which does
    not count as a failure of the request. `is_slow` marks one that took as long, or as much, as an answer may.
    """

    def __init__(
        self, reason: str, retry_after_s: float | None = None, *, is_busy: bool = False, is_slow: bool = False
    ) -> None:
        super().__init__(reason)
        self.retry_after_s, self.is_busy, self.is_slow = retry_after_s, is_busy, is_slow


class Connection:
    """Posts JSON to `url/chat/completions` and retries failures. Used inside `async with`.

    A request is retried until the endpoint has answered no request at all for `patience_s`, or until this request has
    failed `MAX_FAILURES` times while others were answered. A whole answer, from the connection to the last byte, may
    take `patience_s` (at least `MIN_ANSWER_S`).

    Args:
        model: Name of the model, for messages and to suggest a correction.
        url: Base URL of the API, such as "http://localhost:8000/v1".
        key: API key, sent as a bearer token; empty for none. It is removed from all messages.
        patience_s: Seconds without any answer after which requests are given up.
        flag: Where the model's name comes from, for messages.
        limit_flag: What sets the limit of a reply, for messages about a policy or an opponent.
        sleep: Waits between attempts; tests replace it.
        clock: Returns the time in seconds; tests replace it.
    """

    def __init__(
        self,
        model: str,
        url: str,
        *,
        key: str = "",
        patience_s: float = 600.0,
        flag: str = "--policy",
        limit_flag: str = "--turn-tokens",
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.patience_s = f"openai:{model}@{url}", patience_s
        self.flag, self._limit_flag = flag, limit_flag
        self.has_answered = False  # now or, with cached replies, in an earlier evaluation
        self.num_answers = 0
        self._model, self._url, self._key = model, httpx.URL(url), key
        self._sleep, self._clock = sleep, clock
        self._http: httpx.AsyncClient | None = None
        self._outage_start: float | None = None
        self._outage_logged = False
        self._num_refusals = 0

    @property
    def _answer_s(self) -> float:
        return max(self.patience_s, MIN_ANSWER_S)

    async def __aenter__(self) -> Connection:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)  # callers limit the number
        timeout = httpx.Timeout(None, connect=min(CONNECT_S, self._answer_s))
        self._http = httpx.AsyncClient(headers=headers, limits=limits, timeout=timeout)
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._http is not None:
            await self._http.aclose()
        self._http = None

    async def post(self, body: bytes, decode: Callable[[Any], T], rng: np.random.Generator) -> T:
        """Send `body` until it is answered and return the decoded answer.

        Args:
            body: JSON of the request.
            decode: Converts the JSON of a response; it raises `ValueError` for a response that is to be retried.
            rng: Draws the jitter of the waits between attempts.

        Raises:
            Unreachable: The retries are used up.
            Refused: The server rejects the content of the request.
            CutOff: The dialogue exceeds the model's context.
            StopEvaluation: No request can succeed, for instance because the key is wrong, or nothing is answered and
                every request takes all its time.
        """
        solo_failures, answers_before = 0, self.num_answers
        for failures in count():
            try:
                answer = await self._attempt(body, decode)
            except _TransientError as error:
                if not error.is_busy and self.num_answers > answers_before:
                    solo_failures += SLOW_WEIGHT if error.is_slow else 1
                answers_before = self.num_answers
                await self._sleep(self._backoff(error, failures, solo_failures, rng))
            else:
                self._record_answer()
                return answer
        raise AssertionError("endless")

    def _record_answer(self) -> None:
        if self._outage_logged and self._outage_start is not None:
            log.warning("%s: answers again after %.0f s", self.name, self._clock() - self._outage_start)
        self.num_answers, self.has_answered = self.num_answers + 1, True
        self._outage_start, self._outage_logged = None, False

    def _backoff(self, error: _TransientError, failures: int, solo_failures: int, rng: np.random.Generator) -> float:
        """Seconds until the next attempt. Raises `Unreachable` or `StopEvaluation` if there is to be none.

        `failures` counts earlier failures of the request, `solo_failures` those while other requests were answered.
        """
        now = self._clock()
        if self._outage_start is None:
            self._outage_start = now
        outage_s = now - self._outage_start
        if outage_s >= self.patience_s:
            reason = f"{error}; no answer for {outage_s:.0f} s{self._patience}"
            raise self._stop(reason, is_user_error=not self.has_answered) if error.is_slow else Unreachable(reason)
        if solo_failures >= MAX_FAILURES:
            raise (TimedOut if error.is_slow else FailedAlone)(
                f"{error}; {failures + 1} times, while other requests were answered"
            )
        wait_s = min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2 ** min(failures, 16)) * (0.5 + float(rng.random()))
        if error.retry_after_s is not None:
            wait_s = error.retry_after_s * (1 + 0.1 * float(rng.random()))
            if error.retry_after_s > self.patience_s:
                raise Unreachable(f"{error}; asks to wait {error.retry_after_s:g} s{self._patience}")
        if outage_s >= OUTAGE_NOTICE_S and not self._outage_logged:
            self._outage_logged = True
            log.warning("%s: %s; trying again for %.0f s", self.name, error, self.patience_s - outage_s)
        return wait_s

    async def _attempt(self, body: bytes, decode: Callable[[Any], T]) -> T:
        """Send the request once."""
        headers = {"Content-Type": "application/json"}
        try:
            async with asyncio.timeout(self._answer_s):
                response = await self._request("POST", "chat/completions", content=body, headers=headers)
        except TimeoutError:
            raise _TransientError(f"no complete answer within {self._answer_s:g} s", is_slow=True) from None
        except httpx.RequestError as error:
            raise self._request_error(error) from error
        if not response.is_success:
            raise await self._status_error(response)
        try:
            return decode(response.json())
        except (ValueError, RecursionError) as error:
            raise self._unreadable(response, error) from error

    def _unreadable(self, response: httpx.Response, error: Exception) -> BaseException:
        """The error to raise for a response that is a success and no chat completion, as `error` says."""
        text = self._clean(response.text)
        is_other = text.startswith("<") or "json" not in response.headers.get("content-type", "")
        if is_other and not self.has_answered:  # afterwards it is a page of something between, such as a proxy
            hint = f"is the URL {self._url} right? Most servers want one that ends in /v1"
            return self._stop(f"no chat-completions API: it answers {text[:QUOTE_CHARS]!r}; {hint}")
        if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
            return _TransientError(f"it answers no JSON but {text[:QUOTE_CHARS]!r}")
        return _TransientError(self._clean(str(error)))

    async def _request(self, method: str, path: str, **content: Any) -> httpx.Response:
        """Send a request and read its response. Raises `_TransientError` if that has more than `MAX_ANSWER_BYTES`."""
        assert self._http is not None, "a connection is used inside `async with`"
        body = bytearray()
        async with self._http.stream(method, self._endpoint_url(path), **content) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise _TransientError(f"an answer of more than {MAX_ANSWER_BYTES >> 20} MiB", is_slow=True)
        headers = [(key, value) for key, value in response.headers.items() if key not in TRANSFER_HEADERS]
        return httpx.Response(response.status_code, headers=headers, content=bytes(body), request=response.request)

    def _request_error(self, error: httpx.RequestError) -> BaseException:
        """The error to raise for a request that got no response."""
        os_error = next((cause for cause in _causes(error) if isinstance(cause, OSError) and cause.strerror), None)
        text = self._clean(str(error)) or type(error).__name__
        if not self.has_answered and any(isinstance(cause, socket.gaierror) for cause in _causes(error)):
            return self._stop(f"there is no host {self._url.host!r} ({text})")
        if not self.has_answered and any(isinstance(cause, ssl.SSLError) for cause in _causes(error)):
            return self._stop(f"no secure connection to {self._url.host!r} ({text})")
        if isinstance(error, httpx.TimeoutException):
            return _TransientError(f"no answer in time ({type(error).__name__})", is_slow=True)
        if os_error is not None:
            text = os.strerror(os_error.errno).lower() if os_error.errno else str(os_error)
        return _TransientError(text)

    async def _status_error(self, response: httpx.Response) -> BaseException:
        """The error to raise for a response whose status is not a success."""
        status, text = response.status_code, self._clean(response_text(response))
        if status in AUTH_STATUSES:
            how = "the key in OPENAI_API_KEY is refused" if self._key else "it needs an API key; set OPENAI_API_KEY"
            return self._stop(f"{how} ({status}: {text})" if status != 402 else f"it requires payment ({text})")
        if "model" in text.lower() and (status == 404 or "model_not_found" in response.text):
            return self._stop(f"unknown model{await self._model_hint()} ({status}: {text})")
        if "insufficient_quota" in response.text:
            return self._stop(f"the account's quota is used up ({status}: {text})")
        if (status in MISSING_STATUSES or response.is_redirect) and not self.has_answered:
            location = response.headers.get("location", "")
            hint = f"it points to {location}" if location else "most servers want a URL that ends in /v1"
            return self._stop(f"nothing answers at {self._endpoint_url('chat/completions')} ({status}); {hint}")
        if status in (*TRANSIENT_STATUSES, *MISSING_STATUSES) or status >= 500 or response.is_redirect:
            return _TransientError(f"{status}: {text}", retry_after_s(response), is_busy=status == TOO_MANY_REQUESTS)
        is_long = status == 413 or any(sign in response.text.lower() for sign in CONTEXT_ERROR_TEXTS)
        if status in (400, 413, 422) and is_long:
            fix = f": lower {self._limit_flag} or serve it with a longer context" * (self.flag in PLAYER_FLAGS)
            return CutOff(Stop.TOKEN_LIMIT, f"the dialogue is too long for the model{fix} ({status}: {text})")
        return self._refusal(f"{status}: {text}")

    def _refusal(self, reason: str) -> BaseException:
        """The error for a request whose content is rejected: of this request, or of all if none has succeeded yet."""
        self._num_refusals += 1
        if self.has_answered:
            return Refused(reason)
        if self.flag == "--policy":
            reason += FIELD_HINT
        return self._stop(reason) if self._num_refusals >= MAX_REFUSALS else Refused(reason)

    async def _model_hint(self) -> str:
        """Text like `; did you mean M?` from the server's list of models; empty if it has none."""
        with suppress(httpx.HTTPError, ValueError, KeyError, TypeError, TimeoutError, _TransientError):
            async with asyncio.timeout(HINT_S):
                entries = (await self._request("GET", "models")).json()["data"]
            models = [str(entry["id"]) for entry in entries]
            near = nearest(self._model, models)
            if near:
                return f"; did you mean {near}?"
            return f"; it has {', '.join(models[:5])}" if models else ""
        return ""

    def _endpoint_url(self, path: str) -> httpx.URL:
        return self._url.copy_with(path=f"{self._url.path.removesuffix('/')}/{path}")

    @property
    def _patience(self) -> str:
        return f" (--patience {self.patience_s:g})" if self.flag == "--policy" else ""

    def _stop(self, reason: str, *, is_user_error: bool = True) -> StopEvaluation:
        return StopEvaluation(f"{self.flag} {self.name}: {reason}", is_user_error=is_user_error)

    def _clean(self, text: str) -> str:
        """Put text on one line and remove the API key, which a server may repeat."""
        return " ".join((text.replace(self._key, "(key)") if self._key else text).split())


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its chain of causes."""
    while error is not None:
        yield error
        error = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__
