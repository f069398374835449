"""A pool of containers that are ready to use: checked after long idling, and ended after many calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sandboxes import recycling
from sandboxes.docker.container import Container
from sandboxes.docker.container_config import ContainerConfig
from sandboxes.types import SandboxClosed


class ContainerPool:
    """Keeps up to `max_idle` idle containers, those with recently used configs. Threads may share it."""

    def __init__(self, start: Callable[[ContainerConfig], Container], max_idle: int) -> None:
        self._start, self._max_idle = start, max_idle
        self._lock = threading.Lock()
        self._idle: list[Container] = []  # longest idle first
        self._all: set[Container] = set()
        self._closed = False

    def acquire(self, config: ContainerConfig) -> Container:
        """Take an idle container of this config that is healthy, or start a new one. The caller must `release` it.

        Raises SandboxClosed after `kill`, and SandboxUnavailable or SandboxDied where a new one does not start.
        """
        while (container := self._pop_idle(config)) is not None:
            if time.monotonic() - container.last_used < recycling.RECHECK_AFTER_S or container.is_healthy():
                return container
            self.release(container)
        self._check_open()
        container = self._start(config)
        with self._lock:
            if not self._closed:
                self._all.add(container)
                return container
        container.close()
        self._check_open()
        return container

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxClosed("the sandbox is closed")

    def _pop_idle(self, config: ContainerConfig) -> Container | None:
        with self._lock:
            for i in range(len(self._idle) - 1, -1, -1):
                if self._idle[i].config == config:
                    return self._idle.pop(i)
        return None

    def release(self, container: Container) -> None:
        """Take a container back; it is ended if it must not be reused or has served enough calls."""
        with self._lock:
            if container.is_reusable and not recycling.is_used_up(container.calls) and not self._closed:
                self._idle.append(container)
                surplus, self._idle = self._idle[: -self._max_idle], self._idle[-self._max_idle :]
            else:
                surplus = [container]
            self._all.difference_update(surplus)
        for old in surplus:
            old.close()

    def kill(self) -> list[Container]:
        """End all containers, also those in use, and return them."""
        with self._lock:
            self._closed = True
            containers, self._all, self._idle = list(self._all), set(), []
        for container in containers:
            container.kill()
        return containers

    def detach(self) -> None:
        """In a forked process: leave all containers to the parent."""
        for container in self._all:
            container.close()
