"""BFCL: call the right functions with the right arguments, judged by the leaderboard's own rule."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args

from envs import data
from envs.env import Env
from envs.episodes.guide import Guide
from envs.tools.bfcl.checker import Call, first_fault
from envs.tools.bfcl.schemas import function_schemas, gold_calls, offered_name
from envs.tools.text_calls import parse_reply_calls, parse_text_calls
from envs.tools.tool_calls import check_readable
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, final_text, user

Category = Literal["simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance"]
MAX_ARGUMENTS = 100_000  # characters of a call's arguments


class BFCL(Env):
    """Call the right functions with the right arguments, in one reply.

    Observation: the question, one user message; in full style the instructions come first.
    Action: tool calls, native or as JSON on the last line of the reply; without a call, a text.
    Tools: the functions of the task, in `info["tools"]` in every style. Names lose their dots, which the comparison
    undoes; the types `dict`, `float`, `tuple` and `any` become those of JSON Schema.
    Reward: 1 if the calls fit the gold answer by the official rule (`envs.tools.bfcl.checker`), else 0: all calls and
    no other, in any order, required arguments, no undeclared ones, types, and one of the values that are listed. In the
    category `irrelevance`, where no function fits, 1 for a reply without a call.
    Metrics: `calls` of the reply.
    Episode end: after the first reply.
    Arguments: `category`: simple_python, multiple, parallel, parallel_multiple or irrelevance; `data_root`, the folder
    that holds `bfcl/`, else TURNWISE_DATA.
    Splits: all rows are "test".
    Source and licence: Berkeley Function-Calling Leaderboard (Patil et al. 2025), Apache-2.0; the files are yours to
    provide. Version history: v0.
    """

    exact_calls = True  # as in `envs.tools.tool_env.ToolEnv`
    leaks = "the right values of the arguments stand in the question"

    def __init__(self, *, category: Category = "simple_python", data_root: str | None = None, **limits: Any) -> None:
        super().__init__(**limits)
        if category not in get_args(Category):
            raise ValueError(f"category {category!r} is not one of {', '.join(get_args(Category))}")
        self.category, self.data_root = category, data_root

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the rows of the category. Raises ValueError, with file and line, for a malformed row."""
        if split != "test":
            raise data.NoSplit(f"BFCL has no split {split!r}; all its rows are test")
        answers = {}
        if self.category != "irrelevance":
            answers = {row.fields["id"]: row.fields["ground_truth"] for row in self._rows("answers_BFCL")}
        tasks = []
        for row in self._rows("BFCL"):
            fields = row.fields
            gold = answers.get(fields["id"], [])
            if not gold and self.category != "irrelevance":
                raise ValueError(f"{row.source}: there is no answer to {fields['id']!r}")
            prompt = tuple(user(message["content"]) for message in fields["question"][0])
            tasks.append(Task(f"test/{fields['id']}", prompt, gold, {"functions": fields["function"]}))
        return tasks

    def start(self) -> Messages:
        """Ask, and offer the functions of the task."""
        self.tools = tuple(function_schemas(self._functions))
        return self.task.prompt

    def guide(self) -> Guide:
        """Say what to call and how."""
        return Guide(
            goal=(
                "Answer a request by calling the tools that you are offered. You succeed if your calls are exactly the "
                "right ones, with the right arguments; if no tool fits the request, reply without a call and say so."
            ),
            reply=(
                "Make all calls in one reply, natively or as JSON on its last line: an object, or an array of objects "
                "if there are several. Leave out optional arguments that the request says nothing about."
            ),
            thinking="You may think first; JSON must stand alone on the last line of your reply.",
            example='{"name": "get_weather", "arguments": {"city": "Rome", "days": 2}}',
            ending="No call is carried out.",
            heading="The request:",
        )

    def reply(self, action: Message) -> Outcome:
        """Compare the calls of a reply with the gold answer."""
        try:
            calls = list(self._calls(action))
        except ToolError:
            return Outcome(terminated=True, valid=False, metrics={"calls": 0.0})
        if self.category == "irrelevance":
            success = not calls
        else:
            success = not first_fault(calls, self.task.answer, self._functions)
        return Outcome((), float(success), True, success, metrics={"calls": float(len(calls))})

    def oracle(self) -> Iterator[Message]:
        """Make the calls of the gold answer."""
        calls = gold_calls(self.task.answer, self._functions)
        yield assistant(tool_calls=calls) if calls else assistant("None of the tools fits this request.")

    def noop(self) -> Message:
        """A call of nothing, since doing nothing is right where no function fits."""
        return assistant('{"name": "none", "arguments": {}}' if self.category == "irrelevance" else "")

    def _calls(self, action: Message) -> Iterator[Call]:
        names = {offered_name(function["name"]): function["name"] for function in self._functions}
        if calls := action.get("tool_calls"):
            for call in calls:
                check_readable(call)
            pairs = [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
        else:
            exact = self.exact_calls
            text_calls = parse_reply_calls(final_text(action), partial(parse_text_calls, exact=exact), exact=exact)
            pairs = [(call.name, call.arguments) for call in text_calls]
        for name, text in pairs:
            yield names.get(name, name), _parse_arguments(text)

    @property
    def _functions(self) -> Sequence[Mapping[str, Any]]:
        return self.task.metadata["functions"]

    def _rows(self, prefix: str) -> list[data.Row]:
        rows = data.load_rows(f"bfcl/{prefix}_v*_{self.category}.json", ("id",), data_root=self.data_root)
        return [row for row in rows if row.fields["id"].rpartition("_")[0] == self.category]


def _parse_arguments(text: str) -> Mapping[str, Any]:
    try:
        arguments = json.loads(text.strip() or "{}") if len(text) <= MAX_ARGUMENTS else None
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise ToolError("the arguments are no JSON object")
    return arguments
