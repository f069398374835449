"""The decorator `tool`: a typed Python function with a docstring becomes a tool that a model can call."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python

from envs.suggestions import unknown_message
from envs.tools.argument_values import fit_values
from envs.types import ToolError

MAX_ERRORS = 3  # mistakes that one error message names
MAX_SHOWN = 60  # characters of a wrong value in an error message
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what OpenAI's API takes
_encode: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, default=to_jsonable_python).encode
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Tool:
    """A function that a model can call, with its schema. In a class it is a method like any other.

    Attributes:
        name: Its name for the model.
        schema: The OpenAI function schema, an entry of `Env.tools`: types from the annotations, descriptions from the
            docstring.
        function: The Python function.
    """

    def __init__(self, function: Callable[..., Any], *, name: str | None = None) -> None:
        """Raises TypeError for a parameter without a type, of a type that has no JSON schema, or taken by position."""
        self.function, self.name = function, name or function.__name__
        if not _NAME.fullmatch(self.name):
            raise TypeError(f"tool {self.name!r}: a name has at most 64 letters, digits, _ and -")
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"tool {self.name!r}: environments are synchronous; make it a plain function")
        description, notes = _parse_docstring(inspect.getdoc(function) or "")
        self._arguments = _arguments_model(self.name, function, notes)
        self._keys = {str(field.alias): key for key, field in self._arguments.model_fields.items()}
        try:
            parameters = self._arguments.model_json_schema(schema_generator=_WithoutTitles)
        except PydanticUserError as error:
            raise TypeError(f"tool {self.name!r}: {str(error).splitlines()[0]}") from None
        for schema in (parameters, *parameters.get("$defs", {}).values()):
            schema.pop("title", None)
        about = {"name": self.name, "description": description, "parameters": parameters}
        self.schema: dict[str, Any] = {"type": "function", "function": about}

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """The tool itself from the class; the bound method from an instance."""
        return self if instance is None else self.function.__get__(instance, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the Python function, without validation."""
        return self.function(*args, **kwargs)

    def parse(self, arguments: str, *, exact: bool = False) -> dict[str, Any]:
        """Validate the arguments of a call, JSON text, and return them by name; those left out are not in it.

        JSON types count, but an integer may be written as `"3"` or `3.0`, a choice in other case where that leaves one,
        and an object as JSON in a text. Raises ToolError, which says in one line what to mend.

        Args:
            arguments: The arguments as JSON text.
            exact: Whether such other forms are refused.
        """
        try:
            values = self._validate(arguments, exact)
        except ValidationError as error:
            raise ToolError(self._explain(error)) from None
        return {name: getattr(values, key) for name, key in self._keys.items() if key in values.model_fields_set}

    def run(self, arguments: str, *bound: Any, exact: bool = False) -> str:
        """Call the function with validated arguments and return its result as a text.

        A text stays as it is, None becomes `done`, and other results become JSON. `bound` comes before the arguments:
        the instance of a method. `exact` is that of `parse`. Raises ToolError for arguments that do not fit, and
        whatever the function raises.
        """
        result = self.function(*bound, **self.parse(arguments, exact=exact))
        if isinstance(result, str):
            return result
        return "done" if result is None else _as_json(result)

    def _validate(self, arguments: str, exact: bool) -> BaseModel:
        text = arguments.strip() or "{}"
        try:
            return self._arguments.model_validate_json(text)
        except ValidationError as error:
            if exact or not all(mistake["loc"] for mistake in error.errors(include_url=False, include_context=False)):
                raise
            parameters = self.schema["function"]["parameters"]
            try:
                fitted_json = json.dumps(fit_values(json.loads(text), parameters, parameters.get("$defs", {})))
            except (ValueError, RecursionError):
                raise error from None
        return self._arguments.model_validate_json(fitted_json)

    def _explain(self, error: ValidationError) -> str:
        mistakes = error.errors(include_url=False, include_context=False)
        lines = [self._explain_mistake(mistake) for mistake in mistakes[:MAX_ERRORS]]
        return "; ".join(lines) + ("; and more" if len(mistakes) > MAX_ERRORS else "")

    def _explain_mistake(self, mistake: Mapping[str, Any]) -> str:
        place, kind = ".".join(map(str, mistake["loc"])), mistake["type"]
        if not place:
            return f"the arguments of {self.name} are no JSON object: {mistake['msg']}"
        if kind == "missing":
            return f"{self.name} needs the argument {place!r}"
        if kind == "extra_forbidden" and len(mistake["loc"]) == 1:
            return unknown_message("argument", place, self._keys, of=self.name)
        value = repr(mistake["input"])
        value = value if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]}..."
        return f"argument {place!r} of {self.name}: {mistake['msg']}, not {value}"


@overload
def tool(function: Callable[..., Any]) -> Tool: ...
@overload
def tool(*, name: str) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, *, name: str | None = None) -> Any:
    """Make a `Tool` of a typed function or method: `@tool`, or `@tool(name="look-up")`.

    The name is the function's unless `name` is given. The description comes from the docstring, those of the arguments
    from its section `Args:` in Google's style. Parameters may have any type that pydantic knows: int, float, str, bool,
    list, dict, Literal, enumerations, `| None`, dataclasses, models, `Annotated[int, Field(ge=1)]`. Those with a
    default are optional. docs/add_an_env.md has an example. Raises TypeError as `Tool` does.

    Args:
        function: The typed function.
        name: The tool's name for the model; None for the function's own.
    """
    return Tool(function, name=name) if function else lambda function: Tool(function, name=name)


def class_tools(cls: type) -> dict[str, Tool]:
    """Return the tools among the attributes of a class, by their names for the model, those of base classes first."""
    attributes = {key: None for base in reversed(cls.__mro__) for key in vars(base)}
    tools = [each for key in attributes if isinstance(each := inspect.getattr_static(cls, key), Tool)]
    return {each.name: each for each in tools}


def _as_json(result: Any) -> str:
    """JSON of data, dataclasses, models, dates and whatever else pydantic knows."""
    try:
        return _encode(result)
    except TypeError:  # a key that is no text, such as a date
        return _encode(to_jsonable_python(result))


class _WithoutTitles(GenerateJsonSchema):
    """JSON schemas without the titles that pydantic makes from names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _arguments_model(tool: str, function: Callable[..., Any], notes: Mapping[str, str]) -> type[BaseModel]:
    """A model with one field per parameter, under an alias, since a model refuses names such as `copy` or `_x`."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"tool {tool!r}: a type is not known: {error}") from None
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    if unknown := notes.keys() - {each.name for each in parameters}:
        raise TypeError(f"tool {tool!r}: its docstring describes {min(unknown)!r}, which is no parameter")
    fields: dict[str, Any] = {}
    for place, parameter in enumerate(parameters):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"tool {tool!r}: parameter {parameter.name!r} cannot be given by name")
        if parameter.name not in hints:
            raise TypeError(f"tool {tool!r}: parameter {parameter.name!r} has no type")
        default = ... if parameter.default is parameter.empty else parameter.default
        about = Field(alias=parameter.name, description=notes.get(parameter.name))
        fields[f"argument_{place}"] = (Annotated[hints[parameter.name], about], default)
    try:
        return create_model(tool, __config__=_STRICT, **fields)
    except PydanticUserError as error:
        raise TypeError(f"tool {tool!r}: {str(error).splitlines()[0]}") from None


def _parse_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """The description in a docstring of Google's style, and what its section `Args:` says about each argument."""
    head, _, rest = f"{docstring}\n".partition("\nArgs:\n")
    description = re.split(r"\n(?:Returns|Raises|Yields|Examples?):\n", head)[0]
    notes: dict[str, str] = {}
    name = ""
    for line in rest.splitlines():
        if line and not line.startswith(" "):  # the next section
            break
        if start := re.match(r" {1,4}(\w+)(?: \(.*?\))?: *(.*)", line):
            name, line = start.groups()
        if name:
            notes[name] = f"{notes.get(name, '')} {line.strip()}".strip()
    return " ".join(description.split()), notes
