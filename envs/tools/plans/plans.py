"""Write one whole plan of tool calls for a request, as JSON or as code."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from envs.env import Env
from envs.episodes.guide import Guide
from envs.tools.plans.plan import Reference, Step, execute, parse_code_plan, parse_json_plan, plan_steps, verify
from envs.tools.plans.plan_tasks import MAX_CHAIN, chain_tasks, file_rows, rows_of_split
from envs.tools.plans.plan_tools import PLAN_TOOLS
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, final_text, user

Form = Literal["json", "code"]
PARTS = ("output", "tool_f1", "argument_f1", "pass")


class Plans(Env):
    """Write one whole plan of tool calls for a request; it is verified, carried out and compared.

    Observation: the request; after a plan that fails, what was wrong with it.
    Action: a plan at the end of the reply. With `form=json` a JSON list of `{"id": 0, "name": ..., "args": {...}}`, in
    which the argument `<node-0>.text` is the result `text` of the step with id 0. With `form=code` Python in a code
    fence that assigns calls to names; it is read and never run.
    Tools: 34 functions of texts, numbers, lists and tables, described in the opening in full style.
    Reward: 1 if the plan passes and the result of its last step equals that of the right plan, else 0. A drawn request
    names its steps, and a plan that leaves one out, with no other step in its place, earns 0 also if the result is the
    same. Named rewards, in the turn that ends the task: `output`, as the reward; `tool_f1` and `argument_f1`, the F1 of
    tools, and of pairs of a tool and an argument's name, against the right plan as multisets; `pass`, 1 for a plan that
    could be carried out.
    Metrics: `parsed`, `verified` and `executed`: 1 for each stage that the reply's plan passed.
    Episode end: terminated by the first plan that is carried out, right or wrong; a plan that fails at parsing,
    verification or execution is answered with the reason, and truncated after `attempts` replies.
    Tasks: chains of 1 to 4 tools, drawn with their values; each step changes the value. A request names its steps in
    order.
    Arguments: `form`; `attempts`; `shortest` and `longest`, tools of a chain; `tasks`, a JSON-lines file of your own in
    the fields of m&m's, `user_request` and `plan` or `plan_str`, over these tools, and perhaps `split`.
    Splits: a request stands in one split only.
    Source and licence: generated; the setting and the stages of feedback of m&m's (arXiv:2403.11085). Version history:
    v0.
    """

    leaks = "a step with literal values may return a word of the request"

    def __init__(
        self,
        *,
        form: Form = "json",
        attempts: int = 3,
        shortest: int = 1,
        longest: int = MAX_CHAIN,
        tasks: str = "",
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        if form not in get_args(Form):
            raise ValueError(f"form {form!r} is not one of {', '.join(get_args(Form))}")
        for name, value, least, most in (
            ("attempts", attempts, 1, 20),
            ("longest", longest, 1, MAX_CHAIN),
            ("shortest", shortest, 1, longest),
        ):
            if isinstance(value, bool) or value not in range(least, most + 1):
                raise ValueError(f"{name} {value!r} is outside {least}..{most}")
        super().__init__(max_turns=attempts if max_turns is None else max_turns, **limits)
        self.form, self.shortest, self.longest = form, shortest, longest
        self._rows: Sequence[Mapping[str, Any]] = file_rows(tasks) if tasks else ()

    def tasks(self, split: str) -> Sequence[Task]:
        """Return drawn chains, or the rows of the file. Raises NoSplit for a split that the file lacks."""
        return rows_of_split(self._rows, split) if self._rows else chain_tasks(split, self.shortest, self.longest)

    def start(self) -> Messages:
        """Make the request."""
        return (user(self.task.metadata["request"]),)

    def guide(self) -> Guide:
        """Describe the tools and the form of a plan."""
        tools = "\n".join(
            f"{tool.name}({', '.join(f'{name}: {kind}' for name, kind in tool.inputs.items())}) -> {tool.output}. "
            f"{tool.about}"
            for tool in PLAN_TOOLS.values()
        )
        example = [
            Step(0, "add", {"first": 2, "second": 3}),
            Step(1, "square", {"number": Reference(0, "number")}),
        ]
        if self.form == "json":
            reply = (
                "Reply with the plan as a JSON list on the last line. A step has an id, the name of its tool and its "
                'arguments by name. An argument "<node-0>.text" is the result of the step with id 0, whose type is '
                "text; that step must come before."
            )
        else:
            reply = (
                "Reply with the plan as Python code in a block between ``` and ``` at the end. Each line calls a "
                "tool, with its arguments by name, and assigns the result to a name that later lines use; a call may "
                "also stand within the arguments of another. There is nothing else in it: no loops, no operators, no "
                "other functions."
            )
        return Guide(
            goal=(
                "Write a plan of tool calls that does what a request asks for. You succeed if the plan can be carried "
                "out and the result of its last step is what the request asks for."
                + " No step of the request may be left out, even if the result would be the same."
                * (not self._rows)
            ),
            rules=(
                "These are the tools, with the types of their arguments and of their result. A number has no quotes; a "
                f"list holds texts and numbers; a table comes from load_table:\n{tools}"
            ),
            reply=reply,
            thinking="You may think first; put the plan alone at the end of your reply.",
            example=self._written(example),
            ending="The episode ends with the first plan that can be carried out, right or wrong.",
            invalid=(
                "A plan that cannot be read, that calls a tool wrongly or that fails when it is carried out is "
                "answered with what was wrong, and uses up a reply."
            ),
            heading="The request:",
        )

    def reply(self, action: Message) -> Outcome:
        """Read, verify, carry out and compare the plan of a reply."""
        stages = dict.fromkeys(("parsed", "verified", "executed"), 0.0)
        try:
            steps = self._plan(action)
            stages["parsed"] = 1.0
            verify(steps)
            stages["verified"] = 1.0
            result = execute(steps)
            stages["executed"] = 1.0
        except ToolError as error:
            stop = "" if str(error).endswith("?") else "."
            message = user(self.correction(f"Error: {error}{stop}", short=f"error: {error}"))
            return Outcome((message,), valid=False, rewards=dict.fromkeys(PARTS, 0.0), metrics=stages)
        right = plan_steps(self.task.metadata["plan"])
        is_right = _is_same(result, self.task.metadata["result"])
        if is_right and not self._rows:
            is_right = not _leaves_out_step(steps, right)
        rewards = {
            "output": float(is_right),
            "tool_f1": _f1(_tools(steps), _tools(right)),
            "argument_f1": _f1(_arguments(steps), _arguments(right)),
            "pass": 1.0,
        }
        return Outcome((), float(is_right), True, is_right, rewards=rewards, metrics=stages)

    def ending(self, outcome: Outcome) -> str:
        """Say whether the result is right."""
        if outcome.success:
            return "The plan was carried out, and its result is right."
        step = "" if self._rows else ", or it leaves out a step"
        return f"The plan was carried out, but its result is not what the request asks for{step}."

    def vote(self, action: Message) -> Hashable | None:
        """The result of the plan of a reply; None for a plan that fails."""
        try:
            steps = self._plan(action)
            verify(steps)
            return json.dumps(execute(steps), sort_keys=True)
        except ToolError:
            return None

    def oracle(self) -> Iterator[Message]:
        """Write the plan of the task."""
        yield assistant(self._written(plan_steps(self.task.metadata["plan"])))

    def random(self, rng: np.random.Generator) -> Message:
        """Call one tool with values of the right types."""
        tool = [*PLAN_TOOLS.values()][int(rng.integers(len(PLAN_TOOLS)))]
        values = {"text": "amber", "number": int(rng.integers(10)), "list": ["amber"], "table": []}
        return assistant(
            self._written([Step(0, tool.name, {name: values[kind] for name, kind in tool.inputs.items()})])
        )

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0: the right plan in pieces, in a wrong place, or with a further step."""
        right = plan_steps(self.task.metadata["plan"])
        further = Step(len(right), "add", {"first": 987_654, "second": 1})
        return (
            *super().attacks(),
            self._written([*right, further]),
            f"{self._written(right)}\nThis is the plan.",
            json.dumps({"output": self.task.metadata["result"]}),
            "```python\nimport os\nos._exit(0)\n```",
            "```python\nx = upper_case(text=().__class__.__name__)\n```",
            "[" * 5000,
        )

    def _plan(self, action: Message) -> list[Step]:
        text = final_text(action)
        return parse_json_plan(text) if self.form == "json" else parse_code_plan(text)

    def _written(self, steps: Sequence[Step]) -> str:
        if self.form == "json":
            return json.dumps([step._asdict() | {"args": _json_args(step.args)} for step in steps])
        lines = [f"step_{step.id} = {step.name}({', '.join(_keywords(step.args))})" for step in steps]
        return "\n".join(["```python", *lines, "```"])


def _json_args(args: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: f"<node-{value.id}>.{value.output}" if isinstance(value, Reference) else value
        for name, value in args.items()
    }


def _keywords(args: Mapping[str, Any]) -> Iterator[str]:
    for name, value in args.items():
        yield f"{name}={f'step_{value.id}' if isinstance(value, Reference) else repr(value)}"


def _tools(steps: Sequence[Step]) -> list[str]:
    return [step.name for step in steps]


def _leaves_out_step(steps: Sequence[Step], right: Sequence[Step]) -> bool:
    """Whether a plan lacks a tool of the right one and has fewer steps that its result comes from.

    A step whose result is one of its arguments is none of them: it could stand for any step that was left out.
    """
    used = {steps[-1].id}
    for step in reversed(steps):
        if step.id in used:
            used |= {value.id for value in step.args.values() if isinstance(value, Reference)}
    if not Counter(_tools(right)) - Counter(step.name for step in steps if step.id in used):
        return False
    results = {step.id: execute(steps[: place + 1]) for place, step in enumerate(steps)}
    number = 0
    for step in steps:
        values = [results[value.id] if isinstance(value, Reference) else value for value in step.args.values()]
        number += step.id in used and not any(_is_same(results[step.id], value) for value in values)
    return number < len(right)


def _arguments(steps: Sequence[Step]) -> list[tuple[str, str]]:
    return [(step.name, name) for step in steps for name in step.args]


def _f1(predictions: Iterable[Any], right: Iterable[Any]) -> float:
    """F1 of two multisets."""
    counts, right_counts = Counter(predictions), Counter(right)
    return 2 * (counts & right_counts).total() / (counts.total() + right_counts.total())


def _is_same(result: Any, right: Any) -> bool:
    return (type(result) is type(right) and result == right) or _is_same_number(result, right)


def _is_same_number(result: Any, right: Any) -> bool:
    kinds = int | float
    return isinstance(result, kinds) and isinstance(right, kinds) and abs(result - right) < 1e-6
