"""Base class of environments whose actions are tool calls: a domain is its functions, its data and its goals."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from envs.env import Env
from envs.suggestions import unknown_message
from envs.tools.tool import Tool, class_tools
from envs.tools.tool_calls import check_readable
from envs.types import Message, Messages, Outcome, ToolError, final_text

MAX_CALLS = 32  # of one reply; further ones get an error


class ToolEnv(Env):
    """An environment whose policy calls tools: the methods that `envs.tools.tool.tool` decorates.

    All calls of a reply are made, in order, and each is answered by a tool message: the result, or `error: ` and the
    text of a ToolError, which a method raises for a mistake that the model can mend. A reply without a call goes to
    `answer`. A reply whose calls all fail is invalid. Metrics: `calls` and `errors` of the turn.

    A subclass defines `answer` besides `tasks` and `oracle`, usually `start`, which sets up the data of an episode, and
    `after_calls` where calls themselves are rewarded or end the episode. One whose tools are not its own methods sets
    `tools` and overrides `call`.
    """

    max_turns = 8
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
        """Make one call and return its result. `arguments` is JSON text. Raises ToolError for the model's mistakes."""
        if name not in self._methods:
            raise ToolError(unknown_message("tool", name, self._methods))
        return self._methods[name].run(arguments, self)

    def reply(self, action: Message) -> Outcome:
        """Make the calls of a reply, or play it by `answer` if it has none."""
        calls = action.get("tool_calls") or ()
        if not calls:
            return self.answer(final_text(action).strip())
        results: list[Message] = []
        errors = 0
        for place, call in enumerate(calls):
            try:
                if place >= MAX_CALLS:
                    raise ToolError(f"at most {MAX_CALLS} calls a turn")
                check_readable(call)
                content = self.call(call["function"]["name"], call["function"]["arguments"])
            except ToolError as error:
                errors += 1
                content = f"error: {error}"
            results.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        outcome = self.after_calls(tuple(results))
        outcome.valid = outcome.valid and errors < len(calls)
        outcome.metrics = {"calls": float(len(calls)), "errors": float(errors), **outcome.metrics}
        return outcome
