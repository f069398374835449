"""A loopback server that answers the browser's requests with the pages of the open sites."""

from __future__ import annotations

import re
import secrets
import string
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, quote, unquote, urlsplit

from envs.web.site import Request, Response, Site

DOMAIN = "site.test"  # a host name below it stands for one open site; only the browser's own rules resolve it
MAX_FORM_BYTES = 1_000_000
IDLE_S = 30.0


class SiteServer:
    """Serves every open site under a host name of its own that nothing else on the machine knows.

    Attributes:
        port: Its port on the loopback interface.
    """

    def __init__(self) -> None:
        self._sites: dict[str, _OpenSite] = {}
        server = self

        class Handler(_Handler):
            sites = server._sites

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="site-server", daemon=True).start()

    def add(self, site: Site) -> str:
        """Serve a site; return its origin, such as `http://0f3a.site.test`."""
        host = f"{secrets.token_hex(12)}.{DOMAIN}"
        self._sites[host] = _OpenSite(site)
        return f"http://{host}"

    def replace(self, origin: str, site: Site) -> None:
        """Let another site answer under an origin from now on."""
        self._sites[urlsplit(origin).netloc] = _OpenSite(site)

    def deliver(self, origin: str, path: str, form: str) -> None:
        """Give a site a form, URL-encoded, as if its page had sent it; nothing if it is not served any more."""
        if site := self._sites.get(urlsplit(origin).netloc):
            site.respond(Request(path, {}, _form_of(form), "POST"))

    def check(self, origin: str) -> None:
        """Raise what the code of a site has raised first since it is served; nothing if it is not served."""
        site = self._sites.get(urlsplit(origin).netloc)
        if site is not None and site.error is not None:
            raise site.error.with_traceback(site.traceback)  # else each time it is raised would make that longer

    def remove(self, origin: str) -> None:
        """Serve a site no longer."""
        self._sites.pop(urlsplit(origin).netloc, None)

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()


@dataclass(frozen=True)
class _Answer:
    """A response as it is sent; `is_file` says whether a browser may keep it."""

    status: int
    body: bytes
    kind: str = "text/html; charset=utf-8"
    location: str = ""
    is_file: bool = False


class _OpenSite:
    """A site that is served, one request at a time.

    Attributes:
        error: What its code has raised first, or a TypeError or ValueError for a response that cannot be sent; or None.
        traceback: Of the error, as it was when the error was caught.
    """

    def __init__(self, site: Site) -> None:
        self.error: Exception | SystemExit | None = None
        self.traceback: TracebackType | None = None
        self._site, self._lock = site, threading.Lock()

    def respond(self, request: Request) -> _Answer:
        """Answer a request, with status 500 if the site's code raises or its response cannot be sent."""
        with self._lock:
            try:
                return _answer_of(self._site.respond(request))
            except (Exception, SystemExit) as error:
                if self.error is None:
                    self.error, self.traceback = error, error.__traceback__
                return _Answer(500, b"<h1>The site has failed</h1>")


def _answer_of(response: Response) -> _Answer:
    """What is sent for a response. Raises TypeError and ValueError if it cannot be sent."""
    if not isinstance(response, Response):
        raise TypeError(f"a site responds with a Response, not with {response!r:.80}")
    if not isinstance(response.html, str):
        raise TypeError(f"Response.html is a str, not {response.html!r:.80}; bytes are given as Response.body")
    if not isinstance(response.status, int) or not 200 <= response.status <= 999:
        raise ValueError(f"Response.status is a number from 200 to 999, not {response.status!r}")
    if not response.kind.isascii() or not response.kind.isprintable():
        raise ValueError(f"Response.kind is a media type such as text/html, not {response.kind!r:.80}")
    body = response.body or response.html.encode("utf-8", "replace")
    location = re.sub("[\t\n\r]", "", response.location.strip())  # as in an address of a page
    location = quote(location, safe=string.punctuation, errors="replace")
    return _Answer(303 if location else response.status, body, response.kind, location, bool(response.body))


class _Server(ThreadingHTTPServer):
    """A server that says nothing of browsers that have ended in the middle of an answer."""

    request_queue_size = 128  # connections that may wait; a page opens several at once, and there are several pages

    def handle_error(self, request: object, client_address: object) -> None:
        """Print what is no broken connection."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and POST by the site that the host name stands for."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    wbufsize = 1 << 16  # head and body go out together: a body sent alone may wait until its head is acknowledged
    disable_nagle_algorithm = True
    sites: dict[str, _OpenSite]

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        size = int(length) if length.isdigit() else 0
        if size > MAX_FORM_BYTES:
            self.close_connection = True
            self._send(_Answer(413, b"<h1>The form is too long</h1>"))
            return
        self._answer(_form_of(self.rfile.read(size).decode("utf-8", "replace")))

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def _answer(self, form: dict[str, tuple[str, ...]]) -> None:
        site = self.sites.get(self.headers.get("Host", "").partition(":")[0])
        if site is None:
            self._send(_Answer(404, b"<h1>Not found</h1>"))
            return
        parts = urlsplit(self.path)
        query = {key: tuple(values) for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self._send(site.respond(Request(_decode(parts.path) or "/", query, form, self.command)))

    def _send(self, answer: _Answer) -> None:
        self.send_response(answer.status)
        if answer.location:
            self.send_header("Location", answer.location)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        caching = "max-age=3600" if answer.is_file else "no-store" if self.command == "GET" else "no-cache"
        self.send_header("Cache-Control", caching)
        self.end_headers()
        self.wfile.write(answer.body)


def _decode(path: str) -> str:
    """A path with its letters beyond ASCII, which a browser escapes, as a page writes them; other escapes stay."""
    try:
        return re.sub("(?:%[89A-Fa-f][0-9A-Fa-f])+", lambda match: unquote(match[0], errors="strict"), path)
    except UnicodeDecodeError:
        return path


def _form_of(text: str) -> dict[str, tuple[str, ...]]:
    return {key: tuple(values) for key, values in parse_qs(text, keep_blank_values=True).items()}
