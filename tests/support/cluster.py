"""A Ray cluster on this machine, whose nodes have loopback addresses of their own."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
NODES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
MEMORY = 100 << 20


class LocalCluster:
    """A head and further nodes; `add` and `remove` change their number."""

    def __init__(self, cpus: int) -> None:
        from ray.cluster_utils import Cluster

        with socket.create_server((NODES[0], 0)) as free:
            port = free.getsockname()[1]
        self.client_address = f"ray://{NODES[0]}:{port}"
        head = {"num_cpus": cpus, "node_ip_address": NODES[0], "include_dashboard": False}
        head["ray_client_server_port"] = port
        os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # else what the head starts for a client may end in its fork
        self._cluster = Cluster(initialize_head=True, head_node_args={**head, "object_store_memory": MEMORY})
        self.address = self._cluster.address

    @property
    def nodes(self) -> list[Any]:
        """All nodes, the head first."""
        return list(self._cluster.list_all_nodes())

    def add(self, cpus: int) -> Any:
        """Add a node, with the next address."""
        address = NODES[len(self.nodes)]
        return self._cluster.add_node(num_cpus=cpus, node_ip_address=address, object_store_memory=MEMORY)

    def remove(self, node: Any) -> None:
        """Kill a node and all that runs on it."""
        self._cluster.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()


@contextmanager
def connected_cluster(cpus: int) -> Iterator[LocalCluster]:
    """A cluster that `auto` means, for this process and those that it starts."""
    import ray

    from rl.processes.cluster import connection

    root = str(Path(__file__).parents[2])
    if root not in sys.path:
        sys.path.insert(0, root)
    cluster = LocalCluster(cpus)
    before = os.environ.get("RAY_ADDRESS")
    os.environ["RAY_ADDRESS"] = cluster.address
    try:
        connection.connect("auto", ())
        yield cluster
    finally:
        if before is None:
            del os.environ["RAY_ADDRESS"]
        else:
            os.environ["RAY_ADDRESS"] = before
        connection._connections.clear()
        ray.shutdown()
        cluster.close()


def end_actor(process: Any) -> None:
    """Kill the actor of a child process, as if its machine had lost it."""
    import ray

    ray.kill(process._popen._keeper)


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for something; fail if it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def marked(mark: str) -> set[int]:
    """Process ids whose environment has a variable."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                found.add(int(path.name))
    return found


def words_of(pid: int) -> bytes:
    """The command line of a process, "" for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
