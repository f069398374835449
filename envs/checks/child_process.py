"""The other process of `isolation.processes`: plays, closes, and reports what is left of the environment."""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from envs.catalogue import register
from envs.checks.isolation import digests


def main() -> None:
    """Read a pickled subject from stdin, write `{"digests", "left"}` as the last line of stdout."""
    subject, entry_point, kwargs = pickle.load(sys.stdin.buffer)
    if entry_point is not None and not subject.spec.rpartition(":")[0]:
        register(subject.spec, entry_point, **kwargs)  # ids that only the parent process registered
    env = subject.make()
    played = digests(env)
    env.close()
    print(json.dumps({"digests": played, "left": [*_children(), *_threads()]}))


def _children() -> Iterator[str]:
    """Processes that this one started and that still run; none are found where there is no /proc."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            state, parent = rest.split()[:2]
            command = stat.with_name("cmdline").read_bytes()
        except (OSError, ValueError):  # it has just ended
            continue
        # multiprocessing's own tracker lives as long as the process; it belongs to nobody's environment
        if int(parent) == os.getpid() and b"multiprocessing.resource_tracker" not in command:
            yield f"process {stat.parent.name} ({name}, {'zombie' if state == 'Z' else 'running'})"


def _threads() -> Iterator[str]:
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            yield f"thread {thread.name}"


if __name__ == "__main__":
    main()
