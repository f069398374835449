"""GSM8K: grade-school word problems with a whole number as the answer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from envs import data
from envs.env import Env
from envs.episodes.guide import Guide
from envs.grading.math import RULES, Rule, official_answer, verify
from envs.grading.number import parse_number
from envs.grading.symbolic import workers
from envs.math.vote import vote
from envs.types import Message, Outcome, Task, assistant, final_text, user

REVISION = "cc7b047b6e5bb11b4f1af84efc572db110a51b3c"
INSTRUCTION = "End with #### <number>"
# A number behind #### that nothing continues: no digits, fraction, power, operator, range or second number behind it.
_WHOLE_ANSWER = re.compile(
    r"-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+|(?=\.))(?:\.[0-9]+)?"
    r"(?!['\u2019_]?[0-9]|[.,]\s*[0-9]|\s+[0-9]|[eE][-+]?[0-9]|\s*[\u00bc-\u00be\u2150-\u215e\u2044\u00b2\u00b3\u2070-\u2079\u03c0^\u221a]"
    r"|\s*(?:[-+*/:x\u00d7\u00f7\u00b7\u22c5\u2010-\u2015\u2212])\s*[0-9\u00bc-\u00be]|\s*(?:and|or|to)\b)"
)
_CALCULATOR_NOTE = re.compile(r"<<[^<>\n]*>>")


class GSM8K(Env):
    r"""Solve a word problem.

    Observation: the question and the line `End with #### <number>`, one user message; in full style the instructions
    and the question.
    Action: a solution whose declared answer is graded by `envs.grading.math.verify`.
    Reward: 1 if the answer is right under `rule`, else 0. "strict" is the official rule (first `#### <number>`, equal
    as a string), "flexible" (default) also accepts boxes and sentences and compares values.
    Metrics: `strict` and `flexible`, the verdicts of both rules, whichever gives the reward.
    Episode end: after the first reply.
    Arguments: `data_root`, the folder that holds `gsm8k/{train,test}*.jsonl`, else TURNWISE_DATA, else the hub. The
    gold answers are plain numbers, and the replies' must be, too; with `symbolic=True`, which needs the extra `math`,
    math-verify also evaluates formulas such as `\boxed{20-2}`.
    Splits: "test" is the data set's; "val" is a tenth of its "train", the rows whose questions have the smallest
    digests, independent of their order; "train" is the rest.
    Source and licence: openai/gsm8k (Cobbe et al. 2021, arXiv:2110.14168), MIT. Version history: v0.
    """

    leaks = "a word problem may happen to name the number that answers it"

    def __init__(
        self, *, data_root: str | None = None, rule: Rule = "flexible", symbolic: bool = False, **limits: Any
    ) -> None:
        super().__init__(**limits)
        if rule not in RULES:
            raise ValueError(f"rule {rule!r} is not one of {', '.join(RULES)}")
        self.data_root, self.rule, self.symbolic = data_root, rule, bool(symbolic)
        self.blocking = self.symbolic
        self._uses_workers = self.symbolic
        if self._uses_workers:
            workers().open()

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the rows of the split. Raises ValueError, with file and line, for a malformed row."""
        source = "test" if split == "test" else "train"
        hub = data.Hub("openai/gsm8k", "main", source, REVISION)
        rows = data.load_rows(f"gsm8k/{source}*.jsonl", ("question", "answer"), data_root=self.data_root, hub=hub)
        if split != "test":
            rows = _split_validation(rows, val=split == "val")
        instruction = "" if self.style == "full" else f"\n{INSTRUCTION}"
        return [_task(f"{split}/{i}", row, instruction) for i, row in enumerate(rows)]

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        return Guide(
            goal="Solve a word problem. You succeed if your number is right.",
            reply="Reply with the number after `####`, without a unit.",
            thinking="You may think first; the last line of your reply must be `####` and the number, nothing else.",
            example="#### 98765",
            invalid="A reply that states no number, or several, counts as wrong.",
            heading="The problem:",
        )

    def reply(self, action: Message) -> Outcome:
        """Grade the reply and end the episode. A reply that declares no answer, or several, is invalid."""
        verdict = verify(final_text(action), self.task.answer, rule=self.rule, symbolic=self.symbolic)
        return Outcome(
            reward=float(verdict.correct),
            terminated=True,
            success=verdict.correct,
            valid=verdict.method not in ("none", "unclear"),
            metrics={"strict": verdict.strict, "flexible": verdict.flexible},
        )

    def vote(self, action: Message) -> Hashable | None:
        """Return the answer that the reply declares; None if it declares none."""
        return vote(final_text(action))

    def oracle(self) -> Iterator[Message]:
        """Yield the data set's solution without its calculator notes; it ends in `#### <number>`."""
        yield assistant(_CALCULATOR_NOTE.sub("", self.task.metadata["solution"]))

    def random(self, rng: np.random.Generator) -> Message:
        """Return a number below 1 000 in the right form."""
        return assistant(f"#### {rng.integers(1000)}")

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are the right number among wrong ones, negated, or in full-width digits.
        """
        gold = self.task.answer
        near = ", ".join(str(int(parse_number(gold) or 0) + i) for i in range(-3, 4))
        wide = "".join(chr(ord(digit) + 0xFEE0) if digit.isdigit() else digit for digit in gold)
        return (
            *super().attacks(),
            self.task.prompt[0]["content"],
            near,
            f"#### {gold}1\n#### {gold}",
            f"\\boxed{{{near}}}",
            f"\\boxed{{{gold}1}} \\boxed{{{gold}}}",
            f"The answer is not {gold}.",
            f"\\boxed{{{wide}}}",
            f"\\boxed{{{gold}9^{{9^{{9}}}}}}",
        )

    def close(self) -> None:
        """Stop the worker processes, if this was the last environment that uses them."""
        if self._uses_workers:
            self._uses_workers = False
            workers().close()


def _split_validation(rows: list[data.Row], *, val: bool) -> list[data.Row]:
    """Return the tenth of `rows` with the smallest digests of their questions, or the other rows, in their order."""

    def digest(row: data.Row) -> str:
        return hashlib.sha256(f"math/GSM8K-v0 val {row.fields['question']}".encode()).hexdigest()

    largest_digest = sorted(map(digest, rows))[max(1, len(rows) // 10) - 1]
    return [row for row in rows if (digest(row) <= largest_digest) == val]


def _task(name: str, row: data.Row, instruction: str) -> Task:
    solution = row.fields["answer"]
    gold = official_answer(solution)
    if gold is None or parse_number(gold) is None:
        raise ValueError(f"{row.source}: the answer does not end in '#### <number>'")
    end = solution.partition("####")[2].strip()
    if not _WHOLE_ANSWER.match(end):  # otherwise 1 would be the answer of a row that ends in #### 1/2
        raise ValueError(f"{row.source}: the answer ends in '#### {end[:40]}', of which only a part would be read")
    prompt = (user(f"{row.fields['question'].strip()}{instruction}"),)
    return Task(name, prompt, gold, {"solution": solution, "source": row.source})
