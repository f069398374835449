"""A page on this machine alone, made anew whenever it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rl.cli import UserError, one_line

LOOPBACK = "127.0.0.1"


def serve(render: Callable[[], bytes], port: int = 0, ready: Callable[[str], None] = print) -> None:
    """Answer `/` with `render()` until interrupted; `ready` gets the address. `port` 0 takes a free one.

    Raises `UserError` where the port cannot be had.
    """
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), _handler(render))
    except OSError as error:
        raise UserError(f"--port {port}: {(error.strerror or str(error)).lower()}") from None
    with server:
        ready(f"http://{LOOPBACK}:{server.server_port}/")
        server.serve_forever()


def _handler(render: Callable[[], bytes]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = self.headers.get("Host", "").rpartition(":")[0]
            if host not in (LOOPBACK, "localhost"):  # another site's name, made to lead here, must not read along
                self._answer(403, b"ask for 127.0.0.1\n", "text/plain")
            elif self.path.partition("?")[0] != "/":
                self._answer(404, b"there is only /\n", "text/plain")
            else:
                try:
                    self._answer(200, render(), "text/html")
                except (ValueError, OSError) as error:  # the files went away, or are being replaced
                    self._answer(503, f"{one_line(error)}\n".encode(), "text/plain")

        def _answer(self, code: int, content: bytes, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing on the terminal."""

    return Handler
