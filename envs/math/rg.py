"""Problems of a task of the package reasoning-gym."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from envs.env import Env
from envs.episodes.guide import Guide
from envs.grading.doubts import denies_mark
from envs.grading.lines import MAX_REPLY, answer_line
from envs.grading.workers import OverLimit, WorkerPool
from envs.math import reasoning
from envs.procedural import LazyTasks, digest
from envs.suggestions import unknown_message
from envs.types import Message, Outcome, Task, assistant, final_text, text, user
from sandboxes.extras import install_command

LENGTHS = {"train": 20_000, "val": 50, "test": 50}
INSTRUCTION = "Put the final answer between <answer> and </answer>."
MAKE_S, SCORE_S = 60.0, 5.0  # limits of CPU seconds for generating a problem and for scoring an answer
_REASONING = re.compile(r"[A-Za-z]{2}[.!?:]\s*$")
_CERTAINTY = re.compile(  # words that deny a doubt, and nothing of the answer
    r"\b(?:no|without|beyond)\s+(?:(?:a|any|all)\s+)?(?:(?:reasonable|shadow\s+of\s+a)\s+)?(?:doubt|question)\b|"
    r"\bno\s+(?:reason|cause|need)\s+to\s+doubt\b|\b(?:do\s+not|cannot|(?:do|ca)n['’]t)\s+doubt\b|"
    r"\b(?:no|none)\s+other\s+than\b|\bnot\s+surprisingly\b",
    re.IGNORECASE,
)
MAX_ATTEMPTS = 200  # seeds tried for a problem whose question is new


class RG(Env):
    """Solve a problem of one of reasoning-gym's tasks.

    Observation: the package's question and a line that asks for `<answer> </answer>`, one user message; in full style
    the instructions and the question.
    Action: the answer in these tags, or as the whole reply. Emphasis, a code fence, LaTeX signs and quotation marks
    around all of it are no part of it.
    Reward: 1 if the answer is right, else 0. It is right if it is the stored answer or the same number, or, for tasks
    with several right answers or notations of one, if the package's own scorer gives it exactly 1.0
    (`envs.math.reasoning` says which answers the scorer gets).
    Episode end: after the first reply.
    Arguments: `name` of the task, such as `chain_sum`; `level`, a level of the package's curriculum for it, else its
    defaults; `config`, more of its arguments, as an object: `config={"min_digits":1}`. Tasks whose answers cannot be
    trusted are excluded (`envs.math.reasoning.UNTRUSTED_TASKS`).
    Needs the extra `math`. The package runs in a separate process.
    Source and licence: reasoning-gym (Stojanovski et al. 2025, arXiv:2505.24760), Apache-2.0. Version history: v0.
    """

    blocking = True
    leaks = "an answer may be a part of its question, such as a word or a number to pick from it"

    def __init__(
        self,
        *,
        name: str = "chain_sum",
        level: int | None = None,
        config: Mapping[str, Any] | None = None,
        **limits: Any,
    ) -> None:
        super().__init__(**limits)
        if name in reasoning.UNTRUSTED_TASKS:
            raise ValueError(f"name {name!r} is left out: {reasoning.UNTRUSTED_TASKS[name]}")
        if level is not None and (isinstance(level, bool) or level < 0):
            raise ValueError(f"level {level!r} is not one of 0, 1, 2, ...")
        if config is not None and not isinstance(config, Mapping):
            raise ValueError(f'config {config!r} is no object such as {{"min_digits":1}}')
        if {"seed", "size"} & (config or {}).keys():
            raise ValueError(f"config {json.dumps(config)} may not set seed or size: the split does")
        self.name, self.level, self.config = name, level, dict(config or {})
        self._uses_workers = True
        _workers().open()

    def tasks(self, split: str) -> Sequence[Task]:
        """Return problems by seed. No question is in two splits, or twice in "val" or "test".

        Raises ImportError if reasoning-gym is not installed, ValueError if it has no task `name`.
        """
        if not find_spec("reasoning_gym"):
            raise ImportError(f"math/RG-v0 needs reasoning-gym: {install_command('math')}")
        names = _workers().call("names", deadline_s=MAKE_S)
        if self.name not in names:
            raise ValueError(unknown_message("name", self.name, names, of="math/RG-v0"))
        if split == "train":
            other_questions = {_question_text(task) for side in ("val", "test") for task in self.load(side)}
            return LazyTasks(split, LENGTHS[split], lambda number: self._new_task(split, number, other_questions))
        other_questions = set() if split == "test" else {_question_text(task) for task in self.load("test")}
        tasks = []
        for number in range(LENGTHS[split]):
            tasks.append(self._new_task(split, number, other_questions))
            other_questions.add(_question_text(tasks[-1]))
        return tasks

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        return Guide(
            goal="Solve a problem. You succeed if your answer is right.",
            reply="Reply with the answer between <answer> and </answer>, in the form that the problem asks for.",
            thinking="You may think first; use the tags only once, around the final answer.",
            example="<answer>98765</answer>",
            invalid="A reply with several pairs of tags, or an empty one, counts as wrong.",
            heading="The problem:",
        )

    def reply(self, action: Message) -> Outcome:
        """Compare the answer with the stored one.

        Use the package's scorer only for tasks with several right answers, or notations of one.
        """
        reply_text = _reply_text(final_text(action))
        if reply_text is None or not (reply_text or self.task.answer == ""):
            return Outcome(terminated=True, valid=False)
        right = reasoning.is_same_answer(self.name, self.task.answer, reply_text)
        scorable_text = None if right else reasoning.scorable_text(self.name, reply_text)
        if scorable_text is not None:
            try:
                seed = self.task.metadata["seed"]
                right = self._call("score", seed, scorable_text, deadline_s=SCORE_S) == 1.0
            except OverLimit:
                right = False
        return Outcome(reward=float(right), terminated=True, success=right)

    def oracle(self) -> Iterator[Message]:
        """Yield the stored answer."""
        yield assistant(f"<answer>{self.task.answer}</answer>")

    def random(self, rng: np.random.Generator) -> Message:
        """Return a whole number below 1 000."""
        return assistant(f"<answer>{rng.integers(1000)}</answer>")

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are the answer among other words, twice, or beside another, and special values.
        """
        gold = self.task.answer
        other = 8 if "7" in gold else 7
        return (
            *super().attacks(),
            text(self.task.prompt[0]),
            f"I am sure that the answer is {gold}, and nothing else",
            f"<answer>not {gold}</answer>",
            f"<answer>{gold} or {other}</answer>",
            f"<answer>{other}, {gold}</answer>",
            f"<answer>{gold}\n{gold or other}</answer>",
            f"<answer>{other}</answer><answer>{gold}</answer>",
            f"<answer>{gold}</answer><answer>no</answer>",
            *(f"<answer>{value}</answer>" for value in ("nan", "inf", "None", "[]", "{}", "1e999", "9**9**9")),
            f"<answer>{'(' * 5000}</answer>",
            "<answer>__import__('os')._exit(0)</answer>",
        )

    def close(self) -> None:
        """Stop the worker processes, if this was the last environment that uses them."""
        if self._uses_workers:
            self._uses_workers = False
            _workers().close()

    def _new_task(self, split: str, number: int, other_questions: set[str]) -> Task:
        """Return the problem of the first seed for this index whose question is not in `other_questions`.

        Raises ValueError if the package refuses the arguments or has too few different questions.
        """
        for attempt in range(MAX_ATTEMPTS):
            seed = digest("math/RG-v0", self.name, split, number, attempt) >> 33
            entry = self._call("make", seed, deadline_s=MAKE_S)
            if "refused" in entry:
                identity = f"name={self.name} level={self.level} config={json.dumps(self.config)}"
                raise ValueError(f"math/RG-v0 {identity}: {entry['refused']}")
            instruction = "" if self.style == "full" else f"\n{INSTRUCTION}"
            prompt = (user(f"{entry['question']}{instruction}"),)
            task = Task(f"{split}/{number}", prompt, entry["answer"], {"seed": seed})
            if _question_text(task) not in other_questions:
                return task
        raise ValueError(f"math/RG-v0: {self.name} with config={self.config} has too few different questions")

    def _call(self, function: str, seed: int, *arguments: Any, deadline_s: float) -> Any:
        return _workers().call(function, self.name, self.level, self.config, seed, *arguments, deadline_s=deadline_s)


def _reply_text(reply: str) -> str | None:
    """Return the text between the only pair of tags, or a reply without tags; None for malformed or repeated tags.

    Tags on the last line count alone, and so does a last line after a sentence in a reply without tags. Tags that the
    words beside them deny are no answer, and neither is an empty reply.
    """
    line = answer_line(reply)
    plain_line = line.strip("*_` ")
    if len(reply) > MAX_REPLY or (plain_line.startswith("<answer>") and plain_line.endswith("</answer>")):
        reply = line
    parts = reply.split("<answer>")
    if len(parts) == 1:
        reply = reply.strip()
        return (line if line and _REASONING.search(reply.removesuffix(line)) else reply) or None
    inside, closing, after = parts[-1].partition("</answer>")
    is_only_pair = len(parts) == 2 and closing and "</answer>" not in after
    return inside.strip() if is_only_pair and not denies_mark(_CERTAINTY.sub(" ", parts[0]), after) else None


def _question_text(task: Task) -> str:
    return text(task.prompt[0])


@cache
def _workers() -> WorkerPool:
    return WorkerPool("envs.math.reasoning:load")
