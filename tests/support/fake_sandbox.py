"""A fake sandbox that runs nothing and counts its runs, and a server for it in this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sandboxes import Result, Status
from sandboxes.local.confinement.tiers import NAMESPACES
from sandboxes.remote.server import Server
from sandboxes.remote.service import Service
from sandboxes.types import relative_parts


class FakeSession:
    """A session that records its cells and runs none."""

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.is_closed = threading.Event()

    @property
    def alive(self) -> bool:
        return not self.is_closed.is_set()

    def cell(self, source: str, *, timeout_s: float = 10.0) -> Result:
        self.cells.append(source)
        return Result(Status.OK, exit_code=0, stdout=f"{len(self.cells)}\n")

    def call(self, function: str, *arguments: object, timeout_s: float = 10.0, **keywords: object) -> Result:
        return Result(Status.OK, exit_code=0, value=[function, arguments, keywords])

    def run(self, program: object, *, stdin: bytes = b"", timeout_s: float = 10.0) -> Result:
        return Result(Status.OK, exit_code=0)

    def write(self, path: str, content: bytes) -> None:
        relative_parts(path)

    def read(self, path: str, max_bytes: int = 1 << 20) -> bytes:
        relative_parts(path)
        return bytes(min(max_bytes, 10))

    def fork(self) -> FakeSession:
        return FakeSession()

    def close(self) -> None:
        self.is_closed.set()


class FakeSandbox:
    """A sandbox that counts runs. The program "wait" waits for `go`; `faults` maps programs to what they raise."""

    isolation = NAMESPACES

    def __init__(self, **faults: Exception) -> None:
        self.faults, self.runs, self.sessions = faults, 0, list[FakeSession]()
        self.go, self.lock = threading.Event(), threading.Lock()
        self.inside = 0

    def run(self, program: str, **_: object) -> Result:
        with self.lock:
            self.runs += 1
            self.inside += 1
        try:
            if program in self.faults:
                raise self.faults[program]
            if program == "wait":
                assert self.go.wait(30)
            return Result(Status.OK, exit_code=0, stdout=f"{self.runs}\n")
        finally:
            with self.lock:
                self.inside -= 1

    def session(self, **_: object) -> FakeSession:
        self.sessions.append(FakeSession())
        return self.sessions[-1]

    def close(self) -> None:
        self.go.set()


@contextmanager
def serve(
    sandbox: FakeSandbox,
    *,
    places: int = 4,
    queue: int = 4,
    lease_s: float = 60.0,
    token: str | None = None,
    body_bytes: int = 1 << 20,
) -> Iterator[Server]:
    """A server of `sandbox`, in a thread."""
    service = Service(sandbox, places=places, queue=queue, sessions=8, lease_s=lease_s)  # type: ignore[arg-type]
    with Server("127.0.0.1", 0, service, token, body_bytes) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            service.close()
            server.shutdown()
            thread.join()


def read_message(connection: socket.socket) -> bytes:
    """Read the next HTTP request or response; b"" at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(1 << 16)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


@contextmanager
def drop_answers(port: int, count: int) -> Iterator[tuple[str, list[int]]]:
    """A proxy to a local server that drops the next `count` responses to POST; its URL and the sizes of those dropped."""
    dropped_sizes: list[int] = []

    def pass_on(ours: socket.socket) -> None:
        with ours, socket.create_connection(("127.0.0.1", port)) as theirs, suppress(OSError):
            ours.settimeout(20)
            theirs.settimeout(20)
            while request := read_message(ours):
                theirs.sendall(request)
                answer = read_message(theirs)
                if request.startswith(b"POST") and len(dropped_sizes) < count:
                    dropped_sizes.append(len(answer))
                    return
                ours.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=pass_on, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", dropped_sizes
        listener.shutdown(socket.SHUT_RDWR)
