"""The loop of the agent, a container's first process: takes the host's requests and has the warden execute them.

The warden is the process that forks and ends the untrusted programs.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from typing import Any, NoReturn

from sandboxes.docker import codec as host_codec
from sandboxes.docker.codec import Message
from sandboxes.local import codec, usage
from sandboxes.local.place import Place
from sandboxes.local.session import PlaceBackend
from sandboxes.types import Limits, SandboxError

REQUESTS, RESPONSES = 0, 1  # descriptors


class Dispatcher:
    """Executes the host's requests in this container's place, the process tree that runs one program at a time.

    It also holds the backend of a session there, once there is one.
    """

    def __init__(self, sock: socket.socket, pidfd: int) -> None:
        """`sock` is connected to the warden, the process that runs programs; `pidfd` is a descriptor of its process."""
        self.place = Place(sock, pidfd, lambda: None)
        self.backend: PlaceBackend | None = None
        self.initial_bytes = usage.resident()

    def serve(self) -> NoReturn:
        """Respond until the host closes stdin, then end this process, and with it the container."""
        threading.Thread(target=_exit_with_host, daemon=True).start()
        codec.write_all(RESPONSES, host_codec.pack({"ready": os.getpid()}))
        while True:
            request = _read_request()
            try:
                head, blobs = self._respond(request)
            except SandboxError as fault:
                head, blobs = {"fault": f"{type(fault).__name__}: {fault}"}, []
            except OSError as fault:
                head, blobs = {"errno": fault.errno, "why": fault.strerror or str(fault)}, []
            state = {"good": self.place.is_reusable, "grown": usage.resident() - self.initial_bytes}
            codec.write_all(RESPONSES, host_codec.pack(head | state, blobs))

    def _respond(self, request: Message) -> tuple[dict[str, Any], list[bytes]]:
        head, blobs = request
        match head["do"]:
            case "run":
                return self._run(head, blobs)
            case "ask":
                result, continues = self._session_backend(head).evaluate(head["work"], head["timeout_s"])
                fields, files = host_codec.pack_result(result)
                return {"result": fields, "goes_on": continues}, files
            case "read":
                return {}, [self._session_backend(head).read(head["path"], head["max_bytes"])]
            case _:
                return {"well": self.place.is_healthy()}, []

    def _run(self, head: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        stdin, *contents = blobs
        files, continues = dict(zip(head["paths"], contents, strict=True)), False
        if head["once"]:
            work = {"program": head["program"], "files": files, "env": head["env"]}
            limits, fetch = Limits(**head["limits"]), head["fetch"]
            result = self.place.run(work, stdin, limits, head["timeout_s"], fetch=fetch, once=True)
        else:
            backend = self._session_backend(head)
            result, continues = backend.run(head["program"], files, stdin, head["timeout_s"])
        fields, output_files = host_codec.pack_result(result)
        return {"result": fields, "goes_on": continues}, output_files

    def _session_backend(self, head: dict[str, Any]) -> PlaceBackend:
        if self.backend is None:
            self.backend = PlaceBackend(self.place, Limits(**head["limits"]))
        return self.backend


def _exit_with_host() -> NoReturn:
    """Wait, in a thread, until the other end of stdin is closed: no host waits for a running call then."""
    poll = select.poll()
    poll.register(REQUESTS, 0)
    poll.poll()
    os._exit(0)


def _read_request() -> Message:
    try:
        text, body = host_codec.HEADER.unpack(codec.read_exactly(REQUESTS, host_codec.HEADER.size))
        return host_codec.unpack(codec.read_exactly(REQUESTS, text), codec.read_exactly(REQUESTS, body))
    except EOFError:
        os._exit(0)
