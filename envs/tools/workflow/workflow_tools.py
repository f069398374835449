"""The tools of a workflow: find endpoints in the API's documentation, call one, report the outcome."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from envs.suggestions import unknown_message
from envs.tools.bm25 import BM25
from envs.tools.tool import tool
from envs.tools.tool_env import ToolEnv
from envs.tools.workflow.openapi import Endpoint
from envs.types import NegativeResult, ToolError

MAX_QUERY = 1_000  # characters of a query that are searched for
MAX_ARGUMENTS = 100_000  # characters of a call's arguments
MAX_RESULT = 10_000  # characters of a result that the policy sees
MAX_VALUES = 20  # of a report
MAX_VALUE = 500  # characters of one
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class WorkflowTools(ToolEnv):
    """A tool environment over the endpoints of an API.

    Attributes:
        endpoints: By their names in tool calls.
        backend: What carries out requests in this episode.
        max_results: Endpoints that a search lists at most.
        report: The values and the verdict on whether the request is possible, once reported; None before.
    """

    endpoints: Mapping[str, Endpoint]
    backend: Any
    max_results: int
    report: tuple[Sequence[str], bool] | None = None
    _calls_made: set[str]

    @tool
    def find_endpoints(self, query: str) -> str:
        """List the endpoints of the API whose documentation fits a query best, with their arguments.

        Args:
            query: Words to search for, such as what the endpoint does.
        """
        self._check_open()
        if not query.strip():
            raise ToolError("find_endpoints needs words")
        documentation = [*self.endpoints.values()]
        places = self._index().best(_words(query[:MAX_QUERY]), self.max_results)
        if not places:
            raise NegativeResult("no endpoint fits these words")
        return "\n\n".join(describe(documentation[place]) for place in places)

    @tool
    def call_endpoint(self, name: str, arguments: dict[str, Any] = {}) -> str:  # noqa: B006  # it is not changed
        """Call an endpoint of the API.

        Args:
            name: Name of the endpoint, as find_endpoints lists it.
            arguments: Its arguments by name, a JSON object.
        """
        return self.call_api(name, arguments)

    @tool
    def finish(self, values: list[str | int | float], possible: bool = True) -> str:
        """Report the outcome, which ends the episode.

        Args:
            values: The values that the request asks you to report, in its order.
            possible: Whether the request could be carried out; false if it is not possible.
        """
        self._check_open()
        if len(values) > MAX_VALUES:
            raise ToolError(f"finish takes at most {MAX_VALUES} values")
        self.report = [str(value)[:MAX_VALUE] for value in values], possible
        return "done"

    def call_api(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Make a call and return its result as JSON. Raises ToolError for the model's mistakes and for refusals."""
        self._check_open()
        if name not in self.endpoints:
            raise ToolError(unknown_message("endpoint", name, self.endpoints))
        request = self.endpoints[name].request(arguments)
        try:
            text = json.dumps(arguments, allow_nan=False, ensure_ascii=False, sort_keys=True)
            text.encode()
        except (ValueError, RecursionError):
            raise ToolError(f"the arguments of {name} hold what JSON cannot") from None
        result = self.backend.call(request)
        self._calls_made.add(f"{name} {text}")
        content = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
        return content if len(content) <= MAX_RESULT else f"{content[:MAX_RESULT]}... ({len(content)} characters)"

    def parse_arguments(self, name: str, arguments: str) -> dict[str, Any]:
        """Read the arguments of a call of an endpoint that is offered as a tool. Raises ToolError for no object."""
        try:
            values = json.loads(arguments.strip() or "{}") if len(arguments) <= MAX_ARGUMENTS else None
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise ToolError(f"the arguments of {name} are no JSON object")
        return values

    def _index(self) -> BM25:
        raise NotImplementedError

    def _check_open(self) -> None:
        if self.report is not None:
            raise ToolError("the report has ended the episode")


def index_endpoints(endpoints: Sequence[Endpoint]) -> BM25:
    """Return an index of the documentation: names, methods, paths, descriptions and arguments."""
    return BM25(
        [
            _words(f"{each.name} {each.name} {each.path} {each.description} {' '.join(each.schema['properties'])}")
            for each in endpoints
        ]
    )


def describe(endpoint: Endpoint) -> str:
    """Return what the documentation says about an endpoint."""
    return (
        f"{endpoint.name}: {endpoint.method} {endpoint.path}\n{endpoint.description}\n"
        f"arguments: {json.dumps(endpoint.schema, ensure_ascii=False)}"
    )


def is_same_value(value: str, right: str) -> bool:
    """Whether a reported value is the right one: numbers by value, texts apart from case and blanks."""
    try:
        return abs(float(value) - float(right)) < 1e-6
    except ValueError:
        return plain_value(value) == plain_value(right)


def plain_value(text: str) -> str:
    """Return a value without what makes no difference: case and blanks."""
    return " ".join(text.split()).casefold()


def _words(text: str) -> str:
    """The text with `listOrderLines` and `order_id` as words of their own, plurals cut."""
    parts = re.findall(r"[^\W_]+", _HUMP.sub(" ", text))
    return " ".join(part[:-1] if len(part) > 3 and part.endswith("s") else part for part in parts)
