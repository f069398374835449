"""Serves one page on this machine's loopback address."""

from __future__ import annotations

import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rl.cli import UserError, one_line
from rl.viewer.reader import NoSuchUpdateError

LOOPBACK = "127.0.0.1"


def serve(render: Callable[[tuple[int, ...]], bytes], port: int = 0, on_ready: Callable[[str], None] = print) -> None:
    """Serve a page on 127.0.0.1: answer every request for `/` with a new `render(updates)` until interrupted.

    `updates` are those of `/?update=3`, none without it.

    Args:
        render: Returns the HTML; a `NoSuchUpdateError` is answered with status 404 and its message, another
            `ValueError` or `OSError` with 503.
        port: Port to listen on; 0 takes a free one.
        on_ready: Called once with the address, such as "http://127.0.0.1:8000/", when it can be opened.

    Raises:
        UserError: The port is taken or not allowed.

    """
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), _handler(render))
    except OSError as error:
        raise UserError(f"--port {port}: {(error.strerror or str(error)).lower()}") from None
    with server:
        on_ready(f"http://{LOOPBACK}:{server.server_port}/")
        server.serve_forever()


def _handler(render: Callable[[tuple[int, ...]], bytes]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = self.headers.get("Host", "").rpartition(":")[0]
            if host not in (LOOPBACK, "localhost"):  # DNS rebinding: another site whose name resolves to this machine
                self._respond(403, b"ask for 127.0.0.1\n", "text/plain")
            elif (updates := _updates_of(self.path)) is None:
                self._respond(404, b"there is only / and /?update=N\n", "text/plain")
            else:
                try:
                    self._respond(200, render(updates), "text/html")
                except NoSuchUpdateError as error:
                    self._respond(404, f"{one_line(error)}\n".encode(), "text/plain")
                except (ValueError, OSError) as error:  # the files were removed, or are being replaced
                    self._respond(503, f"{one_line(error)}\n".encode(), "text/plain")

        def _respond(self, code: int, content: bytes, content_type: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", f"{content_type}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing on the terminal."""

    return Handler


def _updates_of(path: str) -> tuple[int, ...] | None:
    """The updates that a request for `/?update=3` asks for, () for `/`, None for any other path."""
    match = re.fullmatch(r"/(?:\?(?:update=(\d{1,9}))?)?", path)
    if match is None:
        return None
    return (int(match[1]),) if match[1] else ()
