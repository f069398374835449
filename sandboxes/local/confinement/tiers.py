"""The tiers of `local`, strongest first, and what each needs. Weaker ones are used only when asked for by name."""

from __future__ import annotations

import platform

from sandboxes.local.confinement.seccomp import architecture
from sandboxes.local.confinement.syscalls import landlock_version
from sandboxes.types import Isolation

_EVERYWHERE = (
    "wall time, and CPU time of all processes together",
    "the environment, the open files and the memory of the host",
    "output: no more than the limit is ever read",
    "kernel interfaces that programs do not need (about a hundred system calls)",
)
_NOWHERE = (
    "faults of the kernel itself: a container or a virtual machine of its own is stronger",
    "what hardware leaks between processes by timing",
    "memory that the kernel keeps for pipes and sockets, where no control group counts it",
    "where the system and the packages lie on the host: a process can read that of its own mounts and libraries",
    "locks: programs that run at the same time can tell each other something by locks on the system's files",
)
_WITHOUT_NAMESPACES = (
    "pids: they are the host's, and count on from call to call",
    "disk: the files are counted every few milliseconds, without those that were deleted and are still open",
    "programs that need child processes: these fail",
)

NAMESPACES = Isolation(
    tier="namespaces",
    covered=(
        *_EVERYWHERE,
        "files: read-only system and Python, nothing else of the host; /work, /tmp, /dev/shm are private, in memory",
        "network: none, also not to this machine",
        "processes: only those of the same place are visible; every one ends with its call or session",
        "memory and number of processes, of all processes together; disk and number of files",
        "identity: each call has the same pid, command line and environment, without paths of the host",
    ),
    uncovered=_NOWHERE,
    memory="cgroup",
)
LANDLOCK = Isolation(
    tier="landlock",
    covered=(
        *_EVERYWHERE,
        "files: reading but the system and Python, writing but in one private folder",
        "permissions, times and attributes of files: they cannot be changed",
        "network, processes: no socket and no other process can be made or signalled",
        "memory of the one process",
    ),
    uncovered=(
        *_NOWHERE,
        *_WITHOUT_NAMESPACES,
        "names and sizes of files that exist (stat is not denied)",
    ),
    memory="process",
    children=False,
)
PROCESS = Isolation(
    tier="process",
    covered=(*_EVERYWHERE, "network, processes: no socket and no other process can be made or signalled"),
    uncovered=(
        *_NOWHERE,
        *_WITHOUT_NAMESPACES,
        "FILES: all that this user can read can be read, all that it can write can be written",
        "notes for later calls, in any folder that this user can write to",
    ),
    memory="process",
    children=False,
)
TIERS = {isolation.tier: isolation for isolation in (NAMESPACES, LANDLOCK, PROCESS)}
_ADVICE = (
    "Allow unprivileged user namespaces (sysctl user.max_user_namespaces, and on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container, its seccomp profile), or ask for a weaker tier by "
    "name: 'local:landlock', or 'local:process', which protects no files"
)


def missing_requirement(tier: str) -> str:
    """Say what this machine lacks for a tier ("namespaces", "landlock" or "process"), as far as is seen without trying.

    Returns one line, or "" where nothing is missing.
    """
    if platform.system() != "Linux":
        return f"tier '{tier}' needs Linux; this is {platform.system()}"
    if not architecture():
        return f"tier '{tier}' knows the system calls of x86_64 and aarch64; this is {platform.machine()}"
    version = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2] if part.isdigit())
    if version < (5, 14):
        return f"tier '{tier}' needs Linux 5.14 (limits that count per user namespace); this is {platform.release()}"
    if tier == "landlock" and not landlock_version():
        return "tier 'landlock' needs a kernel with Landlock that lets this user apply it"
    return ""


def start_error(tier: str, reason: str) -> str:
    """Return the message, in one line, for a tier that did not start for `reason`; for "namespaces" with advice."""
    return f"local: tier '{tier}' did not start: {reason}" + (f". {_ADVICE}" if tier == "namespaces" else "")
