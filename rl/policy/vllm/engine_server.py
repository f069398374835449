"""The main loop of the engine's process: calls methods of a `VLLMEngine` as messages ask, until its parent is gone."""

from __future__ import annotations

import gc
import os
import shutil
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

from rl.policy.vllm.requests import as_columns

POLL_S = 0.2  # between checks whether the parent lives


def serve(descriptor: int, parent: int, home: str) -> None:
    """Answer the messages of a `VLLMEngineClient` until the channel is closed or a message is None.

    A message is `(method, arguments, new requests by key, aborted keys)`; the first one's method is "start". An answer
    is `("done", result, number of cached tokens)`, or `("failed", name of the error's type, its message)`. The result
    of a step is in columns (`rl.policy.vllm.requests.as_columns`).

    Args:
        descriptor: File descriptor of the channel.
        parent: Process id of the client; this process ends when it does.
        home: Folder for temporary files, deleted if the parent is gone.
    """
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_watch_parent, args=(parent, home), daemon=True).start()
    channel = Connection(descriptor)
    engine: Any = None
    answer: tuple[Any, ...]
    while True:
        try:
            message = channel.recv()
        except (EOFError, OSError):
            break
        if message is None:
            break
        method, arguments, new_requests, aborted_keys = message
        try:
            if method == "start":
                engine, result = _start_engine(arguments[0], home), None
            else:
                engine.abort(aborted_keys)
                for key, request in new_requests:
                    engine.add_request(request, key)
                result = getattr(engine, method)(*arguments)
                if method == "step":
                    result = as_columns(result)
        except Exception as fault:
            answer = "failed", type(fault).__name__, " ".join(str(fault).split())[:2000]
        else:
            answer = "done", result, engine.num_cached_tokens
        try:
            channel.send(answer)
        except OSError:
            break
    if engine is not None:
        engine.close()
    os._exit(0)  # in order, but without the seconds that an interpreter takes to unload all modules


def _start_engine(config: Any, home: str) -> Any:
    from rl.policy.vllm.engine import VLLMEngine  # imports torch for seconds, in which the parent is watched already

    engine = VLLMEngine(config, home)
    gc.collect()
    gc.freeze()  # the million objects of a started vLLM need not be searched for garbage, as vLLM's own process does
    return engine


def _watch_parent(parent: int, home: str) -> None:
    """End this process and delete `home` once the parent is gone, whatever the main thread is doing.

    The parent's death signal (PR_SET_PDEATHSIG) would not do: it fires when the thread that started us ends.
    """
    while os.getppid() == parent:
        time.sleep(POLL_S)
    shutil.rmtree(home, ignore_errors=True)
    os._exit(0)
