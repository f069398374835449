"""The agent at work: takes the host's messages one by one and has the warden do what they say."""

from __future__ import annotations

import os
import select
import socket
import threading
from typing import Any, NoReturn

from sandboxes.docker import codec as frames
from sandboxes.docker.codec import Message
from sandboxes.local import codec, usage
from sandboxes.local.place import Place
from sandboxes.local.session import PlaceRoom
from sandboxes.types import Limits, SandboxError

MESSAGES, ANSWERS = 0, 1  # descriptors


class Desk:
    """The place of this container, and the room in it once a session asks."""

    def __init__(self, wire: socket.socket, pidfd: int) -> None:
        self.place = Place(wire, pidfd, lambda: None)
        self.room: PlaceRoom | None = None
        self.at_start = usage.resident()

    def serve(self) -> NoReturn:
        """Answer until the host hangs up; the process ends here, and the container with it."""
        threading.Thread(target=_end_with_host, daemon=True).start()
        codec.write_all(ANSWERS, frames.packed({"ready": os.getpid()}))
        while True:
            message = _next()
            try:
                head, blobs = self._answer(message)
            except SandboxError as fault:
                head, blobs = {"fault": f"{type(fault).__name__}: {fault}"}, []
            except OSError as fault:
                head, blobs = {"errno": fault.errno, "why": fault.strerror or str(fault)}, []
            grown = usage.resident() - self.at_start
            codec.write_all(ANSWERS, frames.packed(head | {"good": self.place.is_good, "grown": grown}, blobs))

    def _answer(self, message: Message) -> tuple[dict[str, Any], list[bytes]]:
        head, blobs = message
        match head["do"]:
            case "run":
                return self._run(head, blobs)
            case "ask":
                result, goes_on = self._room(head).ask(head["work"], head["timeout_s"])
                told, files = frames.told(result)
                return {"result": told, "goes_on": goes_on}, files
            case "read":
                return {}, [self._room(head).read(head["path"], head["max_bytes"])]
            case _:
                return {"well": self.place.is_well()}, []

    def _run(self, head: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        stdin, *contents = blobs
        files = dict(zip(head["paths"], contents, strict=True))
        if head["once"]:
            work = {"program": head["program"], "files": files, "env": head["env"]}
            limits, fetch = Limits(**head["limits"]), head["fetch"]
            result = self.place.run(work, stdin, limits, head["timeout_s"], fetch=fetch, once=True)
        else:
            result = self._room(head).run(head["program"], files, stdin, head["timeout_s"])
        told, fetched = frames.told(result)
        return {"result": told}, fetched

    def _room(self, head: dict[str, Any]) -> PlaceRoom:
        if self.room is None:
            self.room = PlaceRoom(self.place, Limits(**head["limits"]))
        return self.room


def _end_with_host() -> None:
    """Wait, in a thread, until nobody holds the other end of stdin: a call that runs is then for nobody, too."""
    poll = select.poll()
    poll.register(MESSAGES, 0)
    poll.poll()
    os._exit(0)


def _next() -> Message:
    try:
        text, body = frames.HEADER.unpack(codec.exactly(MESSAGES, frames.HEADER.size))
        return frames.unpacked(codec.exactly(MESSAGES, text), codec.exactly(MESSAGES, body))
    except EOFError:
        os._exit(0)
