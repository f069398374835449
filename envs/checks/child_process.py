"""Child process of `isolation.processes`: plays episodes, closes the environment, reports what is still running."""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from envs.catalogue import register
from envs.checks.isolation import episode_digests, seeds


def main() -> None:
    """Play episodes of an environment, close it, and print a JSON object as the last line of stdout.

    Reads from stdin the pickled tuple `(EnvUnderTest, entry point or None, its keyword arguments)`. The object has the
    keys "digests", a hash per episode, and "leftovers", a line for each process and thread that is still running.
    """
    under_test, entry_point, kwargs = pickle.load(sys.stdin.buffer)
    if entry_point is not None and not under_test.spec.rpartition(":")[0]:
        register(under_test.spec, entry_point, **kwargs)  # for ids that only the parent process registered
    env = under_test.make()
    digests = episode_digests(env, seeds(under_test))
    env.close()
    print(json.dumps({"digests": digests, "leftovers": [*_child_processes(), *_threads()]}))


def _child_processes() -> Iterator[str]:
    """Describe running processes that this one started; none where there is no /proc."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            state, parent = rest.split()[:2]
            command = stat.with_name("cmdline").read_bytes()
        except (OSError, ValueError):  # it has just ended
            continue
        # The resource tracker of multiprocessing lives as long as the process and belongs to no environment.
        if int(parent) == os.getpid() and b"multiprocessing.resource_tracker" not in command:
            yield f"process {stat.parent.name} ({name}, {'zombie' if state == 'Z' else 'running'})"


def _threads() -> Iterator[str]:
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            yield f"thread {thread.name}"


if __name__ == "__main__":
    main()
