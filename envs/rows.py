"""The table of environments: strings only, so that listing them imports none of them."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One environment. `extra` is the optional dependency it can use, `data` its folder under the data root."""

    id: str
    entry_point: str
    line: str
    extra: str = ""
    data: str = ""


ROWS = (
    Row("math/Arithmetic-v0", "envs.math.arithmetic:Arithmetic", "sums, differences and products in four levels"),
    Row(
        "math/GSM8K-v0",
        "envs.math.gsm8k:GSM8K",
        "grade-school word problems, exact numeric answer",
        data="gsm8k",
    ),
    Row("games/GuessNumber-v0", "envs.games.guess_number:GuessNumber", "find a hidden number by higher and lower"),
    Row("games/FrozenLake-v0", "envs.games.frozen_lake:FrozenLake", "cross a frozen lake without falling in"),
)
