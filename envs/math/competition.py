"""Base class of environments with competition problems, read from files with any of the published field names."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from envs import data
from envs.episodes.guide import Guide
from envs.grading.marks import boxes
from envs.math.single_answer import SingleAnswer
from envs.procedural import digest
from envs.types import Message, Task, assistant, text, user

INSTRUCTION = "End with \\boxed{the answer}"
PROBLEM, ANSWER, SOLUTION = ("problem", "question", "prompt"), ("answer", "expected_answer"), ("solution",)
IDS = ("unique_id", "id", "problem_idx", "ID")
SUBJECTS = ("subject", "type", "category")
VAL_DIVISOR = 10  # one of this many training rows belongs to "val"


class Competition(SingleAnswer):
    """Problems from files, each answered by one reply.

    A subclass sets `folder`, the name of the folder under the data root, and `form`, what an answer is, and defines
    `answer`; it may override `is_selected`. Files whose names begin with `train` give the splits "train" and "val"; the
    rows of all other files are "test", complete and in order.

    Args:
        data_root: Folder that holds `folder`; None for the environment variable TURNWISE_DATA.
        **limits: Arguments of `Env`: `max_turns`, `max_seconds`, `render_mode`.
    """

    folder: ClassVar[str]
    form: ClassVar[str] = "the answer: a number, a formula or a set, simplified and in LaTeX"
    leaks = "a problem may happen to name its answer"

    def __init__(self, *, data_root: str | None = None, **limits: Any) -> None:
        super().__init__(**limits)
        self.data_root = data_root

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        return self.answer_guide(
            goal="Solve a problem of a mathematics competition. You succeed if your final answer is right.",
            reply=f"Reply with {self.form}, in `\\boxed{{}}`.",
            thinking="You may think first; end with the box, and put nothing but the final answer into it.",
            example="\\boxed{123}",
        )

    @abstractmethod
    def answer(self, row: data.Row) -> str:
        """Return the gold answer of a row. Raises ValueError, with the file and line, if the row has none."""

    def is_selected(self, fields: Mapping[str, Any]) -> bool:
        """Whether the arguments of the environment select the row with this task metadata. Default: every row."""
        return True

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the rows of the split.

        Raises ValueError for a malformed row and if no row is selected, MissingData if there is no file for the split.
        """
        pattern = f"{self.folder}/*.jsonl"
        rows = data.load_rows(pattern, (), data_root=self.data_root)
        rows = [row for row in rows if _is_training(row) == (split != "test")]
        if not rows:
            file_pattern = "train*.jsonl" if split != "test" else "other than train*.jsonl"
            raise data.MissingData(f"split {split!r} needs a file {file_pattern} in {self.folder}/ under the data root")
        tasks = [self._task(f"{split}/{number}", row) for number, row in enumerate(rows)]
        if split != "test":
            largest_digest = sorted(map(_digest, tasks))[max(1, len(tasks) // VAL_DIVISOR) - 1]
            tasks = [task for task in tasks if (_digest(task) <= largest_digest) == (split == "val")]
        tasks = [task for task in tasks if self.is_selected(task.metadata)]
        if not tasks:
            raise ValueError(f"no row of {self.folder}/ in split {split!r} is of the kind that was asked for")
        return tasks

    def oracle(self) -> Iterator[Message]:
        r"""Yield the gold answer in a `\boxed{}`."""
        yield assistant(f"\\boxed{{{self.task.answer}}}")

    def random(self, rng: np.random.Generator) -> Message:
        r"""Return a whole number below 1 000 in a `\boxed{}`."""
        return assistant(f"\\boxed{{{rng.integers(1000)}}}")

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are every whole number below 1 000, and the right answer beside another or negated.
        """
        gold = self.task.answer
        return (
            *super().attacks(),
            text(self.task.prompt[0]),
            " ".join(map(str, range(1000))),
            f"\\boxed{{{gold}}} \\boxed{{987654321}}",
            f"\\boxed{{987654321}}\n\\boxed{{{gold}}}",
            f"\\boxed{{{gold}, 987654321}}",
            f"\\boxed{{{gold}}}\n#### 987654321",
            f"The answer is not {gold}.",
            f"\\boxed{{\\text{{not }} {gold}}}",
            "\\boxed{9^{9^{9^{9}}}}",
            "\\boxed{" * 1000 + gold,
        )

    def _task(self, id: str, row: data.Row) -> Task:
        problem = text_field(row, PROBLEM)
        if problem is None:
            raise ValueError(f"{row.source}: none of the fields {', '.join(PROBLEM)} holds a text")
        metadata: dict[str, Any] = {
            "name": text_field(row, IDS) or "",
            "subject": text_field(row, SUBJECTS) or "",
            "source": row.source,
        }
        metadata |= {
            key: number for key in ("level", "year") if (number := _parse_integer(row.fields.get(key))) is not None
        }
        prompt = problem if self.style == "full" else f"{problem}\n{INSTRUCTION}"
        return Task(id, (user(prompt),), self.answer(row), metadata)


def text_field(row: data.Row, names: Sequence[str]) -> str | None:
    """Return the first of the fields `names` with a nonempty text or a finite number, as a text; None without one."""
    for name in names:
        value = row.fields.get(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
        if is_number or (isinstance(value, str) and value.strip()):
            return str(value).strip()
    return None


def gold_answer(row: data.Row) -> str | None:
    r"""Return the answer field, or else the content of the last `\boxed{}` of the solution.

    None if both are missing.
    """
    answer = text_field(row, ANSWER)
    in_boxes = list(boxes(answer if answer is not None else text_field(row, SOLUTION) or ""))
    return in_boxes[-1] if in_boxes else answer


def _is_training(row: data.Row) -> bool:
    return Path(row.source.rpartition(":")[0]).name.startswith("train")


def _digest(task: Task) -> int:
    return digest("val", task.prompt)


def _parse_integer(value: Any) -> int | None:
    """Return the first whole number in `value`: 5 for 5, "5" and "Level 5"; None if there is none."""
    match = re.search(r"[0-9]+", str(value))
    return int(match[0]) if match else None
