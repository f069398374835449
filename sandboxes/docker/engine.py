"""The container engine, through the `docker` package: each request has a deadline, each fault is one line.

Podman serves the same interface: `DOCKER_HOST=unix:///run/user/1000/podman/podman.sock` is all that it takes, where it
is set up to run rootless containers with control groups. That is not tried by our tests.
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

from sandboxes.types import SandboxDied, SandboxUnavailable

OWNER, WHERE = "turnwise.owner", "turnwise.where"
REQUEST_S, BUILD_S = 60.0, 1800.0  # for the engine to say something
_AT_ONCE = 4  # containers that are being made; more only make each slower


class Engine:
    """One connection, shared by threads. Raises SandboxUnavailable where there is no engine."""

    def __init__(self) -> None:
        try:
            import docker
        except ImportError:
            raise SandboxUnavailable(
                "docker: the package `docker` is not installed: pip install 'turnwise[docker]'"
            ) from None
        self.errors = docker.errors
        self._making = threading.Semaphore(_AT_ONCE)
        address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        try:
            self.client = docker.from_env(timeout=REQUEST_S)
            self.client.ping()
        except Exception as fault:  # the package lets those of three others through
            why = (re.findall(r"Error\(\d+, '([^']+)'", str(fault)) or str(fault).split(": "))[-1]
            raise SandboxUnavailable(
                f"docker: no engine answers at {address} ({why}): start one, or let DOCKER_HOST name it"
            ) from None
        self.api = self.client.api
        self.api.post = partial(self.api.post, timeout=REQUEST_S)  # the package attaches without a deadline
        if not self.api.base_url.startswith(("http+docker://localhost", "http://")):
            raise SandboxUnavailable(f"docker: an engine is reached by unix:// or tcp:// without TLS, not {address}")
        self.label = {OWNER: f"{os.getpid()}:{_start_time(os.getpid())}", WHERE: _where()}

    @contextmanager
    def asked(self, for_what: str, fault: type[Exception] = SandboxDied) -> Iterator[None]:
        """Tell what goes wrong inside in a line of ours."""
        from requests.exceptions import RequestException

        try:
            yield
        except (self.errors.DockerException, RequestException, OSError) as cause:
            why = getattr(cause, "explanation", None) or str(cause)
            raise fault(f"docker: {for_what}: {' '.join(why.split())}") from None

    def create(self, image: str, python: Sequence[str], environment: dict[str, str], host: dict[str, Any]) -> str:
        """Make a container of Python with these arguments, not started yet; its id. It goes when it ends."""
        with self._making, self.asked("a container could not be made"):
            made = self.api.create_container(
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
        return made["Id"]

    def attach(self, container: str) -> socket.socket:
        """Stdin, stdout and stderr of a container, as one stream of the engine's frames; hung up, stdin ends."""
        with self.asked("a container could not be reached"):
            stream = self.api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            held = socket.socket(fileno=os.dup(stream.fileno()))  # the package's own is closed when it is collected
            stream.close()
        held.setblocking(False)
        return held

    def start(self, container: str) -> None:
        """Start it."""
        with self._making, self.asked("a container did not start"):
            self.api.start(container)

    def remove(self, container: str) -> None:
        """End it at once, whatever state it is in; it may be gone already."""
        with suppress(SandboxDied), self.asked("a container could not be removed"):
            self.api.remove_container(container, force=True, v=True)

    def await_gone(self, containers: Sequence[str], timeout_s: float = 20.0) -> None:
        """End all of them, and wait until the engine knows none any more. SandboxDied where some will not go."""
        until = time.monotonic() + timeout_s
        left = set(containers)
        while left:
            with self.asked("the containers could not be listed"):
                left &= {one["Id"] for one in self.api.containers(all=True, filters={"label": OWNER})}
            for container in left:
                self.remove(container)
            if left and time.monotonic() > until:
                raise SandboxDied(f"docker: {len(left)} containers could not be removed within {timeout_s:g} s")
            if left:
                time.sleep(0.02)

    def sweep(self) -> None:
        """Remove what hosts on this machine have left that are dead. Most leave nothing: containers end with them."""
        with suppress(SandboxDied), self.asked("the containers could not be listed"):
            for one in self.api.containers(all=True, filters={"label": f"{WHERE}={self.label[WHERE]}"}):
                pid, _, started = one["Labels"].get(OWNER, "").partition(":")
                if pid.isdigit() and _start_time(int(pid)) != started:
                    self.remove(one["Id"])

    def image_id(self, name: str) -> str | None:
        """The content's name of an image, or None."""
        with self.asked(f"image {name!r}", SandboxUnavailable):
            try:
                return self.api.inspect_image(name)["Id"]
            except self.errors.NotFound:
                return None

    def pull(self, name: str) -> str:
        """Fetch an image from its registry; its id."""
        with self.asked(f"image {name!r} is not here, and could not be fetched", SandboxUnavailable):
            return self.client.images.pull(name, None if ":" in name or "@" in name else "latest").id

    def build(self, folder: Path) -> str:
        """Build a folder's Dockerfile, any step of it in silence for no longer than BUILD_S; the image's id."""
        with self.asked(f"{folder} could not be built", SandboxUnavailable):
            return self.client.images.build(path=str(folder), rm=True, forcerm=True, timeout=BUILD_S)[0].id

    def import_tar(self, file: IO[bytes], name: str, changes: Sequence[str]) -> None:
        """Make an image of a file tree."""
        repository, _, tag = name.rpartition(":")
        with self.asked("an image could not be made", SandboxUnavailable):
            self.api.import_image(file, repository=repository, tag=tag, changes=list(changes))

    def keep_newest(self, repository: str, most: int) -> None:
        """Remove older images of that name, but for those that are used."""
        with suppress(SandboxDied), self.asked("images could not be listed"):
            made = sorted(self.api.images(name=repository), key=lambda image: image["Created"], reverse=True)
            for image in made[most:]:
                with suppress(self.errors.APIError):
                    self.api.remove_image(image["Id"])

    def add_to(self, image: str, tar: bytes, name: str) -> None:
        """Make an image of another one and of the files of a tar archive."""
        repository, _, tag = name.rpartition(":")
        with self.asked(f"nothing could be added to image {image!r}", SandboxUnavailable):
            made = self.api.create_container(image, ["none"], entrypoint=[], network_disabled=True, labels=self.label)
            try:
                self.api.put_archive(made["Id"], "/", tar)
                self.api.commit(made["Id"], repository=repository, tag=tag)
            finally:
                self.remove(made["Id"])

    def close(self) -> None:
        """Hang up."""
        self.client.close()


def _start_time(pid: int) -> str:
    """When a process started, in ticks since boot, which no later process of its number shares; "" for none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _where() -> str:
    """Among which processes a pid means something: this boot of this machine, this pid namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()
