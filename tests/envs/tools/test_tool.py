"""The decorator `tool`: schemas from types and docstrings, validated arguments, mistakes that a model can mend."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from envs.tools.tool import Tool, class_tools, tool
from envs.types import ToolError


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Spot:
    row: int
    column: int = 0


class Shop:
    discount = 3

    @tool
    def buy(
        self,
        copy: int,
        kind: Literal["new", "used"],
        size: Size = Size.SMALL,
        note: str | None = None,
        tags: list[str] = [],  # noqa: B006 (the default is part of the schema)
        weights: dict[str, float] = {},  # noqa: B006
        spot: Spot | None = None,
        share: Annotated[float, Field(gt=0, le=1)] = 1.0,
        gift: bool = False,
    ) -> dict[str, Any]:
        """Buy a
        thing.

        Args:
            copy: How many
                copies.
            kind (str): Its age: new or used.

        Returns:
            The price.
        """
        return {"price": copy - self.discount, "size": size, "spot": spot, "gift": gift, "é": kind}

    @tool(name="look-up")
    def look_up(self) -> None:
        """Look."""


def test_a_schema_has_the_types_the_defaults_and_the_words_of_the_docstring() -> None:
    function = Shop.buy.schema["function"]
    assert Shop.buy.schema["type"] == "function" and function["name"] == "buy"
    assert function["description"] == "Buy a thing."
    parameters = function["parameters"]
    assert parameters["required"] == ["copy", "kind"] and parameters["additionalProperties"] is False
    properties = parameters["properties"]
    assert properties["copy"] == {"type": "integer", "description": "How many copies."}
    assert properties["kind"] == {
        "enum": ["new", "used"],
        "type": "string",
        "description": "Its age: new or used.",
    }
    assert properties["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert properties["tags"] == {"type": "array", "items": {"type": "string"}, "default": []}
    assert properties["weights"] == {"type": "object", "additionalProperties": {"type": "number"}, "default": {}}
    assert properties["share"] == {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 1.0}
    assert properties["gift"] == {"type": "boolean", "default": False}
    assert parameters["$defs"]["Size"] == {"type": "string", "enum": ["s", "l"]}
    assert "title" not in json.dumps(Shop.buy.schema)
    assert Shop.look_up.schema["function"] == {
        "name": "look-up",
        "description": "Look.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    }


def test_a_tool_of_a_class_is_still_its_method() -> None:
    shop = Shop()
    assert shop.buy(5, "new")["price"] == 2 and shop.look_up() is None
    assert isinstance(Shop.buy, Tool) and [*class_tools(Shop)] == ["buy", "look-up"]

    class Branch(Shop):
        look_up = None  # takes the tool away

        @tool
        def count(self, xs: list[int]) -> int:
            return len(xs)

    assert [*class_tools(Branch)] == ["buy", "count"]


def test_results_become_text() -> None:
    arguments = '{"copy": 5, "kind": "new", "size": "l", "spot": {"row": 1}, "gift": true}'
    assert json.loads(Shop.buy.run(arguments, Shop())) == {
        "price": 2,
        "size": "l",
        "spot": {"row": 1, "column": 0},
        "gift": True,
        "é": "new",
    }
    assert "é" in Shop.buy.run(arguments, Shop())
    assert Shop.look_up.run("", Shop()) == "done"
    assert tool(lambda_text).run('{"x": "a b"}') == "a b"


def lambda_text(x: str) -> str:
    return x


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "buy needs the argument 'copy'; buy needs the argument 'kind'"),
        ('{"copy": "2 items", "kind": "new"}', "'copy' of buy: Input should be a valid integer, not '2 items'"),
        ('{"copy": "2.5", "kind": "new"}', "Input should be a valid integer, not '2.5'"),
        ('{"copy": "", "kind": "new"}', "Input should be a valid integer, not ''"),
        ('{"copy": true, "kind": "new"}', "Input should be a valid integer, not True"),
        ('{"copy": 2.5, "kind": "new"}', "Input should be a valid integer"),
        ('{"copy": 1e300, "kind": "new"}', "Input should be a valid integer"),
        ('{"copy": "2", "kind": "new", "share": "x"}', "Input should be a valid number, not 'x'"),
        ('{"copy": null, "kind": "new"}', "Input should be a valid integer, not None"),
        ('{"copy": 2, "kind": "old"}', "argument 'kind' of buy: Input should be 'new' or 'used', not 'old'"),
        ('{"copy": 2, "kind": "new", "sise": "s"}', "unknown argument 'sise' in buy; did you mean 'size'?"),
        ('{"copy": 2, "kind": "new", "size": "m"}', "argument 'size' of buy: Input should be 's' or 'l', not 'm'"),
        ('{"copy": 2, "kind": "new", "share": 1.5}', "Input should be less than or equal to 1, not 1.5"),
        ('{"copy": 2, "kind": "new", "share": NaN}', "Input should be a finite number"),
        ('{"copy": 2, "kind": "new", "tags": "a"}', "argument 'tags' of buy: Input should be a valid array, not 'a'"),
        ('{"copy": 2, "kind": "new", "tags": ["a", 1]}', "argument 'tags.1' of buy: Input should be a valid string"),
        ('{"copy": 2, "kind": "new", "spot": {"row": "x"}}', "argument 'spot.row' of buy"),
        ('{"copy": 2', "the arguments of buy are no JSON object: Invalid JSON"),
        ('["copy"]', "the arguments of buy are no JSON object"),
        ("null", "the arguments of buy are no JSON object"),
        ("[" * 100_000, "recursion limit"),
        (f'{{"copy": {"9" * 5000}}}', "no JSON object"),
        ('{"copy": 2, "kind": "\\ud800"}', "no JSON object"),
        ("\ud800", "no JSON object"),
        (f'{{"copy": "{"9" * 10**6}", "kind": "new"}}', "..."),
        (f'{{"{"c" * 10**6}": 2, "copy": 1, "kind": "new"}}', "..."),
        ('{"a": 1, "b": 1, "c": 1, "d": 1}', "; and more"),
    ],
)
def test_wrong_arguments_are_a_tool_error_of_one_short_line(arguments: str, words: str) -> None:
    with pytest.raises(ToolError) as error:
        Shop.buy.run(arguments, Shop())
    assert words in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ('{"copy": "2", "kind": "new"}', {"copy": 2, "kind": "new"}),
        ('{"copy": " -2 ", "kind": "new"}', {"copy": -2, "kind": "new"}),
        ('{"copy": 8.0, "kind": "new"}', {"copy": 8, "kind": "new"}),
        ('{"copy": "8.0", "kind": "NEW"}', {"copy": 8, "kind": "new"}),
        ('{"copy": 2, "kind": "Used", "size": "L"}', {"copy": 2, "kind": "used", "size": Size.LARGE}),
        ('{"copy": 2, "kind": "new", "spot": {"row": "1"}}', {"copy": 2, "kind": "new", "spot": Spot(1)}),
        ('{"copy": 2, "kind": "new", "spot": "{\\"row\\": 1}"}', {"copy": 2, "kind": "new", "spot": Spot(1)}),
        ('{"copy": "2", "kind": "new", "note": "3"}', {"copy": 2, "kind": "new", "note": "3"}),
    ],
)
def test_values_in_another_form_are_taken_where_it_is_certain_and_exact_ones_are_not_asked_for(
    arguments: str, values: dict[str, Any]
) -> None:
    parsed = Shop.buy.parse(arguments)
    assert parsed == values and type(parsed["copy"]) is int
    with pytest.raises(ToolError):
        Shop.buy.parse(arguments, exact=True)


def test_a_choice_in_other_case_must_be_the_only_one() -> None:
    @tool
    def take(name: Literal["a", "A", "b"], count: int | Literal["all"] = 1) -> None: ...

    assert take.parse('{"name": "A", "count": "ALL"}') == {"name": "A", "count": "all"}
    assert take.parse('{"name": "B", "count": "4"}') == {"name": "b", "count": 4}

    @tool
    def give(name: Literal["ab", "AB"]) -> None: ...

    with pytest.raises(ToolError, match="not 'Ab'"):
        give.parse('{"name": "Ab"}')


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
    | st.dictionaries(st.sampled_from(["copy", "kind", "spot", "x"]), st.integers() | st.text() | st.lists(st.none()))
)
def test_anything_but_fitting_arguments_is_a_tool_error(value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        arguments = Shop.buy.parse(text)
    except ToolError as error:
        str(error)
    else:
        assert type(arguments["copy"]) is int and arguments["kind"] in ("new", "used")


def test_a_function_that_cannot_be_a_tool_is_refused_with_its_reason() -> None:
    def untyped(x): ...
    def positional(x: int, /): ...
    def variadic(*xs: int): ...
    def unknown(x: Nowhere): ...  # type: ignore[name-defined]  # noqa: F821
    def unschemed(x: Shop): ...
    async def waiting(x: int): ...
    def misdescribed(x: int):
        """Do.

        Args:
            y: Not there.
        """

    cases = {
        untyped: "parameter 'x' has no type",
        positional: "parameter 'x' cannot be given by name",
        variadic: "parameter 'xs' cannot be given by name",
        unknown: "a type is not known",
        unschemed: "tool 'unschemed'",
        waiting: "plain function",
        misdescribed: "describes 'y', which is no parameter",
    }
    for function, words in cases.items():
        with pytest.raises(TypeError, match=words) as error:
            tool(function)
        assert "\n" not in str(error.value)
    with pytest.raises(TypeError, match="a name has at most 64 letters"):
        tool(name="look up")(lambda_text)
