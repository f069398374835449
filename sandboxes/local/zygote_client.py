"""The host's side of the zygote: starts it and has it open places.

The zygote is the process that all places are forked from; a place is a process tree that runs one program at a time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sandboxes.local import codec
from sandboxes.local.confinement import mounts, tiers
from sandboxes.local.place import Place
from sandboxes.types import SandboxBusy, SandboxDied, SandboxUnavailable

MAX_PLACES = 4096
_ROOT = str(Path(__file__).resolve().parents[2])
_BOOT = (
    "import sys, json, socket; config = json.loads(sys.argv[1]); sys.path.insert(0, config['root']);"
    "from sandboxes.local.zygote import main; main(config, socket.socket(fileno=config['control']))"
)


class ZygoteClient:
    """One zygote, the process that places (process trees that run programs) are forked from, and its places."""

    def __init__(self, tier: str, packages: Sequence[str], preload: Sequence[str], start_s: float) -> None:
        """Start a zygote; its candidates, untrusted programs, can import `packages` and find those of `preload` loaded.

        `tier` is "namespaces", "landlock" or "process". Raises SandboxUnavailable where the machine does not allow the
        tier or the zygote is not ready in `start_s` seconds.
        """
        if reason := tiers.missing_requirement(tier):
            raise SandboxUnavailable(f"local: {reason}")
        self.tier, self.folder = tier, None
        self._lock = threading.Lock()
        self._free_numbers = list(range(MAX_PLACES - 1, -1, -1))
        if tier != "namespaces":
            self.folder = tempfile.mkdtemp(prefix="turnwise-sandbox-")
        self._control, zygote_end = codec.socket_pair()
        config = json.dumps(self._config(packages, preload) | {"control": zygote_end.fileno()})
        command = [mounts.python_executable(), "-s", "-S", "-P", "-X", "utf8", "-c", _BOOT, config]
        with tempfile.TemporaryFile() as stderr, zygote_end:
            self._process = subprocess.Popen(
                command,
                pass_fds=(zygote_end.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=mounts.ENVIRONMENT,
                cwd="/",
                start_new_session=True,  # Ctrl-C in a terminal is for the host
            )
            zygote_end.close()
            try:
                self.memory = self._wait_until_ready(start_s)
            except BaseException as fault:
                self.close()
                stderr.seek(0)
                last_line = stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
                if isinstance(fault, (EOFError, TimeoutError)):
                    raise SandboxUnavailable(tiers.start_error(tier, last_line or str(fault))) from None
                raise

    def _config(self, packages: Sequence[str], preload: Sequence[str]) -> dict[str, Any]:
        plan = mounts.plan(packages)
        import_path = mounts.import_path()
        sources = dict(plan.binds)
        if self.tier != "namespaces":  # nothing is shown at another path than its own
            folders = {os.path.dirname(path) for path in mounts.package_paths(tuple(packages))}
            import_path = import_path[:-1] + sorted(folders)
        return {
            "root": _ROOT,
            "host": os.getpid(),
            "folder": self.folder,
            "namespaces": self.tier == "namespaces",
            "rules": self.tier == "landlock",
            "binds": plan.binds,
            "hidden": plan.hidden,
            "readable": [*sources, *_readable_paths()] if self.tier == "landlock" else [],
            "import_path": import_path,
            "preload": [name for name in preload if find_spec(name)],
        }

    def _wait_until_ready(self, start_s: float) -> str:
        """Wait for the zygote's first message; returns who measures memory."""
        self._control.settimeout(start_s)
        try:
            message, _ = codec.receive(self._control)
        except TimeoutError:
            raise TimeoutError(f"not ready within {start_s:g} s") from None
        if "error" in message:
            raise SandboxUnavailable(tiers.start_error(self.tier, message["error"]))
        return message["memory"] if self.tier == "namespaces" else "process"

    def open(self) -> Place:
        """Have the zygote fork a new place, a process tree that runs one program at a time.

        Raises SandboxDied where the zygote has ended or fails, and SandboxBusy where `MAX_PLACES` are in use.
        """
        host_end, warden_end = codec.socket_pair()
        with self._lock:
            if not self._free_numbers:
                raise SandboxBusy(f"all of {MAX_PLACES} places are taken")
            number = self._free_numbers.pop()
            try:
                codec.send(self._control, {"place": number}, [warden_end.fileno()])
                message, descriptors = codec.receive(self._control)
            except (EOFError, TimeoutError):
                raise SandboxDied("the zygote is gone") from None
            finally:
                warden_end.close()
        if "error" in message:
            self._release(number)
            host_end.close()
            raise SandboxDied(f"no place could be opened: {message['error']}")
        return Place(host_end, descriptors[0], lambda: self._release(number))

    def _release(self, number: int) -> None:
        with self._lock:
            self._free_numbers.append(number)

    def close(self) -> None:
        """End the zygote, and with it all places that were forked from it and the programs in them."""
        self._control.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Process id of the launcher, the process that starts the zygote and ends it when the host has ended."""
        return self._process.pid


def _readable_paths() -> list[str]:
    """Paths of the standard library and devices for Landlock, which allows everything below a readable folder.

    So the parts of the standard library are named one by one, without the folders of installed packages beside them.
    """
    stdlib = Path(sysconfig.get_path("stdlib"))
    parts = [str(path) for path in stdlib.iterdir() if path.name not in ("site-packages", "dist-packages")]
    return [*parts, "/dev/urandom", "/dev/random", "/usr/lib", "/etc/localtime", "/proc/self"]
