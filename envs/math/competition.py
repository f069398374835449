"""What the environments of competition problems share: rows of problem files, in any of the published spellings."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from envs import data
from envs.grading.declaration import boxes
from envs.math.single_answer import Answered
from envs.procedural import digest
from envs.types import Message, Task, assistant, text, user

INSTRUCTION = "End with \\boxed{the answer}"
PROBLEM, ANSWER, SOLUTION = ("problem", "question", "prompt"), ("answer", "expected_answer"), ("solution",)
NAMES = ("unique_id", "id", "problem_idx", "ID")
SUBJECTS = ("subject", "type", "category")
VAL = 10  # one training row in so many belongs to "val"


class Competition(Answered):
    """Problems from files, each answered by one reply.

    A subclass names the `folder` under the data root and says in `kept` which rows it wants. Files whose name begins
    with `train` give the splits "train" and "val"; all other files are "test", whole and in their order.
    """

    folder: ClassVar[str]
    leaks = "a problem may happen to name its answer"

    def __init__(self, *, data_root: str | None = None, **limits: Any) -> None:
        super().__init__(**limits)
        self.data_root = data_root

    @abstractmethod
    def answer(self, row: data.Row) -> str:
        """The row's gold answer. Raises ValueError where there is none."""

    def kept(self, fields: Mapping[str, Any]) -> bool:
        """Whether the environment's arguments ask for this row."""
        return True

    def tasks(self, split: str) -> Sequence[Task]:
        """The split's rows. Raises ValueError for a malformed one, MissingData where a split has no file."""
        pattern = f"{self.folder}/*.jsonl"
        rows = data.load_rows(pattern, (), data_root=self.data_root)
        rows = [row for row in rows if _is_training(row) == (split != "test")]
        if not rows:
            wanted = "train*.jsonl" if split != "test" else "other than train*.jsonl"
            raise data.MissingData(f"split {split!r} needs a file {wanted} in {self.folder}/ under the data root")
        made = [self._task(f"{split}/{number}", row) for number, row in enumerate(rows)]
        if split != "test":
            last = sorted(map(_digest, made))[max(1, len(made) // VAL) - 1]
            made = [task for task in made if (_digest(task) <= last) == (split == "val")]
        made = [task for task in made if self.kept(task.metadata)]
        if not made:
            raise ValueError(f"no row of {self.folder}/ in split {split!r} is of the kind that was asked for")
        return made

    def oracle(self) -> Iterator[Message]:
        """The gold answer in a box."""
        yield assistant(f"\\boxed{{{self.task.answer}}}")

    def random(self, rng: np.random.Generator) -> Message:
        """A whole number below 1 000 in a box."""
        return assistant(f"\\boxed{{{rng.integers(1000)}}}")

    def attacks(self) -> Sequence[str]:
        """Among others: every whole number, and the right answer beside another or taken back."""
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
        problem = field(row, PROBLEM)
        if problem is None:
            raise ValueError(f"{row.source}: none of the fields {', '.join(PROBLEM)} holds a text")
        about: dict[str, Any] = {
            "name": field(row, NAMES) or "",
            "subject": field(row, SUBJECTS) or "",
            "source": row.source,
        }
        about |= {key: number for key in ("level", "year") if (number := _whole(row.fields.get(key))) is not None}
        return Task(id, (user(f"{problem}\n{INSTRUCTION}"),), self.answer(row), about)


def field(row: data.Row, names: Sequence[str]) -> str | None:
    """The first of these fields that holds a text or a number, as a text."""
    for name in names:
        value = row.fields.get(name)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    return None


def stated_answer(row: data.Row) -> str | None:
    r"""The answer field, or else what the solution puts into its last box, without a box around it."""
    found = field(row, ANSWER)
    boxed = list(boxes(found if found is not None else field(row, SOLUTION) or ""))
    return boxed[-1] if boxed else found


def _is_training(row: data.Row) -> bool:
    return Path(row.source.rpartition(":")[0]).name.startswith("train")


def _digest(task: Task) -> int:
    return digest("val", task.prompt)


def _whole(value: Any) -> int | None:
    """`5` for 5, "5" and "Level 5"."""
    match = re.search(r"[0-9]+", str(value))
    return int(match[0]) if match else None
