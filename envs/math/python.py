"""Reasoning with a Python interpreter at hand: run code, read what it prints, answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from envs import catalogue
from envs.env import Env
from envs.math import python_frauds
from envs.procedural import digest
from envs.shared_sandbox import Lease, check_seconds
from envs.tools.interpreter import Interpreter
from envs.tools.python_tool import TOOLS, code_as_call, code_as_text, parse_code
from envs.tools.tool_calls import reply_text, result_messages
from envs.tools.toolbox import Toolbox
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, system, text, user

Kind = Literal["arithmetic", "countdown", "gsm8k"]
RULES = (
    "Solve the problem. You may run Python first: a reply with a ```python block, or with lines that begin with >, is "
    "run, and you are told what it prints. Names last from one call to the next. Calls allowed: {calls}. A reply "
    "without code is your final answer."
)
_CALCULATED = re.compile(r"<<([0-9+\-*/(). ]+)=")
_REFUSED = "no calls left"
PACKED = ("local", "docker")  # sandboxes that can be told what is importable; the less there is, the sooner they open


class Source(NamedTuple):
    """An environment whose tasks are given: its name, its arguments unless told otherwise, what an expert computes.

    `compute` takes a task and its right answer. `compact` prompts are shown without their spaces. `worded` holds the
    arguments that ask for prompts in words.
    """

    name: str
    arguments: Mapping[str, Any]
    compute: Callable[[Task, str], str]
    compact: bool = False
    worded: Mapping[str, Any] = MappingProxyType({})


def _expression(task: Task, answer: str) -> str:
    return _compact(text(task.prompt[0])).removesuffix("=?")


def _calculations(task: Task, answer: str) -> str:
    return "\n".join(map(_compact, _CALCULATED.findall(task.metadata["solution"]))) or task.answer


SOURCES = {
    "arithmetic": Source("math/Arithmetic-v0", {"level": 3}, _expression, compact=True),
    "countdown": Source("math/Countdown-v0", {}, lambda task, answer: answer, worded={"words": True}),
    "gsm8k": Source("math/GSM8K-v0", {}, _calculations),
}


class Python(Env):
    """Solve the problems of another environment with a live Python interpreter at hand.

    Observation: the problem, `417*6-283=?`; then what code printed, `2219`, or the last line of its traceback,
    `NameError: name 'x' is not defined (line 1)`. Other words: `no output`; `[cut]` after `output_chars` characters;
    `stopped (time), restarted` where a limit, or the code itself, ended the interpreter, with all its names. With
    `words` the rules as a system message, and the problem in words where there are any.
    Action: code, or the final answer. Code is a fenced block marked as Python, or lines that begin with `>`, such as
    `>417*6-283`, or a call of the tool `python`; see `envs.tools.python_tool.parse_code`. Names last for the
    episode. Any other reply is the answer, and is graded as the other environment grades it, never inside the interpreter.
    Tools: `python`, named in `info["tools"]` with `tools=True`; the oracle calls it then.
    Reward: that of the answer; code earns nothing. A failed call is no valid reply.
    Metrics: `calls` so far, and `failed`, how many of them failed or could not be made; with the answer, those of the
    other environment. With a library `known`, the functions in it, and `reused`, those of them that the episode called.
    Episode end: terminated by an answer; truncated after `max_calls` replies with code and one more.
    Arguments: `task` is "arithmetic" (default; level 3, whose values no small model knows), "countdown" or "gsm8k", and
    `level`, `size`, `top`, `every`, `rule`, `data_root` are those of `math/Arithmetic-v0`, `math/Countdown-v0` and
    `math/GSM8K-v0`. `max_calls`; `timeout_s`, seconds of CPU for each; `output_chars`; `sandbox`, a name for
    `sandboxes.open`; `packages`, what can be imported beside the standard library, `sympy,numpy`.
    `library`, a JSON file: functions that an episode on a training task defined and was paid for are kept there and
    offered to later episodes, the fitting ones first, in the prompt and in the interpreter (DynaSaur,
    arXiv:2411.01747). The file only ever grows, so `library_version=n`, its first n functions, repeats what an episode
    saw whose `known` was n; without it, equal seeds give equal episodes only while the file stays as it is.
    State: the problem, the code that was run with what it printed, and the turns left.
    Splits: those of the other environment.
    Source and licence: ReTool (arXiv:2504.11536); the tasks' own. Version history: v0.
    """

    blocking = True

    def __init__(
        self,
        *,
        task: Kind = "arithmetic",
        level: int | None = None,
        size: int | None = None,
        top: int | None = None,
        every: bool | None = None,
        rule: str | None = None,
        data_root: str | None = None,
        max_calls: int = 2,
        timeout_s: float = 2.0,
        output_chars: int = 200,
        sandbox: str = "local",
        packages: str = "",
        library: str = "",
        library_version: int | None = None,
        words: bool = False,
        tools: bool = False,
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        if task not in SOURCES:
            raise ValueError(f"task {task!r} is not one of {', '.join(get_args(Kind))}")
        for name, value, least in (("max_calls", max_calls, 1), ("output_chars", output_chars, 10)):
            if type(value) is not int or value < least:
                raise ValueError(f"{name} {value!r} is no whole number from {least}")
        super().__init__(max_turns=max_calls + 1 if max_turns is None else max_turns, **limits)
        given = {"level": level, "size": size, "top": top, "every": every, "rule": rule, "data_root": data_root}
        source = SOURCES[task]
        chosen = {**source.arguments, **(source.worded if words else {})}
        chosen |= {name: value for name, value in given.items() if value is not None}
        self._kind = task
        self.inner = cast(Env, catalogue.make(source.name, **chosen).unwrapped)
        self.leaks = self.inner.leaks
        self.max_calls, self.words, self.tools = max_calls, bool(words), TOOLS if tools else ()
        self._lease = _leased(sandbox, packages)
        self._interpreter = Interpreter(
            self._lease, timeout_s=check_seconds("timeout_s", timeout_s), max_chars=output_chars
        )
        self._toolbox = Toolbox(library, library_version) if library else None

    def tasks(self, split: str) -> Sequence[Task]:
        """Those of the other environment."""
        return self.inner.load(split)

    def start(self) -> Messages:
        """Show the problem, and the functions that may help."""
        self.inner.reset(seed=0, options={"split": self.split, "index": self.index})
        self._calls = self._failed = 0
        self._done: list[str] = []  # code that came to its end
        self._trace = ""  # all code and what was said to it, digested
        shown = [_compact(text(one)) if SOURCES[self._kind].compact else text(one) for one in self.task.prompt]
        if self._toolbox:
            shown += self._toolbox.open(" ".join(shown))
        self._interpreter.begin(self._toolbox.sources if self._toolbox else ())
        problem = user("\n".join(shown))
        return (system(RULES.format(calls=self.max_calls)), problem) if self.words else (problem,)

    def state(self) -> str:
        """The code so far and what came of it, what a library offered, and the turns left."""
        known = f" knows {self._toolbox.size}" if self._toolbox else ""
        return f"{self.task.id}{known} ran {self._trace or '-'} left {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Run the code, or have the answer graded."""
        try:
            code = parse_code(action)
        except ToolError as error:
            self._failed += 1
            return self._told(action, f"error: {error}", ok=False)
        if code is None:
            return self._graded(assistant(reply_text(action)))
        if self._calls >= self.max_calls:
            return self._told(action, _REFUSED, ok=False)
        self._calls += 1
        ran = self._interpreter.run(code)
        self._failed += not ran.ok
        self._done += [code] if ran.ok else []
        lines = [line.rstrip() for line in code.splitlines() if line.strip()]
        self._trace = f"{digest(self._trace, lines, ran.text):x}"
        return self._told(action, ran.text, ok=ran.ok)

    def vote(self, action: Message) -> Hashable | None:
        """What the answer votes for."""
        try:
            answer = assistant(reply_text(action)) if parse_code(action) is None else None
        except ToolError:
            return None
        own = getattr(self.inner, "vote", None)
        if answer is None or own is None:
            return text(answer) if answer else None
        return own(answer)

    def oracle(self) -> Iterator[Message]:
        """Compute, then answer."""
        answer = self._right()
        code = SOURCES[self._kind].compute(self.task, text(answer))
        yield code_as_call(code, self.turns) if self.tools else code_as_text(code)
        yield answer

    def random(self, rng: np.random.Generator) -> Message:
        """A random product, or an answer by chance."""
        if rng.random() < 0.5:
            return code_as_text(f"{rng.integers(1000)}*{rng.integers(1000)}")
        return self.inner.random(rng)

    def attacks(self) -> Sequence[str]:
        """Those on the other environment, and code that looks for the answer, claims it, or breaks its interpreter."""
        return (*self.inner.attacks(), *python_frauds.replies(text(self._right())))

    def close(self) -> None:
        """End the interpreter, and give the sandbox back."""
        self._interpreter.close()
        self._lease.close()
        self.inner.close()

    def _right(self) -> Message:
        return next(iter(self.inner.oracle()))

    def _told(self, action: Message, said: str, *, ok: bool) -> Outcome:
        if self.turns + 1 >= self.max_turns:  # the episode ends here
            self._interpreter.close()
        return Outcome(result_messages(action, said), valid=ok, metrics=self._metrics())

    def _graded(self, answer: Message) -> Outcome:
        self._interpreter.close()
        _, reward, _, _, info = self.inner.step(answer)
        if self._toolbox and info["success"] and self.split == "train":
            self._toolbox.add_functions(self._done, self._loads)
        return Outcome(
            reward=reward,
            terminated=True,
            success=info["success"],
            valid=info["valid"],
            rewards=info["rewards"],
            metrics={**self._metrics(), **info["metrics"]},
        )

    def _loads(self, source: str) -> bool:
        return self._lease.sandbox.run(source, timeout_s=5.0).ok

    def _metrics(self) -> dict[str, float]:
        told: dict[str, float] = {"calls": self._calls, "failed": self._failed}
        if self._toolbox:
            told |= {"known": self._toolbox.size, "reused": self._toolbox.count_reused(self._done)}
        return told


def _leased(sandbox: str, packages: str) -> Lease:
    if sandbox.partition(":")[0] in PACKED:
        return Lease(sandbox, {"packages": tuple(packages.replace(",", " ").split())})
    if packages:
        raise ValueError(f"packages {packages!r}: the sandbox {sandbox!r} has packages of its own")
    return Lease(sandbox)


def _compact(problem: str) -> str:
    return problem.replace(" ", "")
