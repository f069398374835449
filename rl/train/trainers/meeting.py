"""Where the ranks of a policy find each other: a file on one machine, a port of the first rank's on several."""

from __future__ import annotations

from datetime import timedelta

import torch.distributed as dist

from rl.processes.timeout import cluster_timeout_s

TCP = "tcp://"


def open_port(address: str, timeout_s: float) -> tuple[str, dist.Store]:
    """Let the ranks meet at a free port of this machine, whose address is given; return the place, and the store."""
    timeout = timedelta(seconds=timeout_s)
    store = dist.TCPStore(address, 0, is_master=True, wait_for_workers=False, timeout=timeout)
    return f"{TCP}{address}:{store.port}", store


def join(place: str, count: int) -> dist.Store:
    """Return the store at a place: a file's path, or `open_port`'s, which has the time of a cluster to answer."""
    if not place.startswith(TCP):
        return dist.FileStore(place, count)
    address, _, port = place.removeprefix(TCP).rpartition(":")
    return dist.TCPStore(address, int(port), is_master=False, timeout=timedelta(seconds=cluster_timeout_s()))
