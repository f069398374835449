"""Processes that Ray places together, near to each other, or not at all: the ranks that train one model."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rl.processes.timeout import CLUSTER_VARIABLE

if TYPE_CHECKING:
    from rl.processes.cluster.actor_process import ActorProcess
    from rl.processes.cluster.connection import Cluster

LOOK_S = 0.5


class PlacementGroup:
    """Room on a cluster for some processes, as `rl.processes.host.Host` says. Ray frees it when the run ends."""

    is_far = True

    def __init__(self, cluster: Cluster, number: int, gpus: int) -> None:
        """Wait for room on as few nodes as possible. Raises `ValueError` if there is none in time."""
        self._cluster, self._is_there = cluster, True
        bundle = {"CPU": 1.0, "GPU": float(gpus)} if gpus else {"CPU": 1.0}
        self._group = placement_group([bundle] * number, strategy="PACK")
        deadline = time.monotonic() + cluster.timeout_s
        try:
            while not self._group.wait(LOOK_S):
                if time.monotonic() > deadline:
                    each = "1 CPU" + f" and {gpus} GPU" * bool(gpus)
                    raise ValueError(
                        f"found no nodes with room for {number} processes of {each} each within "
                        f"{cluster.timeout_s:g} s ({CLUSTER_VARIABLE})"
                    )
            nodes = placement_group_table(self._group)["bundles_to_node_id"]
            self._indices = iter(sorted(range(number), key=lambda index: (nodes[index], index)))  # node by node
        except BaseException:
            self.release()
            raise

    def start(
        self,
        name: str,
        module: str,
        arguments: Sequence[object],
        environment: Mapping[str, str],
        *,
        gpus: int = 0,
        file_bytes: int = 0,
    ) -> tuple[socket.socket, ActorProcess]:
        """See `Host`."""
        strategy = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=next(self._indices))
        return self._cluster.start(
            name, module, arguments, environment, gpus=gpus, file_bytes=file_bytes, strategy=strategy
        )

    def home(self, folder: str) -> str:
        """See `Host`."""
        return self._cluster.home(folder)

    def reserve(self, count: int, *, gpus: int = 0) -> Any:
        """See `Host`: other room than this group's."""
        return self._cluster.reserve(count, gpus=gpus)

    def release(self) -> None:
        """See `Host`."""
        if self._is_there:
            self._is_there = False
            with suppress(Exception):  # the cluster is gone
                remove_placement_group(self._group)
