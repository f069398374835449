"""A policy whose letters have known chances at each position of a reply."""

from __future__ import annotations

import asyncio
import math

from rl.policy.engine import Policy
from rl.records import Completion
from rl.seeds import generator
from tests.support.episodes import END

CHANCES = [  # of the letters at each position of a reply, the last of them for all positions after
    {"x": 0.96, "y": 0.04},
    {"a": 0.6, "b": 0.25, "c": 0.15},
    {"k": 0.97, "l": 0.03},
    {"m": 0.96, "n": 0.04},
    {"o": 0.95, "p": 0.05},
    {"b": 0.34, "c": 0.33, "d": 0.33},
    {"e": 0.9, "f": 0.1},
]
LENGTH = 9


class Letters(Policy):
    """Backend of nine letters, each drawn by its seed and position alone; records the likeliest ones if asked."""

    version = 4

    def __init__(self) -> None:
        self.num_sampled = 0

    async def sample(self, prompt, params, *, session="", resume_from=None):
        ids, logprobs, tops = (
            ([*x] for x in (resume_from.ids, resume_from.logprobs, resume_from.alternatives))
            if (resume_from)
            else ([], [], [])
        )
        while not ids or (ids[-1] != END and len(ids) < params.max_tokens):
            await asyncio.sleep(0)
            row = CHANCES[min(len(ids), len(CHANCES) - 1)] if len(ids) < LENGTH else {chr(END): 1.0}
            place = generator(params.seed, len(prompt) + len(ids)).choice(len(row), p=[*row.values()])
            letter = [*row][place]
            ids.append(ord(letter))
            logprobs.append(math.log(row[letter]))
            best = sorted(row.items(), key=lambda item: -item[1])[: params.alternatives]
            tops.append(tuple((ord(one), math.log(chance)) for one, chance in best))
            self.num_sampled += 1
        pair = tuple(logprobs)
        finish = "stop" if ids[-1] == END else "length"
        alternatives = tuple(tops) if params.alternatives else ()
        return Completion(tuple(ids), pair, pair, (4,) * len(ids), finish, alternatives=alternatives)
