"""Problems of other environments with a Python interpreter as a tool: run code, read its output, answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from envs import catalogue
from envs.env import Env
from envs.episodes.guide import Guide, count
from envs.math import python_attacks
from envs.procedural import digest
from envs.shared_sandbox import Lease, check_seconds
from envs.tools.interpreter import Interpreter
from envs.tools.python_tool import NAME, TOOLS, code_as_call, code_as_text, parse_code
from envs.tools.tool_calls import reply_text, result_messages
from envs.tools.toolbox import Toolbox
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, system, text, user

Kind = Literal["arithmetic", "countdown", "gsm8k"]
RULES = (
    "Solve the problem. You may run Python first: a reply with a ```python block, or with lines that begin with >, is "
    "run, and you are told what it prints. Names last from one call to the next. Calls allowed: {calls}. A reply "
    "without code is your final answer."
)
_CALCULATION = re.compile(r"<<([0-9+\-*/(). ]+)=")
_NO_CALLS_LEFT = "no calls left"
EXAMPLE = """```python
print(12 * 34)
```"""
# Sandboxes that accept a list of importable packages; they open the faster, the fewer packages there are.
PACKAGE_SANDBOXES = ("local", "docker")


class Source(NamedTuple):
    """An environment that provides tasks.

    Attributes:
        name: Id of the environment.
        arguments: Its default arguments.
        compute: Returns the code that the oracle runs for a task and its answer.
        compact: Whether spaces are removed from prompts, other than in full style.
    """

    name: str
    arguments: Mapping[str, Any]
    compute: Callable[[Task, str], str]
    compact: bool = False


def _expression(task: Task, answer: str) -> str:
    return _compact(text(task.prompt[0])).removesuffix("=?")


def _calculations(task: Task, answer: str) -> str:
    return "\n".join(map(_compact, _CALCULATION.findall(task.metadata["solution"]))) or task.answer


SOURCES = {
    "arithmetic": Source("math/Arithmetic-v0", {"level": 3}, _expression, compact=True),
    "countdown": Source("math/Countdown-v0", {}, lambda task, answer: answer),
    "gsm8k": Source("math/GSM8K-v0", {}, _calculations),
}


class Python(Env):
    """Solve the problems of another environment with a persistent Python interpreter as a tool.

    Observation: the problem, `417*6-283=?`; then the output of the code, `2219`, or the last line of its traceback,
    `NameError: name 'x' is not defined (line 1)`. Other texts: `no output`; `[cut]` after `output_chars` characters;
    `stopped (time), restarted` where a limit, or the code itself, ended the interpreter, so that all names are lost.
    In full style the instructions first, and the problem as the other environment words it.
    Action: code, or the final answer. Code is a fenced block marked as Python, or lines that begin with `>`, such as
    `>417*6-283`, or a call of the tool `python`; see `envs.tools.python_tool.parse_code`. Names persist for the
    episode. Any other reply is the answer. The other environment grades it, outside the interpreter.
    Tools: `python`, offered in `info["tools"]` in full style; the oracle then calls it as a tool.
    Reward: that of the answer; code earns nothing. A reply whose call fails is invalid.
    Metrics: `calls`, the number so far, and `failed`, how many calls failed or were malformed; with the answer, those
    of the other environment. With a library `known`, the number of its functions, and `reused`, how many of them the
    episode called.
    Episode end: terminated by an answer; truncated after `max_calls` replies with code and one more.
    Arguments: `task` is "arithmetic" (default; level 3, whose values a small model cannot compute itself), "countdown"
    or "gsm8k", and `level`, `size`, `top`, `every`, `rule`, `data_root` are those of `math/Arithmetic-v0`,
    `math/Countdown-v0` and `math/GSM8K-v0`. `max_calls`; `timeout_s`, CPU seconds of each; `output_chars`; `sandbox`, a
    name for `sandboxes.open`; `packages`, those that can be imported beside the standard library, `sympy,numpy`.
    `library`, a JSON file: functions that a successful episode on a training task defined are added to it and offered
    to later episodes, the most relevant first, in the prompt and in the interpreter (DynaSaur, arXiv:2411.01747). The
    file only grows, so `library_version=n`, its first n functions, repeats an episode whose `known` was n; without it,
    equal seeds give equal episodes only as long as the file does not change.
    State: the problem, the code that was run with its output, and the turns left.
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
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        if task not in SOURCES:
            raise ValueError(f"task {task!r} is not one of {', '.join(get_args(Kind))}")
        for name, value, least in (("max_calls", max_calls, 1), ("output_chars", output_chars, 10)):
            if type(value) is not int or value < least:
                raise ValueError(f"{name} {value!r} is no whole number from {least}")
        super().__init__(max_turns=max_calls + 1 if max_turns is None else max_turns, **limits)
        inner_arguments = {
            "level": level,
            "size": size,
            "top": top,
            "every": every,
            "rule": rule,
            "data_root": data_root,
        }
        source = SOURCES[task]
        arguments = {**source.arguments, "style": self.style}
        arguments |= {name: value for name, value in inner_arguments.items() if value is not None}
        self._kind = task
        self.inner = cast(Env, catalogue.make(source.name, **arguments).unwrapped)
        self.leaks = self.inner.leaks
        self.max_calls, self.tools = max_calls, TOOLS if self.style == "full" else ()
        self._lease = _lease_sandbox(sandbox, packages)
        self._interpreter = Interpreter(
            self._lease, timeout_s=check_seconds("timeout_s", timeout_s), max_chars=output_chars
        )
        self._toolbox = Toolbox(library, library_version) if library else None

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of the other environment."""
        return self.inner.load(split)

    def guide(self) -> Guide:
        """Say what is asked, how to run code, and how to answer."""
        inner = self.inner.guide()
        assert inner is not None, f"{SOURCES[self._kind].name} has no guide"
        return Guide(
            goal=f"{inner.goal} You may run Python code before you answer.",
            rules="\n\n".join(
                filter(
                    None,
                    (
                        inner.rules,
                        f"To run code, call the tool `{NAME}`, or reply with a block that begins with ```python and "
                        "ends with ```. You are then told what the code prints; the value of a last expression is "
                        "printed too. Names that you define last to the next call. You may run code at most "
                        f"{count(self.max_calls, 'time')}. A reply without code is your final answer.",
                        "Python functions that you may call are listed after the problem." * bool(self._toolbox),
                    ),
                )
            ),
            reply=f"For the final answer: {inner.reply} A final answer looks like this: `{inner.example}`.",
            thinking=inner.thinking,
            example=EXAMPLE,
            ending="The episode ends with your final answer.",
            invalid=f"Code that fails uses up a call. {inner.invalid}",
            heading=inner.heading,
        )

    def start(self) -> Messages:
        """Return the problem, with a library also the functions offered."""
        self.inner.reset(seed=0, options={"split": self.split, "index": self.index})
        self._calls = self._failures = 0
        self._completed_code: list[str] = []  # code that ran without an error
        self._trace = ""  # digest of all code and its output
        is_compact = SOURCES[self._kind].compact and self.style != "full"
        lines = [_compact(text(one)) if is_compact else text(one) for one in self.task.prompt]
        if self._toolbox:
            lines += self._toolbox.open(" ".join(lines))
        self._interpreter.begin(self._toolbox.sources if self._toolbox else ())
        problem = user("\n".join(lines))
        return (system(RULES.format(calls=self.max_calls)), problem) if self.style == "v1" else (problem,)

    def state(self) -> str:
        """Return the task, the size of the library, a digest of the code with its output, and the turns left."""
        library = f" knows {self._toolbox.size}" if self._toolbox else ""
        return f"{self.task.id}{library} ran {self._trace or '-'} left {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Run the code of the reply, or have its answer graded by the other environment."""
        try:
            code = parse_code(action)
        except ToolError as error:
            self._failures += 1
            return self._tool_outcome(action, self.correction(f"error: {error}", short=f"error: {error}"), ok=False)
        if code is None:
            return self._grade(assistant(reply_text(action)))
        if self._calls >= self.max_calls:
            fault = f"Your code was not run: you have made {self.max_calls} calls, and there are no more."
            return self._tool_outcome(action, fault if self.style == "full" else _NO_CALLS_LEFT, ok=False)
        self._calls += 1
        result = self._interpreter.run(code)
        self._failures += not result.ok
        self._completed_code += [code] if result.ok else []
        lines = [line.rstrip() for line in code.splitlines() if line.strip()]
        self._trace = f"{digest(self._trace, lines, result.text):x}"
        return self._tool_outcome(action, result.text, ok=result.ok)

    def vote(self, action: Message) -> Hashable | None:
        """Return what the answer votes for in the other environment; None for a reply with code."""
        try:
            answer = assistant(reply_text(action)) if parse_code(action) is None else None
        except ToolError:
            return None
        inner_vote = getattr(self.inner, "vote", None)
        if answer is None or inner_vote is None:
            return text(answer) if answer else None
        return inner_vote(answer)

    def oracle(self) -> Iterator[Message]:
        """Yield the code that computes the answer, then the answer."""
        answer = self._oracle_answer()
        code = SOURCES[self._kind].compute(self.task, text(answer))
        yield code_as_call(code, self.turns) if self.tools else code_as_text(code)
        yield answer

    def random(self, rng: np.random.Generator) -> Message:
        """Return code for a random product, or a random answer."""
        if rng.random() < 0.5:
            return code_as_text(f"{rng.integers(1000)}*{rng.integers(1000)}")
        return self.inner.random(rng)

    def attacks(self) -> Sequence[str]:
        """Return the other environment's attacks, and code that searches for the answer or breaks the interpreter."""
        return (*self.inner.attacks(), *python_attacks.attack_replies(text(self._oracle_answer())))

    def close(self) -> None:
        """Close the interpreter and release the sandbox."""
        self._interpreter.close()
        self._lease.close()
        self.inner.close()

    def _oracle_answer(self) -> Message:
        return next(iter(self.inner.oracle()))

    def _tool_outcome(self, action: Message, output: str, *, ok: bool) -> Outcome:
        if self.turns + 1 >= self.max_turns:  # the episode ends here
            self._interpreter.close()
        return Outcome(result_messages(action, output), valid=ok, metrics=self._metrics())

    def _grade(self, answer: Message) -> Outcome:
        self._interpreter.close()
        _, reward, _, _, info = self.inner.step(answer)
        if self._toolbox and info["success"] and self.split == "train":
            self._toolbox.add_functions(self._completed_code, self._can_define)
        return Outcome(
            reward=reward,
            terminated=True,
            success=info["success"],
            valid=info["valid"],
            rewards=info["rewards"],
            metrics={**self._metrics(), **info["metrics"]},
        )

    def _can_define(self, source: str) -> bool:
        return self._lease.sandbox.run(source, timeout_s=5.0).ok

    def _metrics(self) -> dict[str, float]:
        metrics: dict[str, float] = {"calls": self._calls, "failed": self._failures}
        if self._toolbox:
            metrics |= {"known": self._toolbox.size, "reused": self._toolbox.count_reused(self._completed_code)}
        return metrics


def _lease_sandbox(sandbox: str, packages: str) -> Lease:
    if sandbox.partition(":")[0] in PACKAGE_SANDBOXES:
        return Lease(sandbox, {"packages": tuple(packages.replace(",", " ").split())})
    if packages:
        raise ValueError(f"packages {packages!r}: the sandbox {sandbox!r} has packages of its own")
    return Lease(sandbox)


def _compact(problem: str) -> str:
    return problem.replace(" ", "")
