"""Base of the systems that BFCL's multi-turn functions act on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import Field

from envs.suggestions import unknown_message
from envs.tools.tool import Tool, class_tools
from envs.types import ToolError

MAX_ARGUMENTS = 20_000  # characters of a call's arguments as JSON
MAX_TEXT = 5_000  # characters of a text argument
MAX_NAME = 200  # characters of a tag, a user name and other texts of which an argument is a list
MAX_ITEMS = 200  # items of a list argument
MAX_RECORDS = 100  # records of a kind that a system takes
LARGEST = 1e100

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Names = Annotated[list[Annotated[str, Field(max_length=MAX_NAME)]], Field(max_length=MAX_ITEMS)]
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Numbers = Annotated[list[Number], Field(max_length=MAX_ITEMS)]
Integer = Annotated[int, Field(ge=-(10**12), le=10**12)]
Result = dict[str, Any]


class Backing:
    """A system with functions, its tools (`envs.tools.tool.tool`), and a state that a configuration sets up.

    Every function returns what its documentation lists under `response`, or `{"error": reason}` where the system
    refuses; only arguments that do not fit the function raise ToolError. Attributes whose names begin with an
    underscore are no part of the state that is compared. A copy by `deepcopy` is independent.
    """

    _tools: ClassVar[Mapping[str, Tool]] = MappingProxyType({})

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._tools = class_tools(cls)

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Set up the state. `config` is the class's part of a row's `initial_config`; unknown keys are ignored."""

    @classmethod
    def tools(cls) -> Mapping[str, Tool]:
        """Return the functions by name."""
        return cls._tools

    def call(self, name: str, arguments: str) -> Any:
        """Call a function with JSON text. Raises ToolError for an unknown name and arguments that do not fit."""
        if name not in self._tools:
            raise ToolError(unknown_message("tool", name, self._tools))
        if len(arguments) > MAX_ARGUMENTS:
            raise ToolError(f"the arguments of {name} have {len(arguments)} characters; {MAX_ARGUMENTS} is the limit")
        function = self._tools[name]
        try:
            result = function.function(self, **function.parse(arguments, exact=True))
            return json.loads(json.dumps(result, allow_nan=False))  # a copy that shares nothing with the state
        except (ArithmeticError, ValueError) as error:
            return refuse(f"the value cannot be computed: {str(error)[:100]}")

    def public_state(self) -> dict[str, Any]:
        """Return the attributes that the comparison of states covers."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


def refuse(reason: str) -> Result:
    """Return the result of a call that the system refuses."""
    return {"error": reason}


def is_absent(value: str | None) -> bool:
    """Whether an optional text was left out. The documentation writes that default as the text "None"."""
    return value is None or value == "None"
