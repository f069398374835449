"""The HTTP server of a sandbox: who may ask, how much, and nothing that a stranger sends makes it stumble."""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
import socket
import socketserver
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

from sandboxes.remote import codec
from sandboxes.remote.answer_cache import Answer, Answers
from sandboxes.remote.service import Service, refusal

MOST_BYTES = 64 << 20  # of a request's body
MOST_CONNECTIONS = 1024
SILENCE_S = 60.0  # after which a connection on which nothing passes is closed
_NAME = re.compile(r"[0-9A-Za-z-]{8,64}")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class Server(socketserver.ThreadingTCPServer):
    """Serves until `shutdown`. Raises ValueError for an address that strangers reach where there is no token."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, service: Service, token: str | None, body_bytes: int = MOST_BYTES) -> None:
        check_address(host, token)
        self.service, self.body_bytes = service, body_bytes
        self.answers = Answers()
        self._token = token.encode() if token else None
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Connection)

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def admits(self, given: str) -> bool:
        """Whether an `Authorization` line has the token; it takes as long for any of that length."""
        return self._token is None or hmac.compare_digest(given.encode(errors="replace"), b"Bearer " + self._token)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for the connection, or its end where there are too many."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """One line for a bug; nothing for a connection that broke."""
        fault = sys.exception()
        if not isinstance(fault, OSError):
            print(f"connection: {type(fault).__name__}: {fault}", file=sys.stderr, flush=True)


def check_address(host: str, token: str | None) -> None:
    """Raise ValueError for an address that strangers reach, without a token."""
    if not token and not is_loopback(host):
        raise ValueError(f"host {host!r}: others than this machine reach it, so it needs a token")


class _Connection(BaseHTTPRequestHandler):
    """One connection, request after request."""

    server: Server
    protocol_version = default_request_version = "HTTP/1.1"
    timeout = SILENCE_S
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def do_GET(self) -> None:
        """`/v1/health` for anybody, `/v1/sandbox` for those who have the token."""
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            self._refuse("value", "GET takes no body")
        elif self.path == f"/{codec.VERSION}/health":
            self._answer(Answer(200, b'{"status": "ok"}'))
        elif self._is_admitted():
            if self.path == f"/{codec.VERSION}/sandbox":
                self._answer(Answer(200, json.dumps(self.server.service.about(self.server.body_bytes)).encode()))
            else:
                self._refuse("value", f"there is nothing at {self.path!r:.100}", 404)

    def do_POST(self) -> None:
        """Everything else."""
        self.close_connection, stays = True, not self.close_connection  # until the body has been read
        size = self._size()
        if size is None or not self._is_admitted():
            return
        if not self.server.service.knows(self.path):
            self._refuse("value", f"there is nothing at {self.path!r:.100}", 404)
            return
        body = self.rfile.read(size)
        if len(body) < size:
            return
        self.close_connection = not stays
        wanted, name = self.headers.get(codec.SERVER), self.headers.get(codec.REQUEST)
        if wanted is not None and wanted != self.server.service.name:
            self._refuse("lost", "the server was started anew, and the answer is lost")
            return
        if name is not None and not _NAME.fullmatch(name):
            self._refuse("value", f"{codec.REQUEST} must be 8 to 64 letters, digits or '-'")
            return
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            self._refuse("value", "the body must be a JSON object")
            return
        self._do(name, said)

    def _do(self, name: str | None, said: object) -> None:
        path, service = self.path, self.server.service
        if name is None:
            self._answer(service.answer(path, said))
            return
        answer = self.server.answers.once(f"{path} {name}", lambda: service.answer(path, said))
        self._answer(answer or refusal("lost", "it was answered too long ago"))

    def _size(self) -> int | None:
        """Of the body; None where it was refused."""
        sizes = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or len(sizes) != 1:
            self._refuse("value", "a body needs one Content-Length", 411)
        elif not re.fullmatch(r"[0-9]{1,15}", sizes[0]):
            self._refuse("value", "Content-Length must be a number")
        elif int(sizes[0]) > self.server.body_bytes:
            self._refuse("large", f"a body of {sizes[0]} bytes: at most {self.server.body_bytes} are read")
        elif self.headers.get_content_type() != "application/json":  # what a web page cannot send unasked
            self._refuse("value", "Content-Type must be application/json", 415)
        else:
            return int(sizes[0])
        return None

    def _is_admitted(self) -> bool:
        if "Origin" in self.headers:
            self._refuse("value", "web pages are not served", 403)
        elif not self.server.admits(self.headers.get("Authorization", "")):
            self._refuse("token", "the token is missing or wrong")
        else:
            return True
        return False

    def _refuse(self, kind: str, text: str, status: int = 0) -> None:
        self._answer(refusal(kind, text, status=status))

    def _answer(self, answer: Answer) -> None:
        """Send it; the connection may end with it."""
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header(codec.SERVER, self.server.service.name)
        if answer.retry:
            self.send_header("Retry-After", "1")
        if answer.status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the parser refuses, told as everything else is. Called by the base class."""
        self.close_connection = True
        status = {501: 405, 505: 400}.get(int(code), int(code))
        with suppress(OSError):
            self._refuse("value", "this is no request that is understood here", status)

    def version_string(self) -> str:
        """The name of the server, without versions."""
        return "turnwise"

    def log_message(self, *_: object) -> None:
        """Requests are not logged: they carry the token."""
