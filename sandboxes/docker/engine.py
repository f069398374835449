"""The container engine, through the `docker` package: each request has a deadline, each error is one line.

Podman serves the same interface: where it runs rootless containers with control groups, setting
`DOCKER_HOST=unix:///run/user/1000/podman/podman.sock` is enough. The tests do not cover that.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from sandboxes.extras import install_command
from sandboxes.types import SandboxDied, SandboxUnavailable

OWNER, HOST = "turnwise.owner", "turnwise.where"  # labels of containers
REQUEST_S, BUILD_S = 60.0, 1800.0  # for the engine to send something
_MAX_CREATING = 4  # containers that are created at once; more only make each slower


class Engine:
    """One connection to an engine. Threads may share it. Raises SandboxUnavailable where no engine answers."""

    def __init__(self) -> None:
        try:
            import docker
        except ImportError:
            raise SandboxUnavailable(
                f"docker: the package `docker` is not installed: {install_command('docker')}"
            ) from None
        self.errors = docker.errors
        self._creating = threading.Semaphore(_MAX_CREATING)
        address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        try:
            self.client = docker.from_env(timeout=REQUEST_S)
            self.client.ping()
            self.memory_mb = (self.client.info().get("MemTotal") or 1 << 60) >> 20  # of the engine's machine
        except Exception as fault:  # the package passes on those of three other packages
            why = (re.findall(r"Error\(\d+, '([^']+)'", str(fault)) or str(fault).split(": "))[-1]
            raise SandboxUnavailable(
                f"docker: no engine answers at {address} ({why}): start one, or let DOCKER_HOST name it"
            ) from None
        self.api = self.client.api
        self.api.post = partial(self.api.post, timeout=REQUEST_S)  # the package attaches without a deadline
        if not self.api.base_url.startswith(("http+docker://localhost", "http://")):
            raise SandboxUnavailable(f"docker: an engine is reached by unix:// or tcp:// without TLS, not {address}")
        self.label = {OWNER: f"{os.getpid()}:{_start_time(os.getpid())}", HOST: _host_id()}

    @contextmanager
    def errors_as(self, context: str, error: type[Exception] = SandboxDied) -> Iterator[None]:
        """Raise every error of the engine in the block as `error`, in one line that starts with `context`."""
        from requests.exceptions import RequestException

        try:
            yield
        except (self.errors.DockerException, RequestException, OSError) as cause:
            why = getattr(cause, "explanation", None) or str(cause)
            raise error(f"docker: {context}: {' '.join(why.split())}") from None

    def create(self, image: str, python: Sequence[str], environment: dict[str, str], host: dict[str, Any]) -> str:
        """Create a container that will run Python with the arguments `python`; return its id. It is removed at its end.

        `environment` has variables by name, `host` the keyword arguments of `docker`'s `create_host_config`. Raises
        SandboxDied where the engine refuses.
        """
        with self._creating, self.errors_as("a container could not be made"):
            container = self.api.create_container(
                image,
                list(python),
                entrypoint=["python3"],
                healthcheck={"test": ["NONE"]},
                environment=environment,
                working_dir="/",
                user="0:0",
                hostname="box",
                stdin_open=True,
                network_disabled=True,
                labels=self.label,
                host_config=self.api.create_host_config(auto_remove=True, **host),
            )
        return container["Id"]

    def attach(self, container: str) -> socket.socket:
        """Connect to stdin, stdout and stderr of a container, by its id; return a non-blocking socket.

        What is sent goes to stdin; closing it closes stdin. Output arrives in frames of the engine, each with a header
        of 8 bytes: which output (1 or 2), and the size. Raises SandboxDied.
        """
        with self.errors_as("a container could not be reached"):
            stream = self.api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            copy = socket.socket(fileno=os.dup(stream.fileno()))  # the package's own is closed when it is collected
            stream.close()
        copy.setblocking(False)
        return copy

    def start(self, container: str) -> None:
        """Start a container, by its id. Raises SandboxDied where it does not start."""
        with self._creating, self.errors_as("a container did not start"):
            self.api.start(container)

    def remove(self, container: str) -> None:
        """End and remove a container at once, whatever state it is in; it may be gone already."""
        with suppress(SandboxDied), self.errors_as("a container could not be removed"):
            self.api.remove_container(container, force=True, v=True)

    def await_removal(self, containers: Sequence[str], timeout_s: float = 20.0) -> None:
        """Remove the containers of these ids and wait until they are gone.

        Raises SandboxDied where some remain after `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        remaining = set(containers)
        while remaining:
            with self.errors_as("the containers could not be listed"):
                remaining &= {one["Id"] for one in self.api.containers(all=True, filters={"label": OWNER})}
            for container in remaining:
                self.remove(container)
            if remaining and time.monotonic() > deadline:
                raise SandboxDied(f"docker: {len(remaining)} containers could not be removed within {timeout_s:g} s")
            if remaining:
                time.sleep(0.02)

    def remove_stale(self) -> None:
        """Remove containers whose host on this machine has ended. Few remain, as containers end with their host."""
        with suppress(SandboxDied), self.errors_as("the containers could not be listed"):
            for container in self.api.containers(all=True, filters={"label": f"{HOST}={self.label[HOST]}"}):
                pid, _, start_time = container["Labels"].get(OWNER, "").partition(":")
                if pid.isdigit() and _start_time(int(pid)) != start_time:
                    self.remove(container["Id"])

    def image_id(self, name: str) -> str | None:
        """Return the id of an image, which depends on its content, or None where there is none of that name."""
        with self.errors_as(f"image {name!r}", SandboxUnavailable):
            try:
                return self.api.inspect_image(name)["Id"]
            except self.errors.NotFound:
                return None

    def pull(self, name: str) -> str:
        """Pull an image from its registry; returns its id. Raises SandboxUnavailable."""
        with self.errors_as(f"image {name!r} is not here, and could not be fetched", SandboxUnavailable):
            return self.client.images.pull(name, None if ":" in name or "@" in name else "latest").id

    def build(self, folder: Path) -> str:
        """Build a folder's Dockerfile, whose steps may each be silent for BUILD_S seconds; returns the image's id."""
        with self.errors_as(f"{folder} could not be built", SandboxUnavailable):
            return self.client.images.build(path=str(folder), rm=True, forcerm=True, timeout=BUILD_S)[0].id

    def import_tar(self, file: IO[bytes], name: str, changes: Sequence[str]) -> None:
        """Make an image of the file tree in the tar archive `file`, under `name`, "REPOSITORY:TAG".

        `changes` are lines of a Dockerfile, such as "ENV PATH=/usr/bin". Raises SandboxUnavailable.
        """
        repository, _, tag = name.rpartition(":")
        with self.errors_as("an image could not be made", SandboxUnavailable):
            self.api.import_image(file, repository=repository, tag=tag, changes=list(changes))

    def keep_newest(self, repository: str, most: int) -> None:
        """Remove all but the newest `most` images of a repository (a name without its tag), except those in use."""
        with suppress(SandboxDied), self.errors_as("images could not be listed"):
            images = sorted(self.api.images(name=repository), key=lambda image: image["Created"], reverse=True)
            for image in images[most:]:
                with suppress(self.errors.APIError):
                    self.api.remove_image(image["Id"])

    def add_to(self, image: str, tar: bytes, name: str) -> None:
        """Make an image of the image `image` and the files of the tar archive `tar`, under `name`, "REPOSITORY:TAG".

        Raises SandboxUnavailable where the engine refuses.
        """
        repository, _, tag = name.rpartition(":")
        with self.errors_as(f"nothing could be added to image {image!r}", SandboxUnavailable):
            container = self.api.create_container(
                image, ["none"], entrypoint=[], network_disabled=True, labels=self.label
            )
            try:
                self.api.put_archive(container["Id"], "/", tar)
                self.api.commit(container["Id"], repository=repository, tag=tag)
            finally:
                self.remove(container["Id"])

    def close(self) -> None:
        """Close the connection."""
        self.client.close()


def _start_time(pid: int) -> str:
    """When a process started, in ticks since boot, which distinguishes it from later ones of its pid; "" for none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _host_id() -> str:
    """Identifies the pid namespace in which a pid is unique: this boot of this machine, and its namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()
