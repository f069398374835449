"""HTTP requests to a server of vLLM, each with a deadline."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import httpx

from rl.policy.servers.address import KEY_VARIABLE
from rl.processes.timeout import TIMEOUT_VARIABLE

CONNECT_S = 10.0  # in which a machine that is there accepts a connection
MAX_TEXT = 300  # characters of an error


class ServerLost(Exception):
    """The server does not answer, or has failed with an error that it may not have once it is started again."""


class Refused(Exception):
    """The server has answered a request with an error; `status` is that of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Connection:
    """The HTTP interface of the server at `url`. Used on one event loop."""

    def __init__(self, url: str) -> None:
        """Connect nowhere yet. The key in VLLM_API_KEY, if there is one, goes with every request."""
        self.url = url
        key = os.environ.get(KEY_VARIABLE, "")
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            # A connection of its own for each request: one that is kept may be closed while a request is on its way,
            # which looks like the end of the server.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            trust_env=url.startswith("https:"),  # a proxy is for other networks than that of a server's port
        )

    async def close(self) -> None:
        """End all connections."""
        await self._http.aclose()

    async def get(self, path: str, *, timeout_s: float, **query: Any) -> Any:
        """Return the JSON of a GET request; see `post`."""
        return await self._call("GET", path, timeout_s, query=query)

    async def post(self, path: str, body: Any = None, *, timeout_s: float, **query: Any) -> Any:
        """Return the JSON of a POST request with a JSON `body`, None for an empty answer.

        The whole answer must be there in `timeout_s` seconds. Raises `ServerLost` if it is not, and `Refused` for an
        answer that is an error.
        """
        return await self._call("POST", path, timeout_s, query=query, body=body)

    async def _call(
        self, method: str, path: str, timeout_s: float, *, query: Mapping[str, Any], body: Any = None
    ) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._http.request(method, self.url + path, params=query or None, json=body)
        except TimeoutError:
            raise ServerLost(f"{self.url} gave no answer to {path} for {timeout_s:g} s ({TIMEOUT_VARIABLE})") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerLost(f"{self.url} does not answer ({_reason(error)})") from None
        if response.status_code != httpx.codes.OK:
            raise Refused(response.status_code, _error_text(response))
        try:
            return response.json() if response.content else None
        except ValueError:
            raise ServerLost(f"{self.url} answered {path} with something that is no JSON") from None


def _reason(error: Exception) -> str:
    """What stopped a request, in words."""
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection in {CONNECT_S:g} s"
    if isinstance(error, httpx.ConnectError):
        return "no connection"
    if isinstance(error, (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)):
        return "the connection broke"
    return " ".join(str(error).split())[:MAX_TEXT] or type(error).__name__


def _error_text(response: httpx.Response) -> str:
    """The message of an error, on one line."""
    try:
        body = response.json()
    except ValueError:
        body = response.text
    if isinstance(body, Mapping):
        body = body.get("error") or body.get("detail") or body.get("message") or body
    if isinstance(body, Mapping):
        body = body.get("message") or body
    text = " ".join(str(body).split())
    return f"{response.status_code}: {text[:MAX_TEXT]}" if text else str(response.status_code)
