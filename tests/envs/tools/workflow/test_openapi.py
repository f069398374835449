"""An OpenAPI document becomes endpoints: names, references, places of arguments, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from envs.tools.workflow.company_document import company_document
from envs.tools.workflow.openapi import Endpoint, Request, load_document, read_endpoints
from envs.tools.workflow.schema_check import check_value
from envs.types import ToolError


def document(operation: dict[str, Any], path: str = "/things/{id}", **components: Any) -> dict[str, Any]:
    return {"openapi": "3.0.3", "paths": {path: {"post": operation}}, "components": components}


def endpoint(operation: dict[str, Any], path: str = "/things/{id}", **components: Any) -> Endpoint:
    (found,) = read_endpoints(document(operation, path, **components))
    return found


ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}


def body(schema: Any, required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def test_arguments_of_all_places_are_one_object_and_lead_back() -> None:
    thing = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "kind": {"type": "string"}},
        "required": ["id"],
    }
    made = endpoint(
        {
            "operationId": "things.put one",
            "summary": "Put.",
            "parameters": [
                {"$ref": "#/components/parameters/id"},
                {"name": "filter[a]", "in": "query", "schema": {"type": "boolean"}},
                {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                {"name": "Authorization", "in": "header", "required": True, "schema": {"type": "string"}},
                {"name": "session", "in": "cookie", "required": True, "schema": {"type": "string"}},
            ],
            "requestBody": body({"$ref": "#/components/schemas/Thing"}),
        },
        parameters={"id": ID},
        schemas={"Thing": thing},
    )
    assert made.name == "things_put_one"
    assert list(made.schema["properties"]) == ["id", "filter_a_", "X-Trace", "id_2", "kind"]
    assert made.schema["required"] == ["id", "id_2"]
    request = made.request({"id": "a/b ?", "filter_a_": True, "X-Trace": "t", "id_2": 4})
    assert request == Request(
        "things.put one",
        "POST",
        "/things/a%2Fb%20%3F",
        {"id": "a/b ?"},
        {"filter[a]": True},
        {"X-Trace": "t"},
        {"id": 4},
    )


def test_a_body_that_is_no_object_is_one_argument() -> None:
    made = endpoint(
        {"operationId": "add", "requestBody": body({"type": "array", "items": {"type": "integer"}})}, "/add"
    )
    assert made.request({"body": [1, 2]}).body == [1, 2]
    with pytest.raises(ToolError, match=re.escape("argument 'body.1' of add must be of type integer, not \"2\"")):
        made.request({"body": [1, "2"]})


def test_a_schema_that_contains_itself_is_cut() -> None:
    node = {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/components/schemas/Node"}}}
    made = endpoint({"requestBody": body({"$ref": "#/components/schemas/Node"})}, "/nodes", schemas={"Node": node})
    assert made.operation == "post_nodes"
    assert made.schema["properties"]["next"] == {}
    json.dumps(made.tool)


def test_the_words_of_openapi_3_0_become_those_of_json_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "xml": {}},
            "b": {"type": "string", "nullable": True, "enum": ["x"]},
            "c": {"type": "integer", "readOnly": True},
        },
        "required": ["c"],
    }
    made = endpoint({"operationId": "f", "requestBody": body(schema)}, "/f")
    assert made.schema["properties"] == {
        "a": {"type": "number", "exclusiveMinimum": 0},
        "b": {"type": ["string", "null"], "enum": ["x", None]},
    }
    assert made.request({"b": None}).body == {"b": None}
    with pytest.raises(ToolError, match="above 0"):
        made.request({"a": 0})


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_a_path_parameter_cannot_name_another_path(value: str) -> None:
    with pytest.raises(ToolError, match="cannot be"):
        endpoint({"operationId": "f", "parameters": [ID]}).request({"id": value})


@pytest.mark.parametrize(
    "broken, words",
    [
        ({"swagger": "2.0"}, "the document's version is 2.0; OpenAPI 3 is needed"),
        ({"openapi": "3.0.0", "paths": {}}, "has no operations"),
        (document({"operationId": "f", "requestBody": {"$ref": "#/nowhere"}}), "'#/nowhere' leads nowhere"),
        (document({"operationId": "f", "parameters": [{"$ref": "other.json#/x"}]}), "leads out of the document"),
        (document({"operationId": "f", "parameters": [{"in": "query"}]}), "f: a parameter lacks 'name' or 'in'"),
    ],
)
def test_a_broken_document_is_refused(broken: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        read_endpoints(broken)


def test_json_and_yaml_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(company_document()))
    assert load_document(str(tmp_path / "a.json")) == company_document()
    pytest.importorskip("yaml")
    (tmp_path / "b.yaml").write_text("openapi: 3.1.0\npaths:\n  /a:\n    get: {operationId: a}\n")
    (made,) = read_endpoints(load_document(str(tmp_path / "b.yaml")))
    assert (made.name, made.method) == ("a", "GET")


@pytest.mark.parametrize(
    "name, content, words",
    [("a.json", "{", "cannot be parsed"), ("a.json", "[]", "holds no object"), ("", "", "cannot")],
)
def test_a_file_that_is_no_document_is_refused_in_one_line(tmp_path: Path, name: str, content: str, words: str) -> None:
    path = tmp_path / (name or "none.json")
    if name:
        path.write_text(content)
    with pytest.raises(ValueError, match=words) as caught:
        load_document(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value, schema, words",
    [
        (True, {"type": "integer"}, "of type integer, not true"),
        (float("inf"), {"type": "number"}, "of type number"),
        (1, {"enum": [True, "1"]}, "one of"),
        ("", {"minLength": 1}, "at least 1 characters"),
        ([1, 2], {"maxItems": 1}, "at most 1 entries"),
        ({"a": 1}, {"additionalProperties": {"type": "string"}}, "'x.a' of f must be of type string"),
        ({}, {"required": ["a"]}, "f, in x needs the argument 'a'"),
        (3, {"oneOf": [{"type": "string"}, {"maximum": 2}]}, "of type string"),
        (3, {"allOf": [{"type": "integer"}, {"maximum": 2}]}, "at most 2"),
    ],
)
def test_values_that_do_not_fit_are_told(value: Any, schema: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolError, match=re.escape(words)):
        check_value(value, schema, "f", "x")
