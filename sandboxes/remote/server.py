"""The HTTP server of a sandbox: authentication, sizes of requests, and errors for everything that is malformed."""

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
from sandboxes.remote.response_cache import Response, ResponseCache
from sandboxes.remote.service import Service, error_response

MAX_BODY_BYTES = 64 << 20
MAX_CONNECTIONS = 1024
IDLE_S = 60.0  # after which a silent connection is closed
_REQUEST_ID = re.compile(r"[0-9A-Za-z-]{8,64}")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address `host`: "localhost" or one such as "127.0.0.1" or "::1"."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class Server(socketserver.ThreadingTCPServer):
    """Serves a sandbox over HTTP from `serve_forever` to `shutdown`, one thread per connection."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, service: Service, token: str | None, max_body_bytes: int = MAX_BODY_BYTES
    ) -> None:
        """Bind to the address; port 0 is any free one.

        `token` is what clients must send; None lets all in. Requests over `max_body_bytes` bytes are refused. Raises
        OSError where the address cannot be used, ValueError where other machines reach it and there is no token.
        """
        check_address(host, token)
        self.service, self.max_body_bytes = service, max_body_bytes
        self.responses = ResponseCache()
        self._token = token.encode() if token else None
        self._connections = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Connection)

    @property
    def url(self) -> str:
        """The URL for clients, such as "http://127.0.0.1:8080"."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def is_authorized(self, header: str) -> bool:
        """Whether the text of an `Authorization` header is "Bearer " and the token, compared in constant time.

        Without a token every text is right.
        """
        return self._token is None or hmac.compare_digest(header.encode(errors="replace"), b"Bearer " + self._token)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection, or close it where there are too many."""
        if not self._connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print one line for a bug, and nothing for a broken connection."""
        error = sys.exception()
        if not isinstance(error, OSError):
            print(f"connection: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def check_address(host: str, token: str | None) -> None:
    """Raise ValueError if other machines reach the address `host` and `token` is None or ""."""
    if not token and not is_loopback(host):
        raise ValueError(f"host {host!r}: others than this machine reach it, so it needs a token")


class _Connection(BaseHTTPRequestHandler):
    """One connection, request after request."""

    server: Server
    protocol_version = default_request_version = "HTTP/1.1"
    timeout = IDLE_S
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def do_GET(self) -> None:
        """Respond to `/v1/health` for everybody and to `/v1/sandbox` for clients with the token."""
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            self._refuse("value", "GET takes no body")
        elif self.path == f"/{codec.VERSION}/health":
            self._respond(Response(200, b'{"status": "ok"}'))
        elif self._check_authorized():
            if self.path == f"/{codec.VERSION}/sandbox":
                description = self.server.service.describe(self.server.max_body_bytes)
                self._respond(Response(200, json.dumps(description).encode()))
            else:
                self._refuse("value", f"there is nothing at {self.path!r:.100}", 404)

    def do_POST(self) -> None:
        """Respond to all other requests."""
        self.close_connection, keep_alive = True, not self.close_connection  # until the body has been read
        size = self._body_size()
        if size is None or not self._check_authorized():
            return
        if not self.server.service.has_path(self.path):
            self._refuse("value", f"there is nothing at {self.path!r:.100}", 404)
            return
        body = self.rfile.read(size)
        if len(body) < size:
            return
        self.close_connection = not keep_alive
        server_id, request_id = self.headers.get(codec.SERVER_HEADER), self.headers.get(codec.REQUEST_HEADER)
        if server_id is not None and server_id != self.server.service.id:
            self._refuse("lost", "the server was started anew, and the answer is lost")
            return
        if request_id is not None and not _REQUEST_ID.fullmatch(request_id):
            self._refuse("value", f"{codec.REQUEST_HEADER} must be 8 to 64 letters, digits or '-'")
            return
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            self._refuse("value", "the body must be a JSON object")
            return
        self._execute(request_id, message)

    def _execute(self, request_id: str | None, message: object) -> None:
        path, service = self.path, self.server.service
        if request_id is None:
            self._respond(service.handle(path, message))
            return
        id = f"{path} {request_id}"
        response = self.server.responses.get_or_execute(id, lambda: service.handle(path, message))
        self._respond(response or error_response("lost", "it was answered too long ago"))

    def _body_size(self) -> int | None:
        """Bytes of the body; None where it was refused."""
        sizes = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or len(sizes) != 1:
            self._refuse("value", "a body needs one Content-Length", 411)
        elif not re.fullmatch(r"[0-9]{1,15}", sizes[0]):
            self._refuse("value", "Content-Length must be a number")
        elif int(sizes[0]) > self.server.max_body_bytes:
            self._refuse("large", f"a body of {sizes[0]} bytes: at most {self.server.max_body_bytes} are read")
        elif self.headers.get_content_type() != "application/json":  # web pages cannot send it without permission
            self._refuse("value", "Content-Type must be application/json", 415)
        else:
            return int(sizes[0])
        return None

    def _check_authorized(self) -> bool:
        """Whether the client has the token; otherwise the request is refused."""
        if "Origin" in self.headers:
            self._refuse("value", "web pages are not served", 403)
        elif not self.server.is_authorized(self.headers.get("Authorization", "")):
            self._refuse("token", "the token is missing or wrong")
        else:
            return True
        return False

    def _refuse(self, kind: str, text: str, status: int = 0) -> None:
        self._respond(error_response(kind, text, status=status))

    def _respond(self, response: Response) -> None:
        """Send the response; `close_connection` decides whether the connection ends with it."""
        self.send_response(response.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header(codec.SERVER_HEADER, self.server.service.id)
        if response.retry:
            self.send_header("Retry-After", "1")
        if response.status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(response.body)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send the base class's errors for malformed requests in the form of all others."""
        self.close_connection = True
        status = {501: 405, 505: 400}.get(int(code), int(code))
        with suppress(OSError):
            self._refuse("value", "this is no request that is understood here", status)

    def version_string(self) -> str:
        """The name of the server, without versions."""
        return "turnwise"

    def log_message(self, *_: object) -> None:
        """Log nothing: requests contain the token."""
