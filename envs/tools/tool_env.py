"""Base class of environments whose actions are tool calls: a domain is its functions, its data and its goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from envs.env import Env
from envs.suggestions import unknown_message
from envs.tools.text_calls import TextCall, parse_reply_calls, parse_text_calls
from envs.tools.tool import Tool, class_tools
from envs.tools.tool_calls import check_readable
from envs.types import Message, Messages, NegativeResult, Outcome, ToolCall, ToolError, final_text, user

MAX_CALLS = 32  # of one reply; further ones get an error
NOT_MADE = "not made, because an earlier call of this reply failed"


class ToolEnv(Env):
    """An environment whose policy calls tools: the methods that `envs.tools.tool.tool` decorates.

    All calls of a reply are made, in order, and each is answered by a tool message: the result, or `error: ` and the
    text of a ToolError, which a method raises for a mistake that the model can mend. A reply without a native call may
    end with calls written as text (`envs.tools.text_calls`); one user message answers them. Any other reply goes to
    `answer`. A reply whose calls all fail is invalid; a `NegativeResult` is no failure. Metrics:
    `calls` and `errors` of the turn. With `stops_at_error`, the calls behind one that fails are not made. With
    `exact_calls`, for scores that compare with those of others, only the plain form of a call and of a value is read.

    A subclass defines `answer` besides `tasks` and `oracle`, usually `start`, which sets up the data of an episode, and
    `after_calls` where calls themselves are rewarded or end the episode. One whose tools are not its own methods sets
    `tools` and overrides `call`.
    """

    max_turns = 8
    stops_at_error: ClassVar[bool] = False
    exact_calls: ClassVar[bool] = False
    _methods: ClassVar[Mapping[str, Tool]] = MappingProxyType({})  # the tools that are methods, by name

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._methods = class_tools(cls)
        if cls._methods:
            cls.tools = tuple(tool.schema for tool in cls._methods.values())

    def answer(self, reply: str) -> Outcome:
        """Play a reply without a tool call, given without its reasoning: often the answer that ends the episode."""
        raise NotImplementedError(f"{type(self).__name__} must define answer(reply)")

    def after_calls(self, results: Messages) -> Outcome:
        """Return the outcome of a turn whose calls are answered by the messages `results`. Default: go on."""
        return Outcome(results)

    def call(self, name: str, arguments: str) -> str:
        """Make one call and return its result, a text.

        `arguments` is the JSON text that the model wrote, or what a call in text stands for. The default reads it, and
        checks it by the signature of the tool's method; one's own must do so. Raises ToolError for a model's mistakes.
        """
        if name not in self._methods:
            raise ToolError(unknown_message("tool", name, self._methods))
        return self._methods[name].run(arguments, self, exact=self.exact_calls)

    def text_calls(self, line: str) -> Sequence[TextCall]:
        """Read the calls that a line at the end of a reply consists of; none for a line that is no call.

        Raises ToolError for a call that cannot be read. Override it for another form, or to read none.
        """
        return parse_text_calls(line, exact=self.exact_calls)

    def reply(self, action: Message) -> Outcome:
        """Make the calls of a reply, or play it by `answer` if it has none."""
        if calls := action.get("tool_calls") or ():
            return self._reply_to_calls(calls)
        try:
            content = final_text(action)
            text_calls = self._last_calls(content)
        except ToolError as error:
            outcome = self.after_calls((user(f"error: {error}"),))
            outcome.valid, outcome.metrics = False, {"calls": 1.0, "errors": 1.0, **outcome.metrics}
            return outcome
        if text_calls:
            return self._reply_to_text_calls(text_calls)
        return self.answer(content.strip())

    def _last_calls(self, content: str) -> Sequence[TextCall]:
        if self.style == "short":  # a call is a line of words
            return self.text_calls(content.rstrip().rpartition("\n")[2].strip())
        return parse_reply_calls(content, self.text_calls, exact=self.exact_calls)

    def _reply_to_calls(self, calls: Sequence[ToolCall]) -> Outcome:
        results: list[Message] = []
        errors = 0
        for place, call in enumerate(calls):
            try:
                check_readable(call)
                content = self._bounded_call(place, errors, **call["function"])
            except ToolError as error:
                errors += not isinstance(error, NegativeResult)
                content = f"error: {error}"
            results.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        return self._outcome(tuple(results), len(calls), errors)

    def _reply_to_text_calls(self, calls: Sequence[TextCall]) -> Outcome:
        lines = []
        errors = 0
        for place, call in enumerate(calls):
            try:
                lines.append(self._bounded_call(place, errors, call.name, call.arguments))
            except ToolError as error:
                errors += not isinstance(error, NegativeResult)
                lines.append(f"error: {error}")
        return self._outcome((user("\n".join(lines)),), len(calls), errors)

    def _bounded_call(self, place: int, errors: int, name: str, arguments: str) -> str:
        if errors and self.stops_at_error:
            raise ToolError(NOT_MADE)
        if place >= MAX_CALLS:
            raise ToolError(f"at most {MAX_CALLS} calls a turn")
        result = self.call(name, arguments)
        if not isinstance(result, str):
            owner = f"{type(self).__name__}.call({name!r})"
            raise TypeError(f"{owner} must return a text, not {type(result).__name__}; use json.dumps")
        return result

    def _outcome(self, results: Messages, calls: int, errors: int) -> Outcome:
        outcome = self.after_calls(results)
        outcome.valid = outcome.valid and errors < calls
        outcome.metrics = {"calls": float(calls), "errors": float(errors), **outcome.metrics}
        return outcome
