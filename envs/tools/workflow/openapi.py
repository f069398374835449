"""Read an OpenAPI 3 document: each operation becomes an endpoint with one JSON object of arguments."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from envs.tools.workflow.schema_check import check_value
from envs.types import ToolError

METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")
PLACES = ("path", "query", "header")
IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})  # OpenAPI 3.1, section 4.8.12
MAX_NAME = 64  # characters of a name in a tool call
MAX_DEPTH = 40  # of schemas in schemas
_KEYWORDS = frozenset(
    """
    type enum const items properties required additionalProperties description default format pattern minimum maximum
    exclusiveMinimum exclusiveMaximum minLength maxLength minItems maxItems uniqueItems multipleOf anyOf oneOf allOf
    """.split()  # noqa: SIM905
)
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class Request(NamedTuple):
    """A request to an API, as a backend gets it.

    Attributes:
        operation: The operation's id in the document.
        method: "GET", "POST", ...
        path: The path, with the parameters filled in and escaped.
        parameters: Path parameters by their names in the document.
        query: Query parameters, likewise.
        headers: Header parameters, likewise.
        body: The JSON body; None without one.
    """

    operation: str
    method: str
    path: str
    parameters: Mapping[str, Any]
    query: Mapping[str, Any]
    headers: Mapping[str, Any]
    body: Any = None


class Endpoint(NamedTuple):
    """An operation of an API.

    Attributes:
        name: Its name in tool calls.
        operation: Its id in the document.
        method: "GET", "POST", ...
        path: The path with placeholders: "/orders/{id}".
        description: Summary and description.
        schema: JSON Schema of all arguments, one closed object.
        places: Where each argument belongs: "path", "query", "header" or "body", and its own name there; "" for an
            argument that is the whole body.
    """

    name: str
    operation: str
    method: str
    path: str
    description: str
    schema: Mapping[str, Any]
    places: Mapping[str, tuple[str, str]]

    @property
    def tool(self) -> dict[str, Any]:
        """The OpenAI function schema."""
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}

    def request(self, arguments: Mapping[str, Any]) -> Request:
        """Return the request of a call. Raises ToolError for arguments that do not fit the schema."""
        try:
            check_value(arguments, self.schema, self.name)
        except RecursionError:
            raise ToolError(f"the arguments of {self.name} are nested too deeply") from None
        parts: dict[str, dict[str, Any]] = {place: {} for place in (*PLACES, "body")}
        body: Any = None
        for key, value in arguments.items():
            place, own_name = self.places[key]
            if place == "body" and not own_name:
                body = value
            else:
                parts[place][own_name] = value
        if body is None and (parts["body"] or any(place == "body" and own for place, own in self.places.values())):
            body = parts["body"]
        path = self.path
        for key, value in parts["path"].items():
            text = value if isinstance(value, str) else json.dumps(value)
            if text in ("", ".", ".."):  # which would name another path
                raise ToolError(f"{key!r} of {self.name} cannot be {text!r}")
            path = path.replace(f"{{{key}}}", quote(text, safe="", errors="replace"))
        return Request(self.operation, self.method, path, parts["path"], parts["query"], parts["header"], body)


def load_document(path: str) -> dict[str, Any]:
    """Read an OpenAPI document from a file, `.json`, `.yaml` or `.yml`. Raises ValueError for one that is none."""
    file = Path(path).expanduser()
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"openapi {path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        if file.suffix in (".yaml", ".yml"):
            document = importlib.import_module("yaml").safe_load(text)
        else:
            document = json.loads(text)
    except ImportError:
        raise ValueError(f"openapi {path!r}: YAML needs the package pyyaml; install it, or give JSON") from None
    except Exception as error:  # a parser's errors have no common class
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"openapi {path!r} cannot be parsed: {reason}") from None
    if not isinstance(document, dict):
        raise ValueError(f"openapi {path!r} holds no object, but a {type(document).__name__}")
    return document


def read_endpoints(document: Mapping[str, Any]) -> list[Endpoint]:
    """Return the operations of an OpenAPI document, in its order, with `$ref` resolved.

    Names that tool calls refuse are replaced by ones that they take; `Endpoint.operation` and `Endpoint.places` lead
    back. A part of a schema that refers to itself is cut there and takes any value. Left out: cookies, the headers that
    OpenAPI reserves, properties that are only read, responses and servers.

    Raises:
        ValueError: The document is of another version, has no operation, or a reference leads nowhere.
    """
    version = str(document.get("openapi", document.get("swagger", "missing")))
    if not version.startswith("3."):
        raise ValueError(f"the document's version is {version}; OpenAPI 3 is needed")
    paths = document.get("paths")
    endpoints: list[Endpoint] = []
    names: set[str] = set()
    operations: set[str] = set()
    for path, item in (paths if isinstance(paths, Mapping) else {}).items():
        item = _Resolver(document).follow(item)
        for method in METHODS:
            if not isinstance(item.get(method), Mapping):
                continue
            endpoint = _endpoint(document, str(path), method, item, names)
            if endpoint.operation in operations:
                raise ValueError(f"{method.upper()} {path}: the operationId {endpoint.operation!r} occurs twice")
            operations.add(endpoint.operation)
            endpoints.append(endpoint)
    if not endpoints:
        raise ValueError("the document has no operations under 'paths'")
    return endpoints


def offered_name(name: str, taken: set[str]) -> str:
    """Return a name that tool calls take, not in `taken`, and add it there."""
    plain = choice = _NO_NAME.sub("_", name)[: MAX_NAME - 4] or "unnamed"
    number = 2
    while choice in taken:
        choice, number = f"{plain}_{number}", number + 1
    taken.add(choice)
    return choice


def _endpoint(
    document: Mapping[str, Any], path: str, method: str, item: Mapping[str, Any], names: set[str]
) -> Endpoint:
    resolver, operation = _Resolver(document), item[method]
    own_id = str(operation.get("operationId") or f"{method}_{path.strip('/')}")
    taken: set[str] = set()
    properties: dict[str, Any] = {}
    required_names: list[str] = []
    places: dict[str, tuple[str, str]] = {}

    def add(place: str, own_name: str, schema: dict[str, Any], is_required: bool) -> None:
        key = offered_name(own_name or "body", taken)
        properties[key], places[key] = schema, (place, own_name)
        if is_required:
            required_names.append(key)

    for parameter in _parameters(resolver, item, operation):
        schema = resolver.schema(parameter.get("schema") or _content_schema(parameter))
        if parameter.get("description"):
            schema = {**schema, "description": parameter["description"]}
        is_required = bool(parameter.get("required")) or parameter["in"] == "path"
        add(parameter["in"], parameter["name"], schema, is_required)
    body = resolver.follow(operation.get("requestBody") or {})
    if body:
        schema = resolver.schema(_content_schema(body))
        if "properties" in schema and not {"anyOf", "oneOf", "allOf"} & schema.keys():
            for key, value in schema["properties"].items():
                is_needed = key in schema.get("required", ()) and bool(body.get("required", False))
                add("body", str(key), value, is_needed)
        else:
            add("body", "", schema, bool(body.get("required", False)))
    about = " ".join(filter(None, (operation.get("summary"), operation.get("description"))))
    closed = {"type": "object", "properties": properties, "required": required_names, "additionalProperties": False}
    return Endpoint(offered_name(own_id, names), own_id, method.upper(), path, about, closed, places)


def _parameters(
    resolver: _Resolver, item: Mapping[str, Any], operation: Mapping[str, Any]
) -> Sequence[Mapping[str, Any]]:
    """Those of the path, overridden by those of the operation."""
    by_place: dict[tuple[str, str], Mapping[str, Any]] = {}
    for entry in (*item.get("parameters", ()), *operation.get("parameters", ())):
        parameter = resolver.follow(entry)
        name, place = parameter.get("name"), parameter.get("in")
        if not isinstance(name, str) or not isinstance(place, str):
            raise ValueError(f"{operation.get('operationId', 'an operation')}: a parameter lacks 'name' or 'in'")
        if place in PLACES and not (place == "header" and name.lower() in IGNORED_HEADERS):
            by_place[place, name] = parameter
    return list(by_place.values())


def _content_schema(holder: Mapping[str, Any]) -> Any:
    """The schema of a `content`: that of JSON, else the first."""
    content = holder.get("content") or {}
    kinds = sorted(content, key=lambda kind: "json" not in str(kind))
    return content[kinds[0]].get("schema", {}) if kinds else {}


class _Resolver:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def follow(self, value: Any) -> Mapping[str, Any]:
        """The object that a value is or refers to."""
        for _ in range(MAX_DEPTH):
            if not isinstance(value, Mapping):
                raise ValueError(f"an object is expected in the document, not {str(value)[:60]!r}")
            if "$ref" not in value:
                return value
            value = self._target(value["$ref"])
        raise ValueError("a reference of the document leads back to itself")

    def schema(self, value: Any, open_refs: tuple[str, ...] = ()) -> dict[str, Any]:
        """A schema without references, in JSON Schema's words rather than those of OpenAPI 3.0."""
        if isinstance(value, bool):
            return {} if value else {"enum": []}
        if isinstance(value, Mapping) and "$ref" in value:
            reference = str(value["$ref"])
            if reference in open_refs or len(open_refs) >= MAX_DEPTH:
                return {}
            target = self.schema(self._target(reference), (*open_refs, reference))
            beside = {key: each for key, each in value.items() if key == "description"}
            return {**target, **beside}
        if not isinstance(value, Mapping):
            raise ValueError(f"a schema is expected in the document, not {str(value)[:60]!r}")
        return _in_json_schema(value, dict(self._parts(value, open_refs)))

    def _parts(self, value: Mapping[str, Any], open_refs: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for key, each in value.items():
            if key == "properties":
                shown = {name: part for name, part in each.items() if not _is_read_only(part)}
                yield key, {name: self.schema(part, open_refs) for name, part in shown.items()}
            elif key in ("anyOf", "oneOf", "allOf"):
                yield key, [self.schema(part, open_refs) for part in each]
            elif key == "items" or (key == "additionalProperties" and not isinstance(each, bool)):
                yield key, self.schema(each, open_refs)
            elif key == "required" and "properties" in value:
                yield key, [name for name in each if not _is_read_only(value["properties"].get(name))]
            elif key in _KEYWORDS:
                yield key, each

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise ValueError(f"the reference {reference!r} leads out of the document; put everything in one file")
        value: Any = self._document
        for part in reference[2:].split("/"):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if not isinstance(value, Mapping) or key not in value:
                raise ValueError(f"the reference {reference!r} leads nowhere")
            value = value[key]
        return value


def _is_read_only(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("readOnly") is True


def _in_json_schema(value: Mapping[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Replace what OpenAPI 3.0 writes in another way: `nullable`, and bounds that are exclusive by a flag."""
    for bound, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(flag), bool) and schema.pop(flag) and bound in schema:
            schema[flag] = schema.pop(bound)
    if value.get("nullable") is True and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    return schema
