"""What is fixed when a container is created: the limits that the engine enforces, and its isolation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sandboxes.local.confinement.box import BOX, FOLDERS
from sandboxes.types import Isolation, Limits

AGENT_MB = 64  # for the agent, its warden, and what passes through them
PRELOAD_MB = 96  # for packages that are loaded before programs start
OWN_PROCESSES = 4  # the agent with its thread, its warden, and one in reserve while a candidate starts
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")

ISOLATION = Isolation(
    tier="container",
    covered=(
        "wall time, and CPU time of all processes together",
        "files, environment, processes and network of the host: the engine's container, without network",
        "memory and number of processes, of all processes together; disk and number of files",
        "output: no more than the limit is ever read",
        "kernel interfaces that programs do not need: the engine's filter and a further one",
        "the agent: programs are another user than it, and cannot signal, trace or read it",
    ),
    uncovered=(
        "faults of the kernel itself, and of the engine: a virtual machine of its own is stronger",
        "what hardware leaks between processes by timing",
        "an image's own files: a program can read all that its image lets everybody read",
        "pids: they count on from call to call",
        "locks: programs that run at the same time can tell each other something by locks on an image's files",
        "whether the kernel, short of memory, ends the program or its agent, where the kernel has no Landlock",
    ),
    memory="cgroup",
)


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """The settings of a container. One container serves all calls whose limits give equal configs."""

    memory_mb: int
    disk_mb: int
    files: int
    processes: int
    preload: bool  # whether packages are loaded before programs start

    @classmethod
    def from_limits(cls, limits: Limits, *, preload: bool) -> ContainerConfig:
        """Return the config that enforces these limits. `preload`: load packages before programs start."""
        return cls(limits.memory_mb, limits.disk_mb, limits.files, limits.processes, preload)

    def engine_options(self, cpus: float) -> dict[str, Any]:
        """Return the keyword arguments of `docker`'s `create_host_config`; `cpus` is the number of CPUs.

        There is no `init`: the agent, this project's server in the container, is the first process, so that nothing
        inside can signal it, and it collects ended processes. There is no log, as only the host reads the output.
        Memory allows for fetched files to exist twice for a moment.
        """
        memory = (self.memory_mb + 2 * self.disk_mb + AGENT_MB + PRELOAD_MB * self.preload) << 20
        inodes = self.files + len(FOLDERS) + 1
        return {
            "network_mode": "none",
            "ipc_mode": "none",
            "mem_limit": memory,
            "memswap_limit": memory,
            "pids_limit": self.processes + OWN_PROCESSES,
            "nano_cpus": round(cpus * 1e9),
            "read_only": True,
            "tmpfs": {BOX: f"rw,exec,nosuid,nodev,size={self.disk_mb}m,nr_inodes={inodes},mode=0755"},
            "cap_drop": ["ALL"],
            "cap_add": list(CAPABILITIES),
            "security_opt": ["no-new-privileges"],
            "ulimits": [
                {"Name": "nofile", "Soft": 1024, "Hard": 1024},
                {"Name": "core", "Soft": 0, "Hard": 0},
                {"Name": "msgqueue", "Soft": 0, "Hard": 0},
            ],
            "log_config": {"Type": "none"},
        }
