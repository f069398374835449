"""MATH-500: five hundred competition problems with answers in LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs import data
from envs.grading.symbolic import workers
from envs.math.competition import ANSWER, Competition, gold_answer

LEVELS = range(1, 6)


class MATH500(Competition):
    r"""Solve a competition problem.

    Observation: the problem and the line `End with \boxed{the answer}`, one user message; in full style the
    instructions and the problem.
    Action: a solution whose declared answer is graded by `envs.grading.math.verify`: exactly where possible, else by
    math-verify (extra `math`) in a separate process; with `symbolic=False` only exactly.
    Reward: 1 if the answer is right, else 0.
    Episode end: after the first reply.
    Arguments: `data_root`, the folder that holds `math500/*.jsonl`, else TURNWISE_DATA; `level`, 1 to 5, and `subject`
    select rows; `symbolic`. Fields: `problem` or `question`; `answer`, or else the last box of `solution`; `unique_id`
    or `id`, `level` and `subject` are optional.
    Splits: "test" is every file whose name does not begin with `train`; a tenth of the rows of `train*.jsonl`, if there
    are any, is "val" and the rest "train".
    Source and licence: HuggingFaceH4/MATH-500, of MATH (Hendrycks et al. 2021, arXiv:2103.03874), MIT.
    Version history: v0.
    """

    folder = "math500"

    def __init__(
        self, *, level: int | None = None, subject: str | None = None, symbolic: bool = True, **kwargs: Any
    ) -> None:
        if level is not None and level not in LEVELS:
            raise ValueError(f"level {level!r} is not one of {', '.join(map(str, LEVELS))}")
        super().__init__(**kwargs)
        self.level, self.subject, self.symbolic = level, subject, bool(symbolic)
        self.blocking = self._uses_workers = self.symbolic
        if self._uses_workers:
            workers().open()

    def answer(self, row: data.Row) -> str:
        r"""Return the answer field, or else the last `\boxed{}` of the solution.

        Raises ValueError if there is neither.
        """
        answer = gold_answer(row)
        if not answer:
            wrong = next((row.fields[name] for name in ANSWER if row.fields.get(name) is not None), None)
            if wrong is not None:
                raise ValueError(f"{row.source}: the answer {wrong!r} is neither a text nor a number")
            raise ValueError(f"{row.source}: neither an answer nor a solution with \\boxed{{}}")
        return answer

    def is_selected(self, fields: Mapping[str, Any]) -> bool:
        """Whether the row has the `level` and `subject` of the arguments; None selects all."""
        subject = self.subject is None or fields["subject"].casefold() == self.subject.casefold()
        return subject and self.level in (None, fields.get("level"))

    def close(self) -> None:
        """Stop the worker processes, if this was the last environment that uses them."""
        if self._uses_workers:
            self._uses_workers = False
            workers().close()
