"""AIME: competition problems with whole numbers from 0 to 999 as answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs import data
from envs.math.competition import Competition, gold_answer

ANSWERS = range(1000)


class AIME(Competition):
    r"""Solve a problem of the American Invitational Mathematics Examination.

    Observation: the problem and the line `End with \boxed{the answer}`, one user message; in full style the
    instructions and the problem.
    Action: a solution whose declared answer is read by `envs.grading.math.verify`. The answer must be a number, not an
    expression; leading zeros do not count, because the official form writes 73 as `073`.
    Reward: 1 if the answer is right, else 0.
    Episode end: after the first reply.
    Arguments: `data_root`, the folder that holds `aime/*.jsonl`, else TURNWISE_DATA; `year` selects rows.
    Fields: `problem` or `question`; `answer`, a text or a number, or else the last box of `solution`; `id` and `year`
    are optional.
    Splits: "test" is every file whose name does not begin with `train`; a tenth of the rows of `train*.jsonl`, if there
    are any, is "val" and the rest "train". A year has only thirty problems: play each many times and report an
    interval.
    Source and licence: Mathematical Association of America; files such as HuggingFaceH4/aime_2024, MathArena/aime_2025.
    Version history: v0.
    """

    folder = "aime"
    form = "the answer, a whole number from 0 to 999"

    def __init__(self, *, year: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.year = year

    def answer(self, row: data.Row) -> str:
        """Return the answer as a whole number without leading zeros. Raises ValueError for any other answer."""
        answer = gold_answer(row) or ""
        if not (answer.isascii() and answer.isdecimal() and int(answer) in ANSWERS):
            raise ValueError(f"{row.source}: the answer {answer!r} is not a whole number from 0 to 999")
        return str(int(answer))

    def is_selected(self, fields: Mapping[str, Any]) -> bool:
        """Whether the row belongs to `year`; every row does if `year` is None."""
        return self.year in (None, fields.get("year"))
