"""Problems of the package reasoning-gym, one of its tasks at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from envs.env import Env
from envs.grading.workers import OverLimit, WorkerPool
from envs.math import reasoning
from envs.procedural import LazyTasks, digest
from envs.suggestions import unknown_message
from envs.types import Message, Outcome, Task, assistant, final_text, text, user

LENGTHS = {"train": 20_000, "val": 50, "test": 50}
INSTRUCTION = "Put the final answer between <answer> and </answer>."
MAKE_S, SCORE_S = 60.0, 5.0  # CPU seconds for one problem and for one answer
PATIENCE = 200  # problems in a row that may be ones already taken


class RG(Env):
    """Solve a problem of one of reasoning-gym's tasks.

    Observation: the package's question and a line that asks for `<answer> </answer>`, one user message.
    Action: the answer in these tags, or as the whole reply.
    Reward: 1 if the answer is right, else 0: it is the stored one or the same number, or, for tasks that several
    answers solve, the package's own scorer gives it exactly 1.0 (`envs.math.reasoning` says what it gets to see).
    Episode end: after the first reply.
    Arguments: `name` of the task, such as `chain_sum`; `level`, a level of the package's curriculum for it, else its
    defaults; `config`, more of its arguments, as an object: `config={"min_digits":1}`. Tasks whose answers cannot be
    trusted are left out (`envs.math.reasoning.SKIPPED`).
    Needs the extra `math`. The package runs in a process of its own.
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
        if name in reasoning.SKIPPED:
            raise ValueError(f"name {name!r} is left out: {reasoning.SKIPPED[name]}")
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
        """Problems by seed. No question stands in two splits, none twice in "val" or "test"."""
        if not find_spec("reasoning_gym"):
            raise ImportError("math/RG-v0 needs reasoning-gym: pip install 'turnwise-rl[math]'")
        names = _workers().call("names", deadline_s=MAKE_S)
        if self.name not in names:
            raise ValueError(unknown_message("name", self.name, names, of="math/RG-v0"))
        if split == "train":
            held = {_asked(task) for side in ("val", "test") for task in self.load(side)}
            return LazyTasks(split, LENGTHS[split], lambda number: self._fresh(split, number, held))
        held = set() if split == "test" else {_asked(task) for task in self.load("test")}
        made = []
        for number in range(LENGTHS[split]):
            made.append(self._fresh(split, number, held))
            held.add(_asked(made[-1]))
        return made

    def reply(self, action: Message) -> Outcome:
        """Compare with the stored answer; ask the scorer only where that may help."""
        said = _said(final_text(action))
        if not said:
            return Outcome(terminated=True, valid=False)
        right = reasoning.same(self.name, self.task.answer, said)
        if not right and reasoning.asks(self.name, said):
            try:
                seed = self.task.metadata["seed"]
                right = self._call("score", seed, said, deadline_s=SCORE_S) == 1.0
            except OverLimit:
                right = False
        return Outcome(reward=float(right), terminated=True, success=right)

    def oracle(self) -> Iterator[Message]:
        """The stored answer."""
        yield assistant(f"<answer>{self.task.answer}</answer>")

    def random(self, rng: np.random.Generator) -> Message:
        """A whole number below 1 000."""
        return assistant(f"<answer>{rng.integers(1000)}</answer>")

    def attacks(self) -> Sequence[str]:
        """Among others: the answer among other words, twice, or beside another; values that equal everything."""
        gold = self.task.answer
        return (
            *super().attacks(),
            text(self.task.prompt[0]),
            f"I am sure that the answer is {gold}, and nothing else",
            f"<answer>not {gold}</answer>",
            f"<answer>{gold} or 7</answer>",
            f"<answer>7, {gold}</answer>",
            f"<answer>{gold}\n{gold}</answer>",
            f"<answer>7</answer><answer>{gold}</answer>",
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

    def _fresh(self, split: str, number: int, held: set[str]) -> Task:
        """The first problem of the seeds of this place whose question is not in `held`."""
        for attempt in range(PATIENCE):
            seed = digest("math/RG-v0", self.name, split, number, attempt) >> 33
            made = self._call("make", seed, deadline_s=MAKE_S)
            if "refused" in made:
                given = f"name={self.name} level={self.level} config={json.dumps(self.config)}"
                raise ValueError(f"math/RG-v0 {given}: {made['refused']}")
            prompt = (user(f"{made['question']}\n{INSTRUCTION}"),)
            task = Task(f"{split}/{number}", prompt, made["answer"], {"seed": seed})
            if _asked(task) not in held:
                return task
        raise ValueError(f"math/RG-v0: {self.name} with config={self.config} has too few different questions")

    def _call(self, what: str, seed: int, *more: Any, deadline_s: float) -> Any:
        return _workers().call(what, self.name, self.level, self.config, seed, *more, deadline_s=deadline_s)


def _said(reply: str) -> str:
    """What stands between the tags of the only pair, or else the whole reply; "" where tags are amiss."""
    parts = reply.split("<answer>")
    if len(parts) == 1:
        return reply.strip()
    inside, closing, after = parts[-1].partition("</answer>")
    return inside.strip() if len(parts) == 2 and closing and "</answer>" not in after else ""


def _asked(task: Task) -> str:
    return text(task.prompt[0])


@cache
def _workers() -> WorkerPool:
    return WorkerPool("envs.math.reasoning:load")
