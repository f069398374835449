"""AIME: competition problems whose answers are whole numbers from 0 to 999."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs import data
from envs.math.competition import Competition, stated_answer

ANSWERS = range(1000)


class AIME(Competition):
    r"""Solve a problem of the American Invitational Mathematics Examination.

    Observation: the problem and the line `End with \boxed{the answer}`, one user message.
    Action: a solution whose declared answer is read by `envs.grading.math.verify`. It must be worked out; leading zeros
    do not count, as `073` is how the official form writes 73.
    Reward: 1 if the answer is right, else 0.
    Episode end: after the first reply.
    Arguments: `data_root`, the folder that holds `aime/*.jsonl`, else TURNWISE_DATA; `year` picks rows. Fields:
    `problem` or `question`; `answer`, a text or a number, or else the last box of `solution`; `id` and `year` where
    they are there.
    Splits: "test" is every file whose name does not begin with `train`; `train*.jsonl`, if there are any, give "train"
    and, a tenth of them, "val". Thirty problems a year are few: play each many times and give an interval.
    Source and licence: Mathematical Association of America; files such as HuggingFaceH4/aime_2024, MathArena/aime_2025.
    Version history: v0.
    """

    folder = "aime"

    def __init__(self, *, year: int | None = None, **more: Any) -> None:
        super().__init__(**more)
        self.year = year

    def answer(self, row: data.Row) -> str:
        """The whole number, without leading zeros."""
        found = stated_answer(row) or ""
        if not (found.isascii() and found.isdecimal() and int(found) in ANSWERS):
            raise ValueError(f"{row.source}: the answer {found!r} is not a whole number from 0 to 999")
        return str(int(found))

    def kept(self, fields: Mapping[str, Any]) -> bool:
        """Whether the year is the one asked for."""
        return self.year in (None, fields.get("year"))
