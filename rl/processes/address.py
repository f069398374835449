"""The address of a Ray cluster, as `--cluster` takes it."""

from __future__ import annotations

import argparse
import re

AUTO = "auto"
CLIENT = re.compile(r"ray://(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(\d{1,5})")


def cluster_help(flags: str) -> str:
    """Return the help of the flag `--cluster`; `flags` name the processes that it is about."""
    return (
        f"put the processes of {flags} on the nodes of a Ray cluster (extra ray): `auto`, the one that this machine is "
        "a node of, or ray://HOST:PORT; docs/clusters.md"
    )


def cluster_address(text: str) -> str:
    """Check the flag `--cluster` and return it. Raises `argparse.ArgumentTypeError` for what is no address."""
    if text and text != AUTO and not CLIENT.fullmatch(text):
        raise argparse.ArgumentTypeError(
            "must be auto, the cluster that this machine is a node of, or ray://HOST:PORT (Ray's client port is 10001)"
        )
    return text


def check_cluster(cluster: str, *, workers: int, engines: int, trainers: int = 0, devices: str) -> None:
    """Raise `ValueError` for a cluster on which nothing would be started, or devices, which Ray gives out there.

    `trainers` is 0 for a command without that flag. `devices` is the flag that names devices, with its value; "" for
    none.
    """
    if not cluster:
        return
    if not workers and engines < 2 and trainers < 2:
        flags = "--workers 1, --engines 2 or --trainers 2" if trainers else "--workers 1 or --engines 2"
        raise ValueError(f"--cluster {cluster}: nothing would be there; add {flags} or more, or leave it out")
    if devices:
        raise ValueError(f"{devices}: with --cluster, Ray gives out the devices; leave it out")


def join_cluster(cluster: str, *, workers: int, engines: int, trainers: int = 1, gpus: int = 0) -> None:
    """Connect to a cluster, "" for none, and check that it has room for a run's processes.

    An engine or trainer has `gpus` GPUs to itself. Raises `ValueError` as `rl.processes.cluster.connection.connect`.
    """
    if cluster:
        from rl.processes.cluster.connection import Room, connect

        rooms = Room("--workers", workers), Room("--engines", engines, gpus), Room("--trainers", trainers, gpus)
        connect(cluster, [room for room in rooms if room.number > (room.flag != "--workers")])
