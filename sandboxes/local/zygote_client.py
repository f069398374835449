"""The host's end of the zygote: starts the program, and has it open places."""

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

MOST_PLACES = 4096
_ROOT = str(Path(__file__).resolve().parents[2])
_BOOT = (
    "import sys, json, socket; config = json.loads(sys.argv[1]); sys.path.insert(0, config['root']);"
    "from sandboxes.local.zygote import main; main(config, socket.socket(fileno=config['control']))"
)


class Nursery:
    """One zygote and the places that it opened. Raises SandboxUnavailable where the tier cannot be had."""

    def __init__(self, tier: str, packages: Sequence[str], preload: Sequence[str], start_s: float) -> None:
        if reason := tiers.obstacle(tier):
            raise SandboxUnavailable(f"local: {reason}")
        self.tier, self.folder = tier, None
        self._lock = threading.Lock()
        self._free = list(range(MOST_PLACES - 1, -1, -1))
        if tier != "namespaces":
            self.folder = tempfile.mkdtemp(prefix="turnwise-sandbox-")
        self._control, theirs = codec.pair()
        config = json.dumps(self._config(packages, preload) | {"control": theirs.fileno()})
        command = [mounts.interpreter(), "-s", "-S", "-P", "-X", "utf8", "-c", _BOOT, config]
        with tempfile.TemporaryFile() as complaints, theirs:
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                env=mounts.ENVIRONMENT,
                cwd="/",
                start_new_session=True,  # Ctrl-C in a terminal is for the host
            )
            theirs.close()
            try:
                self.memory = self._ready(start_s)
            except BaseException as fault:
                self.close()
                complaints.seek(0)
                last = complaints.read().decode(errors="replace").strip().rpartition("\n")[2]
                if isinstance(fault, (EOFError, TimeoutError)):
                    raise SandboxUnavailable(tiers.refused(tier, last or str(fault))) from None
                raise

    def _config(self, packages: Sequence[str], preload: Sequence[str]) -> dict[str, Any]:
        planned = mounts.plan(packages)
        shown = mounts.import_path()
        places = dict(planned.binds)
        if self.tier != "namespaces":  # nothing is shown elsewhere than where it is
            shown = shown[:-1] + sorted({os.path.dirname(path) for path in mounts.package_paths(packages)})
        return {
            "root": _ROOT,
            "host": os.getpid(),
            "folder": self.folder,
            "namespaces": self.tier == "namespaces",
            "rules": self.tier == "landlock",
            "binds": planned.binds,
            "hidden": planned.hidden,
            "readable": [*places, *_readable_parts()] if self.tier == "landlock" else [],
            "import_path": shown,
            "preload": [name for name in preload if find_spec(name)],
        }

    def _ready(self, start_s: float) -> str:
        self._control.settimeout(start_s)
        try:
            message, _ = codec.receive(self._control)
        except TimeoutError:
            raise TimeoutError(f"not ready within {start_s:g} s") from None
        if "error" in message:
            raise SandboxUnavailable(tiers.refused(self.tier, message["error"]))
        return message["memory"] if self.tier == "namespaces" else "process"

    def open(self) -> Place:
        """A new place. Raises SandboxDied where the zygote is gone, or cannot; SandboxBusy where all are taken."""
        ours, theirs = codec.pair()
        with self._lock:
            if not self._free:
                raise SandboxBusy(f"all of {MOST_PLACES} places are taken")
            number = self._free.pop()
            try:
                codec.send(self._control, {"place": number}, [theirs.fileno()])
                message, descriptors = codec.receive(self._control)
            except (EOFError, TimeoutError):
                raise SandboxDied("the zygote is gone") from None
            finally:
                theirs.close()
        if "error" in message:
            self._release(number)
            ours.close()
            raise SandboxDied(f"no place could be opened: {message['error']}")
        return Place(ours, descriptors[0], lambda: self._release(number))

    def _release(self, number: int) -> None:
        with self._lock:
            self._free.append(number)

    def close(self) -> None:
        """End the zygote, and so everything that came of it."""
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
        """Of the launcher."""
        return self._process.pid


def _readable_parts() -> list[str]:
    """Under Landlock what lies below a readable folder is readable: so name what stands beside the packages."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    parts = [str(path) for path in stdlib.iterdir() if path.name not in ("site-packages", "dist-packages")]
    return [*parts, "/dev/urandom", "/dev/random", "/usr/lib", "/etc/localtime", "/proc/self"]
