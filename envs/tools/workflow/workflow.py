"""Settle a request by the endpoints of an API that an OpenAPI document describes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from envs.adapters.named_function import load_function
from envs.episodes.guide import Guide
from envs.games.game import check_range
from envs.tools.bm25 import BM25
from envs.tools.database_env import EPISODE_FIELDS
from envs.tools.workflow.company_document import company_endpoints
from envs.tools.workflow.openapi import Endpoint, load_document, read_endpoints
from envs.tools.workflow.workflow_tasks import company_tasks, file_tasks, open_company, rows_of_split
from envs.tools.workflow.workflow_tools import WorkflowTools, index_endpoints, is_same_value, plain_value
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, final_text, user

Offer = Literal["search", "all"]
OWN_FIELDS = ("backend", "report", "_calls_made")


class Workflow(WorkflowTools):
    """Settle a request by an API of many endpoints, of which few are needed: find them, call them, report.

    The bundled API is that of a company: 73 endpoints over customers, leads, orders, products, invoices, staff and
    tickets, with pages of ten rows, references by number and rules of its own.

    Observation: the request; then the results of the calls as JSON.
    Action: tool calls, native or as JSON on the last lines of the reply, all made in order.
    Tools: find_endpoints(query) searches the API's documentation, call_endpoint(name, arguments) makes a call, and
    finish(values, possible) reports the values asked for, and whether the request was possible. With `tools=all` each
    endpoint is a tool of its own instead of the first two.
    Reward: 1 at the end if the final state of the API's data equals that after the oracle's calls, the report has the
    right values in their order (numbers by value, texts apart from case and blanks), and it says rightly whether the
    request was possible; else 0. Named rewards: `state`, `values` (the share of them that are right) and `possible`.
    Metrics: `calls` and `errors` of the turn.
    Episode end: terminated by the report, right or wrong; truncated after `max_turns`.
    Tasks: 14 kinds: six ask (joins by number over up to four tables, filters, pages), eight change something. Of those,
    six are drawn so that they are sometimes refused, by the API or by a rule in the request; then nothing may change.
    Arguments: `tools`: search or all; `found`, the endpoints that a search lists; `level` 0 asks for one value of one
    row whose number is known (5,000 training tasks), and in short style it offers no tools, only calls as text; 1, the
    default, has the 14 kinds; `openapi`, a file of your own
    API, with `backend`, `path.py:function` or `module:function`, which returns what carries out the requests of an
    episode, and `tasks`, a JSON-lines file. docs/workflow.md describes all three.
    Splits: a request stands in one split only; in a file of your own, each row names its split.
    State: the data, the calls that were carried out, and the turns left. Episodes fork by `snapshot` and `restore`; a
    backend of your own must be copyable by `copy.deepcopy` for that.
    Source and licence: generated; the setting of CUGA (arXiv:2510.23856) and ECLAIR (arXiv:2405.03710). Version
    history: v0.
    """

    max_turns = 24

    def __init__(
        self,
        *,
        tools: Offer = "search",
        found: int = 5,
        level: int = 1,
        openapi: str = "",
        backend: str = "",
        tasks: str = "",
        **limits: Any,
    ) -> None:
        super().__init__(**limits)
        if tools not in get_args(Offer):
            raise ValueError(f"tools {tools!r} is not one of {', '.join(get_args(Offer))}")
        if isinstance(found, bool) or found not in range(1, 101):
            raise ValueError(f"found {found!r} is outside 1..100")
        own = {"openapi": openapi, "backend": backend, "tasks": tasks}
        missing = [name for name, value in own.items() if not value]
        if missing and len(missing) < len(own):
            raise ValueError(f"an API of your own needs openapi=, backend= and tasks=; {missing[0]} is missing")
        self.level = check_range("level", level, range(2))
        if openapi and not level:
            raise ValueError("level 0 is one of the bundled API; leave it out with openapi=")
        self.offer, self.max_results, self.blocking = tools, found, bool(openapi)
        self._backend_name = backend
        self._open_backend: Callable[[Mapping[str, Any]], Any] = open_company
        self._rows: Sequence[Mapping[str, Any]] = ()
        endpoints: Sequence[Endpoint] = company_endpoints()
        if openapi:
            endpoints = read_endpoints(load_document(openapi))
            self._open_backend, self._rows = load_function(backend), file_tasks(tasks, endpoints)
        self.endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self._tool_names = {endpoint.operation: endpoint.name for endpoint in endpoints}
        self.backend: Any = None
        self._calls_made: set[str] = set()
        if tools == "all":
            if "finish" in self.endpoints:
                raise ValueError(
                    "tools=all: the API has an operation 'finish', the name of the report; use tools=search"
                )
            finish = self._methods["finish"].schema
            self.tools = (*(endpoint.tool for endpoint in endpoints), finish)
        self._has_text_calls = level == 0 and self.style == "short"  # for a model whose prompts have no room for tools
        if self._has_text_calls:
            self.tools = ()

    @cached_property
    def _documentation(self) -> BM25:
        return index_endpoints([*self.endpoints.values()])

    def _index(self) -> BM25:
        return self._documentation

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the generated workflows, or the rows of the file. Raises NoSplit for a split that the file lacks."""
        return rows_of_split(self._rows, split) if self._rows else company_tasks(split, self.level)

    def start(self) -> Messages:
        """Open the backend and make the request."""
        self.close()
        self.backend = self._opened_backend()
        self.report, self._calls_made = None, set()
        row = self.task.metadata
        return (user(row.get("short_request", row["request"]) if self.style == "short" else row["request"]),)

    def guide(self) -> Guide:
        """Say how to find and call endpoints, and how to report."""
        if self.offer == "all":
            how = "Each endpoint of the API is a tool of yours."
            example: dict[str, Any] = {"name": "finish", "arguments": {"values": ["first value", 2], "possible": True}}
        else:
            how = (
                f"The API has {len(self.endpoints)} endpoints. find_endpoints(query) lists at most {self.max_results} "
                "of them that fit your words, with their arguments; if none of these will do, search again in other "
                "words, such as list, create or update and the thing. call_endpoint(name, arguments) calls one."
            )
            example = {"name": "find_endpoints", "arguments": {"query": "what you want to do"}}
        return Guide(
            goal=(
                "Settle a request by calls of an API. You succeed if in the end the data are exactly as the request "
                "wants them, you report the values that it asks for, and you say rightly whether it was possible. "
                "Change nothing that the request does not ask for."
            ),
            rules=(
                f"{how} The number of a row is its id; look it up, do not guess it. A list may have several pages. "
                "The API refuses what its rules forbid and says why.\n\nfinish(values, possible) ends your work: "
                "`values` are the values asked for, in the order of the request, each an entry of its own: a number "
                "without a unit, anything else, such as a name or a date, exactly as the API writes it. `possible` is "
                "false if the request could not be carried out; the "
                "values are reported all the same."
            ),
            reply=(
                "Reply with one or more calls of these tools, natively or as JSON lines at the end of your reply. All "
                "are made, in order."
            ),
            thinking="You may think first; put the calls, each on a line of its own, at the end of your reply.",
            example=json.dumps(example),
            ending="The episode ends with your report, right or wrong.",
            invalid="A reply without a call, or with calls that all fail, uses up a reply and changes nothing.",
            heading="The request:",
        )

    def state(self) -> str:
        """The task, digests of the data and of the calls carried out, and the turns left."""
        calls = hashlib.blake2b(repr(sorted(self._calls_made)).encode("utf-8", "replace"), digest_size=8)
        data = hashlib.blake2b(_canonical(self.backend.state()).encode("utf-8", "replace"), digest_size=8)
        left = self.max_turns - self.turns
        return f"{self.task.id} data {data.hexdigest()} calls {calls.hexdigest()} left {left}"

    def call(self, name: str, arguments: str) -> str:
        """Call a tool, or with `tools=all` an endpoint."""
        if self.offer == "all" and name != "finish":
            return self.call_api(name, self.parse_arguments(name, arguments))
        return super().call(name, arguments)

    def answer(self, reply: str) -> Outcome:
        """Say that a reply needs a call."""
        return self._outcome((user(self.correction("This reply has no call of a tool.", short="?")),), 1, 1)

    def after_calls(self, results: Messages) -> Outcome:
        """Judge a report, or go on."""
        if self.report is None:
            return Outcome(results, rewards={"state": 0.0, "values": 0.0, "possible": 0.0})
        values, possible = self.report
        gold = self.task.answer
        shares = [is_same_value(value, right) for value, right in zip(values, gold, strict=False)]
        value_share = sum(shares) / max(len(gold), len(values)) if gold or values else 1.0
        has_state = _canonical(self.backend.state()) == self._right_state()
        is_verdict_right = possible == self.task.metadata["possible"]
        is_right = has_state and value_share == 1.0 and is_verdict_right
        rewards = {"state": float(has_state), "values": value_share, "possible": float(is_verdict_right)}
        return Outcome((), float(is_right), True, is_right, rewards=rewards)

    def ending(self, outcome: Outcome) -> str:
        """Say what of the outcome is right."""
        names = {"state": "the data", "values": "the values of your report", "possible": "whether it was possible"}
        wrong = [words for name, words in names.items() if outcome.rewards[name] < 1.0]
        return f"What is wrong: {'; '.join(wrong)}." if wrong else "The data and your report are right."

    def vote(self, action: Message) -> Hashable | None:
        """The report that a reply makes; None for a reply that makes none."""
        try:
            if calls := action.get("tool_calls"):
                pairs = [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
            else:
                pairs = [*self._last_calls(final_text(action))]
            text = next((arguments for name, arguments in pairs if name == "finish"), None)
            report = None if text is None else self._methods["finish"].parse(text)
        except ToolError:
            return None
        if report is None:
            return None
        return tuple(plain_value(str(value)) for value in report["values"]), report.get("possible", True)

    def snapshot(self) -> dict[str, Any]:
        """Copy the moment of an episode: the backend, the calls made, and what `Env` holds."""
        return deepcopy({name: vars(self)[name] for name in (*EPISODE_FIELDS, *OWN_FIELDS) if name in vars(self)})

    def restore(self, moment: dict[str, Any]) -> None:
        """Go back to a moment that `snapshot` has returned, any number of times, on any instance with its task."""
        self.close()
        vars(self).update(deepcopy(moment))

    def close(self) -> None:
        """Close the backend, if it has a method for that."""
        backend, self.backend = self.backend, None
        _close(backend)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the function that opens backends, which a copy loads again."""
        return {name: value for name, value in vars(self).items() if name != "_open_backend"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open_backend = load_function(self._backend_name) if self._backend_name else open_company

    def oracle(self) -> Iterator[Message]:
        """Search for the endpoints, make the calls of the task one after another, and report."""
        calls = [(self._tool_names[call["name"]], call.get("arguments", {})) for call in self.task.metadata["calls"]]
        if self.offer == "search" and calls:
            descriptions = dict.fromkeys(self.endpoints[name].description or name for name, _ in calls)
            yield self._message(*(("find_endpoints", {"query": text}) for text in descriptions))
        for batch in self._batches(calls):
            if self.offer == "all":
                yield self._message(*batch)
            else:
                pairs = [{"name": name, "arguments": arguments} for name, arguments in batch]
                yield self._message(*(("call_endpoint", pair) for pair in pairs))
        report = {"values": self.task.answer, "possible": self.task.metadata["possible"]}
        yield self._message(("finish", report))

    def random(self, rng: np.random.Generator) -> Message:
        """Read a page of a list, or report what the request says."""
        words = self.task.metadata["request"].split()
        if rng.random() < 0.2:
            return self._message(("finish", {"values": [str(rng.choice(words))], "possible": bool(rng.random() < 0.5)}))
        name = str(rng.choice([*self.endpoints]))
        if self.offer == "all":
            return self._message((name, {}))
        choices = ({"name": name, "arguments": {}}, {"query": str(rng.choice(words))})
        place = int(rng.integers(2))
        return self._message((("call_endpoint", "find_endpoints")[place], choices[place]))

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0: reports with other values, with more of them, and with the wrong verdict."""
        values, possible = self.task.answer, self.task.metadata["possible"]

        def report(values: Sequence[str], possible: bool) -> str:
            return json.dumps({"name": "finish", "arguments": {"values": [*values], "possible": possible}})

        attacks = (
            *super().attacks(),
            report(values, not possible),
            report([*values, "0"], possible),
            report([" ".join(values), "or"], possible),
        )
        if self.style == "short":  # only the last line is read
            return attacks
        return (*attacks, f"{report([*values, 'x'], possible)}\n{report(values, possible)}")

    def _opened_backend(self) -> Any:
        return self._open_backend(deepcopy(dict(self.task.metadata)) if self._rows else self.task.metadata)

    def _right_state(self) -> str:
        """The state after the oracle's calls on data of their own."""
        backend = self._opened_backend()
        try:
            for call in self.task.metadata["calls"]:
                endpoint = self.endpoints[self._tool_names[call["name"]]]
                backend.call(endpoint.request(call.get("arguments", {})))
            return _canonical(backend.state())
        except ToolError as error:
            raise RuntimeError(f"task {self.task.id}: the right calls are refused: {error}") from None
        finally:
            _close(backend)

    def _batches(self, calls: Sequence[tuple[str, Any]]) -> Iterator[Sequence[tuple[str, Any]]]:
        """As many calls a reply as the limit of turns asks for."""
        size = max(1, -(-len(calls) // max(1, self.max_turns - 2)))
        for first in range(0, len(calls), size):
            yield calls[first : first + size]

    def _message(self, *calls: tuple[str, Any]) -> Message:
        if self._has_text_calls:
            ((name, arguments),) = calls
            return assistant(json.dumps({"name": name, "arguments": arguments}))
        return assistant(tool_calls=list(calls), first_id=32 * self.turns)


def _canonical(state: Any) -> str:
    return json.dumps(state, sort_keys=True, default=str)


def _close(backend: Any) -> None:
    close = getattr(backend, "close", None)
    if callable(close):
        close()
