"""How long a process beside the run may be silent."""

from __future__ import annotations

import os
from math import nan

TIMEOUT_VARIABLE = "TURNWISE_ENGINE_TIMEOUT_S"
DEFAULT_TIMEOUT_S = 1800.0  # a start that reads vLLM from a network, or a step of long prompts on a slow CPU


def answer_timeout_s() -> float:
    """Return how many seconds an answer may take: TURNWISE_ENGINE_TIMEOUT_S, or 1800 where it is not set.

    Raises `ValueError` if the variable is not a positive number.
    """
    text = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    try:
        timeout_s = float(text or DEFAULT_TIMEOUT_S)
    except ValueError:
        timeout_s = nan
    if not 0 < timeout_s < 1e9:
        raise ValueError(
            f"{TIMEOUT_VARIABLE}={text}: must be a number of seconds greater than 0 (default: {DEFAULT_TIMEOUT_S:g})"
        )
    return timeout_s
