"""The engine's process: an `Engine` that does what messages say, until whoever started it is gone."""

from __future__ import annotations

import os
import shutil
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

LOOK_S = 0.2  # between looks at whether the parent lives


def serve(descriptor: int, parent: int, home: str) -> None:
    """Answer the messages of a `RemoteEngine` on a channel until it is closed, or says None.

    A message is a verb with its arguments, and what has been asked and dropped since the last one. The first says
    `start`. An answer says "done" with what the verb gave, or "failed" with the error's type and words.
    """
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_watch, args=(parent, home), daemon=True).start()
    channel = Connection(descriptor)
    engine: Any = None
    said: tuple[Any, ...]
    while True:
        try:
            message = channel.recv()
        except (EOFError, OSError):
            break
        if message is None:
            break
        verb, arguments, added, dropped = message
        try:
            if verb == "start":
                engine, answer = _started(arguments[0], home), None
            else:
                engine.drop(dropped)
                for key, asked in added:
                    engine.add(asked, key)
                answer = getattr(engine, verb)(*arguments)
        except Exception as fault:
            said = "failed", type(fault).__name__, " ".join(str(fault).split())[:2000]
        else:
            said = "done", answer, engine.cached
        try:
            channel.send(said)
        except OSError:
            break
    if engine is not None:
        engine.close()
    os._exit(0)  # in order, but without the seconds that an interpreter takes to forget all that it has imported


def _started(plan: Any, home: str) -> Any:
    from rl.policy.vllm.engine import Engine  # torch takes seconds to import; the watch is kept from the first one

    return Engine(plan, home)


def _watch(parent: int, home: str) -> None:
    """End the process when its parent is gone, whatever it is doing, and leave nothing behind.

    The parent's death signal (PR_SET_PDEATHSIG) would not do: it fires when the thread that started us ends.
    """
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    shutil.rmtree(home, ignore_errors=True)
    os._exit(0)
