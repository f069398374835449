"""How long a run waits for what is beside it: an answer of a process, room on a cluster, a server that is back."""

from __future__ import annotations

import os
from math import nan

TIMEOUT_VARIABLE = "TURNWISE_ENGINE_TIMEOUT_S"
DEFAULT_TIMEOUT_S = 1800.0  # a start that reads vLLM from a network, or a step of long prompts on a slow CPU
CLUSTER_VARIABLE = "TURNWISE_CLUSTER_TIMEOUT_S"
CLUSTER_TIMEOUT_S = 60.0
SERVER_VARIABLE = "TURNWISE_SERVER_TIMEOUT_S"
SERVER_TIMEOUT_S = 120.0  # in which a supervisor starts a server again


def answer_timeout_s() -> float:
    """Return how many seconds an answer may take: TURNWISE_ENGINE_TIMEOUT_S, or 1800 where it is not set.

    Raises `ValueError` if the variable is not a positive number.
    """
    return _seconds(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT_S)


def cluster_timeout_s() -> float:
    """Return how many seconds a cluster may take to answer, or to place an actor: TURNWISE_CLUSTER_TIMEOUT_S, or 60.

    Raises `ValueError` if the variable is not a positive number.
    """
    return _seconds(CLUSTER_VARIABLE, CLUSTER_TIMEOUT_S)


def server_timeout_s() -> float:
    """Return how many seconds a run waits for a server of `--engine-url` when none is there.

    That is TURNWISE_SERVER_TIMEOUT_S, or 120. Raises `ValueError` if the variable is not a positive number.
    """
    return _seconds(SERVER_VARIABLE, SERVER_TIMEOUT_S)


def _seconds(variable: str, default: float) -> float:
    text = os.environ.get(variable, "").strip()
    try:
        timeout_s = float(text or default)
    except ValueError:
        timeout_s = nan
    if not 0 < timeout_s < 1e9:
        raise ValueError(f"{variable}={text}: must be a number of seconds greater than 0 (default: {default:g})")
    return timeout_s
