"""The Ray cluster of a run: connecting to it, checking what it has, and starting processes on its nodes."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from rl.cli import UserError
from rl.processes.address import AUTO, CLIENT
from rl.processes.cluster.keeper import HOME, Order
from rl.processes.cluster.nodes import Needs, missing, own_needs
from rl.processes.timeout import CLUSTER_VARIABLE, cluster_timeout_s
from sandboxes.extras import install_command
from sandboxes.source_files import loaded_sources

if TYPE_CHECKING:
    from rl.processes.cluster.actor_process import ActorProcess
    from rl.processes.cluster.placement import PlacementGroup

POLL_S = 0.5
MAX_TEXT = 500  # characters of an error of Ray
SENT_VARIABLES = "TURNWISE_"  # those that begin so; all others are the node's own
OWN_VARIABLES = ("TURNWISE_CACHE", "TURNWISE_SOURCES")


class Room(NamedTuple):
    """What a run will start on a cluster: so many processes of a kind, each with one CPU and some GPUs of its own."""

    flag: str
    number: int
    gpus: int = 0


class Cluster:
    """A cluster that this process is connected to, as `rl.processes.host.Host` says."""

    is_far = True

    def __init__(self, address: str, timeout_s: float, needs: Needs) -> None:
        from rl.processes.cluster.actor_process import Objects  # imports Ray

        self.address, self.timeout_s, self.needs = address, timeout_s, needs
        self._objects = Objects()

    def start(
        self,
        name: str,
        module: str,
        arguments: Sequence[object],
        environment: Mapping[str, str],
        *,
        gpus: int = 0,
        file_bytes: int = 0,
        strategy: Any = "SPREAD",
    ) -> tuple[socket.socket, ActorProcess]:
        """See `Host`; `strategy` is how Ray chooses the node."""
        from rl.processes.cluster.actor_process import ActorProcess

        self._check_connected()
        own_end, far_end = socket.socketpair()
        variables = {
            key: value
            for key, value in os.environ.items()
            if key.startswith(SENT_VARIABLES) and key not in OWN_VARIABLES
        }
        order = Order(module, arguments, environment, variables, self.needs, file_bytes, loaded_sources())
        process = ActorProcess(
            name, order, far_end, self._objects, gpus=gpus, place_s=self.timeout_s, strategy=strategy
        )
        return own_end, process

    def home(self, folder: str) -> str:
        """See `Host`."""
        return HOME

    def reserve(self, count: int, *, gpus: int = 0) -> PlacementGroup:
        """See `Host`."""
        from rl.processes.cluster.placement import PlacementGroup  # imports Ray

        self._check_connected()
        return PlacementGroup(self, count, gpus)

    def release(self) -> None:
        """See `Host`: nothing was reserved."""

    def _check_connected(self) -> None:
        """Raise `UserError` if the cluster is gone, for a client's connection is not made again."""
        import ray

        if not ray.is_initialized():
            raise UserError(f"--cluster {self.address}: the connection is lost; the run can be resumed with --resume")

    def check_nodes(self) -> None:
        """Raise `ValueError` if a node lacks what a run needs, or does not say so in time.

        A node that the cluster still lists, though it is lost, is left out.
        """
        import ray
        from ray.exceptions import TaskUnschedulableError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        task = ray.remote(missing)
        refs: dict[Any, str] = {}
        for node in ray.nodes():
            if node["Alive"]:
                strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": strategy}
                refs[task.options(**options).remote(self.needs)] = node["NodeManagerAddress"]
        answers, silent = ray.wait(list(refs), num_returns=len(refs), timeout=self.timeout_s)
        if silent:
            raise ValueError(f"--cluster {self.address}: node {refs[silent[0]]} has answered nothing {self._limit()}")
        for ref in answers:
            try:
                lack = ray.get(ref)
            except TaskUnschedulableError:
                continue
            except Exception as error:  # whatever happens on the node
                is_missing = isinstance(error, ImportError) or "ModuleNotFoundError" in str(error)
                lack = f"fails: {type(error).__name__}"
                lack = f"has not this library; {install_command('ray')} there" if is_missing else lack
            if lack:
                raise ValueError(f"--cluster {self.address}: node {refs[ref]} {lack}")

    def check_room(self, rooms: Sequence[Room]) -> None:
        """Raise `ValueError` if the nodes together have too little, now and until the deadline."""
        import ray

        needs = {"CPU": sum(room.number for room in rooms), "GPU": sum(room.number * room.gpus for room in rooms)}
        deadline = time.monotonic() + self.timeout_s
        while True:
            there = ray.cluster_resources()
            lacks = [kind for kind, number in needs.items() if number > there.get(kind, 0)]
            if not lacks:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        flags = " ".join(f"{room.flag} {room.number}" for room in rooms)
        kind = lacks[0]
        raise ValueError(
            f"--cluster {self.address}: {flags} need {needs[kind]} {kind}s, and the cluster has "
            f"{there.get(kind, 0):g} {self._limit()}; ask for fewer, or add nodes"
        )

    def _limit(self) -> str:
        return f"within {self.timeout_s:g} s ({CLUSTER_VARIABLE})"


_connections: dict[str, Cluster] = {}


def connection(address: str) -> Cluster:
    """Return the cluster that `connect` has connected to."""
    return _connections[address]


def connect(address: str, rooms: Sequence[Room]) -> Cluster:
    """Connect to the cluster at `address`, once in a process, and check that `rooms` fit on it.

    Raises `ValueError` without Ray, for an address that no cluster answers in time, and as the checks of `Cluster`.
    """
    if (spec := find_spec("ray")) is None or spec.origin is None:  # a folder of this name has no origin
        raise ValueError(f"--cluster {address}: Ray is not installed; {install_command('ray')}")
    timeout_s = cluster_timeout_s()
    if address not in _connections:
        _open(address, timeout_s)
        _connections[address] = Cluster(address, timeout_s, own_needs())
    cluster = _connections[address]
    cluster.timeout_s, cluster.needs = timeout_s, own_needs()
    cluster.check_room(rooms)
    cluster.check_nodes()
    return cluster


def _open(address: str, timeout_s: float) -> None:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else CUDA_VISIBLE_DEVICES is emptied
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # else Ray starts a cluster here when this one is lost
    if match := CLIENT.fullmatch(address):
        host, port = match[1].strip("[]"), int(match[2])
        try:
            socket.create_connection((host, port), timeout=timeout_s).close()
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", "") or str(error)
            raise ValueError(f"--cluster {address}: nothing answers there ({reason})") from None
    handler = signal.getsignal(signal.SIGTERM)
    try:
        _within(partial(_init, address, time.monotonic() + timeout_s), timeout_s, address)
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's would end the run without a checkpoint


def _init(address: str, deadline: float, errors: list[BaseException]) -> None:
    """Connect, again until `deadline` if the head could not start the client's server: gRPC may break its fork.

    The error of the last attempt stays in `errors` until one succeeds.
    """
    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)
    while not ray.is_initialized():
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
        except ConnectionAbortedError as error:
            errors[:] = [error]
            if time.monotonic() + POLL_S > deadline:
                return
            time.sleep(POLL_S)
    errors.clear()


def _within(work: Callable[[list[BaseException]], None], timeout_s: float, address: str) -> None:
    """Do something in a thread, for Ray may wait for ever. Raises `ValueError` if it fails or takes too long.

    `work` is given a list for errors; what is in it at the end, or when the time is over, is a failure.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work(errors)
        except BaseException as error:
            errors[:] = [error]

    thread = threading.Thread(target=run, daemon=True, name="cluster")
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive() and not errors:
        text = f"no cluster has answered within {timeout_s:g} s ({CLUSTER_VARIABLE})"
        raise ValueError(f"--cluster {address}: {text}")
    if errors and isinstance(errors[0], ConnectionError) and address == AUTO:
        text = "no cluster on this machine; `ray start --head` starts one, `ray start --address HOST:6379` joins one"
        raise ValueError(f"--cluster {address}: {text}")
    if errors:
        line = " ".join(str(errors[0]).split()) or type(errors[0]).__name__
        raise ValueError(f"--cluster {address}: {line[:MAX_TEXT]}")
