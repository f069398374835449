"""What runs in the process of an engine: an engine over a copy of the model, with an event loop and batches of its own.

The engine computes on the main thread. The socket is read and written by threads, so that the end of the run is noticed
during any computation, and a run that is busy with something else does not hold up the engine.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from rl.policy.pool.messages import (
    Beat,
    Broken,
    Cancel,
    Dismissal,
    Load,
    Loaded,
    Ready,
    Refusal,
    Relabel,
    Release,
    Reply,
    Sample,
    Start,
    Weights,
)
from rl.processes.framing import Inbox, frame

CHUNK = 1 << 20
GONE_S = 1.0  # in which a run whose socket has closed is gone
LAST_S = 3.0  # for closing the engine when the run is gone
POLL_S = 0.5  # between checks whether the run's process lives
MAX_TEXT = 2000  # characters of an error


def main(descriptor: int, parent: int, home: str) -> None:
    """Serve the socket `descriptor` until it is closed or process `parent` is gone; then end the process.

    `home`, the folder of the weights' files, is deleted if the parent is gone.
    """
    os.set_inheritable(descriptor, False)
    Server(socket.socket(fileno=descriptor), parent, home).serve()


class Server:
    """The engine of this process, and the socket to its run."""

    def __init__(self, channel: socket.socket, parent: int, home: str) -> None:
        self._socket, self._parent, self._home = channel, parent, home
        self._loop = asyncio.new_event_loop()
        self._outbox: SimpleQueue[object] = SimpleQueue()
        self._is_ending = threading.Event()
        self._tasks: dict[int, asyncio.Task[None]] = {}  # by number of the request
        self._start: Start
        self._model: Any = None
        self._engine: Any = None
        self._num_steps = -1  # of the engine, at the last beat
        self._is_broken = self._is_dismissed = False

    def serve(self) -> None:
        """Do what messages ask until the run is gone."""
        for work in (self._read, self._write, self._watch_parent):
            threading.Thread(target=work, daemon=True, name=work.__name__).start()
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _read(self) -> None:
        """Hand messages to the event loop until the socket is closed, on a thread of its own."""
        inbox = Inbox()
        with suppress(OSError):
            while data := self._socket.recv(CHUNK):
                messages = list(inbox.add(data))  # at once, so that requests that were sent together are batched so
                self._is_dismissed |= any(isinstance(message, Dismissal) for message in messages)
                self._loop.call_soon_threadsafe(self._handle, messages)
        self._end_soon()

    def _write(self) -> None:
        """Send what there is to send, on a thread of its own."""
        with suppress(OSError):  # the run is gone, which `_read` notices
            while True:
                self._socket.sendall(frame(self._outbox.get()))

    def _watch_parent(self) -> None:
        """End the process when its parent is gone; a fork of that may hold its end of the socket open."""
        while os.getppid() == self._parent:
            time.sleep(POLL_S)
        self._end_soon()

    def _end_soon(self) -> None:
        """Close the engine and end the process, without the engine's consent if it takes too long."""
        if self._is_ending.is_set():
            return
        self._is_ending.set()
        deadline = time.monotonic() + GONE_S
        while not (self._is_dismissed or os.getppid() != self._parent) and time.monotonic() < deadline:
            time.sleep(0.02)  # the socket of a run that is killed closes before its children have another parent
        if os.getppid() != self._parent:
            shutil.rmtree(self._home, ignore_errors=True)
        self._loop.call_soon_threadsafe(self._close)
        time.sleep(LAST_S)
        os._exit(0)

    def _close(self) -> None:
        with suppress(Exception):
            if self._engine is not None:
                self._engine.close()
        os._exit(0)  # in order, but without the seconds that an interpreter takes to unload all modules

    def _handle(self, messages: Sequence[Any]) -> None:
        """Do what messages ask, in their order."""
        for message in messages:
            if self._is_broken:
                return
            try:
                self._obey(message)
            except Exception as error:
                is_refused = isinstance(message, Start) and isinstance(error, (ValueError, ImportError))
                self._break(f"{type(error).__name__}: {error}" if not is_refused else str(error), is_refused)

    def _obey(self, message: Any) -> None:
        match message:
            case Sample():
                self._tasks[message.number] = self._loop.create_task(self._sample(message))
            case Cancel():
                if task := self._tasks.pop(message.number, None):
                    task.cancel()
            case Release():
                self._engine.release(message.session)
            case Relabel():
                self._engine.version = message.version
            case Load():
                self._load(message.weights)
            case Start():
                self._open(message)

    def _open(self, start: Start) -> None:
        """Make the model and open its engine."""
        self._start = start
        from rl.policy.pool.model_copy import load_structure, load_weights  # torch takes seconds to import
        from rl.policy.registry import open_engine

        self._outbox.put(Beat(start.origin))
        options, weights = start.options, start.weights
        self._model = load_structure(start.structure, options.device)
        load_weights(self._model, [os.path.join(self._home, path) for path in weights.paths])
        self._outbox.put(Beat(start.origin))
        self._engine = open_engine(
            options.name,
            self._model,
            slots=options.slots,
            context=options.context,
            devices=options.devices,
            dtype=options.dtype,
        )
        self._engine.version = weights.version
        engine = self._engine
        self._outbox.put(Ready(start.origin, weights.number, engine.slots, engine.context, engine.description))
        self._loop.call_later(start.beat_s, self._beat)

    def _load(self, weights: Weights) -> None:
        from rl.policy.pool.model_copy import load_weights

        load_weights(self._model, [os.path.join(self._home, path) for path in weights.paths])
        self._engine.sync_weights()
        self._engine.version = weights.version
        self._outbox.put(Loaded(self._start.origin, weights.number))

    def _beat(self) -> None:
        """Say that the engine computes, if it does: a loop that turns without a step is no sign of life."""
        num_steps = self._engine.stats["steps"] if hasattr(self._engine, "stats") else self._num_steps + 1
        if self._tasks and num_steps != self._num_steps:
            self._outbox.put(Beat(self._start.origin))
        self._num_steps = num_steps
        self._loop.call_later(self._start.beat_s, self._beat)

    async def _sample(self, message: Sample) -> None:
        number, origin = message.number, self._start.origin
        images: dict[str, Any] = {"images": message.images} if message.images else {}
        try:
            completion = await self._engine.sample(
                message.prompt, message.params, session=message.session, resume_from=message.resume_from, **images
            )
        except Exception as error:
            if self._engine.failure is not None:
                self._break(str(self._engine.failure))
            else:
                is_invalid = isinstance(error, ValueError)
                self._outbox.put(Refusal(origin, number, _one_line(error), is_invalid))
        else:
            self._outbox.put(Reply(origin, number, completion))
        finally:
            self._tasks.pop(number, None)

    def _break(self, text: str, is_refused: bool = False) -> None:
        """Tell the run that the engine cannot go on; the run ends the process."""
        if not self._is_broken:
            self._is_broken = True
            self._outbox.put(Broken(self._start.origin, _one_line(text), is_refused))


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:MAX_TEXT]
