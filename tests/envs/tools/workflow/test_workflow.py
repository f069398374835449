"""`tools/Workflow-v0`: the company's API and tasks, what is judged, near misses, and APIs of one's own."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import envs
from envs.checks import contract, isolation, rewards
from envs.checks.env_under_test import EnvUnderTest
from envs.tools.workflow.company_document import company_document
from envs.tools.workflow.workflow import Workflow
from envs.types import Message, assistant, text
from tests.support.hostile_calls import hostile_reply
from tests.support.paths import ROOT

READS = ("list", "get")


@pytest.fixture(scope="module")
def env() -> Iterator[Any]:
    made = envs.make("tools/Workflow-v0").unwrapped
    yield made
    made.close()


def begin(env: Any, index: int) -> None:
    env.reset(seed=0, options={"split": "test", "index": index})


def play(env: Any, calls: Sequence[dict[str, Any]], values: Sequence[Any], possible: bool) -> dict[str, Any]:
    """The last info after the calls and a report; its `reward` is that of the last turn."""
    for call in calls:
        env.step(assistant(tool_calls=[("call_endpoint", call)]))
    *_, reward, terminated, _, info = env.step(
        assistant(tool_calls=[("finish", {"values": [*values], "possible": possible})])
    )
    assert terminated
    return {**info, "reward": reward}


def is_write(call: dict[str, Any]) -> bool:
    return not call["name"].startswith(READS)


def test_the_api_is_large_and_the_tasks_are_of_all_kinds(env: Any) -> None:
    assert len(env.endpoints) == 73
    tasks = env.load("test")
    assert len(tasks) == 200
    kinds = Counter((any(map(is_write, task.metadata["calls"])), task.metadata["possible"]) for task in tasks)
    assert min(kinds[False, True], kinds[True, True], kinds[False, False]) >= 25
    assert any(call["arguments"].get("page") == 2 for task in tasks for call in task.metadata["calls"])


def test_level_0_asks_for_one_value_of_a_row_whose_number_is_known() -> None:
    env = envs.make("tools/Workflow-v0", level=0, style="short").unwrapped
    tasks = {split: env.load(split) for split in ("train", "val", "test")}
    assert [len(tasks[split]) for split in tasks] == [5000, 100, 200]
    keys = [{(task.metadata["world"], task.metadata["request"]) for task in tasks[split]} for split in tasks]
    assert not keys[0] & keys[2] and not keys[0] & keys[1] and not keys[1] & keys[2]
    for index in range(60):
        (opening,), _ = env.reset(seed=0, options={"split": "test", "index": index})
        (call,) = env.task.metadata["calls"]
        thing, number, column = text(opening).split()
        assert call == {"name": f"get{thing.capitalize()}", "arguments": {"id": int(number)}}
        (shown,), *_ = env.step(assistant(tool_calls=[("call_endpoint", call)]))
        assert [str(json.loads(text(shown))[column])] == env.task.answer
    env.close()


@pytest.mark.parametrize("offer", ["search", "all"])
def test_level_0_in_short_style_is_called_by_text_and_lists_no_tools(offer: str) -> None:
    env = envs.make("tools/Workflow-v0", level=0, style="short", tools=offer).unwrapped
    for index in range(5):
        _, info = env.reset(seed=0, options={"split": "test", "index": index})
        assert info["tools"] == []
        reward = 0.0
        for message in env.oracle():
            assert not message.get("tool_calls") and "\n" not in text(message)
            reward = env.step(message)[1]
        assert reward == 1.0
    env.close()


def test_level_0_is_none_of_an_api_of_ones_own() -> None:
    with pytest.raises(ValueError, match="level 0 is one of the bundled API; leave it out with openapi="):
        envs.make("tools/Workflow-v0", level=0, openapi="a.json", backend="b:c", tasks="d.jsonl")
    with pytest.raises(ValueError, match="level"):
        envs.make("tools/Workflow-v0", level=2)


def test_every_call_of_the_right_ones_is_carried_out(env: Any) -> None:
    for index in range(60):
        begin(env, index)
        for call in env.task.metadata["calls"]:
            messages, *_ = env.step(assistant(tool_calls=[("call_endpoint", call)]))
            assert not text(messages[0]).startswith("error: "), (env.task.metadata["request"], call, messages)


def test_the_right_values_stand_in_what_the_right_calls_return(env: Any) -> None:
    """Those that are no counts or sums: names, codes, days and states."""
    for index in range(60):
        begin(env, index)
        calls = [call for call in env.task.metadata["calls"] if not is_write(call)]
        shown = "".join(text(env.step(assistant(tool_calls=[("call_endpoint", call)]))[0][0]) for call in calls)
        for value in env.task.answer:
            assert value.isdigit() or value in shown, (env.task.metadata["request"], value)


def test_near_misses_fail(env: Any) -> None:
    writes = 0
    for index in range(80):
        begin(env, index)
        row = env.task.metadata
        values, possible = row["values"], row["possible"]
        changes = [call for call in row["calls"] if is_write(call)]
        begin(env, index)
        assert play(env, changes, values, possible)["success"]
        misses = [
            (changes, values, not possible),
            (changes, [*values[:-1], "other"], possible),
            (changes, values[:-1], possible),
            (changes, [*reversed(values), ""], possible),
            ([*changes, {"name": "updateLead", "arguments": {"id": 1, "value": 7}}], values, possible),
        ]
        if changes:
            writes += 1
            misses += [
                (changes[:-1], values, possible),
                ([*changes[:-1], _other(changes[-1])], values, possible),
            ]
        for miss in misses:
            begin(env, index)
            info = play(env, *miss)
            assert not info["success"] and info["reward"] == 0, (row["request"], miss)
            assert min(info["rewards"].values()) < 1
    assert writes > 15


def _other(call: dict[str, Any]) -> dict[str, Any]:
    """The same call with another value in its last argument."""
    key, value = list(call["arguments"].items())[-1]
    return {**call, "arguments": {**call["arguments"], key: value + 1 if isinstance(value, int) else "2031-01-01"}}


def test_what_the_rules_forbid_is_refused_and_changes_nothing(env: Any) -> None:
    begin(env, 0)
    before = env.backend.state()
    rows = env.backend.database.rows
    shipped = rows("select id from orders where status = 'shipped'")[0]["id"]
    closed = rows("select id from tickets where status = 'closed'")[0]["id"]
    idle = rows("select id from employees where active = 0")[0]["id"]
    ticket = rows("select id from tickets where status = 'assigned'")[0]["id"]
    invoice = rows("select * from invoices where status = 'open'")[0]
    main = rows("select id from contacts where main = 1")[0]["id"]
    payment = {"invoice_id": invoice["id"], "amount": invoice["amount"] - 1, "method": "card", "date": "2031-05-01"}
    for name, arguments, words in (
        ("cancelOrder", {"id": shipped}, "is shipped"),
        ("assignTicket", {"id": closed, "assignee_id": 1}, "is closed"),
        ("assignTicket", {"id": ticket, "assignee_id": idle}, "is not active"),
        ("createPayment", payment, "the amount of invoice"),
        ("createPayment", {**payment, "amount": invoice["amount"], "date": "20310501"}, "must be a day"),
        ("deleteContact", {"id": main}, "cannot be deleted"),
        ("createOrderLine", {"order_id": shipped, "product_id": 1, "quantity": 1}, "not open"),
        ("updateCustomer", {"id": 1, "owner_id": 999}, "there is no employee 999"),
        ("updateCustomer", {"id": 1}, "at least one field"),
        ("updateCustomer", {"id": 1, "name": " "}, "name is empty"),
        ("listOrders", {"page": 99}, "page 99 of 13"),
        ("listOrders", {"pages": 1}, "did you mean 'page'?"),
        ("listOrder", {}, "did you mean 'listOrders'?"),
    ):
        messages, *_ = env.step(assistant(tool_calls=[("call_endpoint", {"name": name, "arguments": arguments})]))
        assert text(messages[0]).startswith("error: ") and words in text(messages[0]), messages
    assert env.backend.state() == before


def test_the_search_finds_the_endpoints_of_every_task_by_what_they_do(env: Any) -> None:
    begin(env, 0)
    for query, name in (
        ("cancel an order", "cancelOrder"),
        ("list invoices of a customer", "listInvoices"),
        ("enter a payment of an invoice", "createPayment"),
        ("assign a ticket", "assignTicket"),
        ("approve absence", "approveAbsence"),
        ("read one employee", "getEmployee"),
        ("change phone of a contact", "updateContact"),
        ("set pieces in stock", "restockProduct"),
    ):
        messages, *_ = env.step(assistant(tool_calls=[("find_endpoints", {"query": query})]))
        assert re.search(rf"^{name}: [A-Z]+ /", text(messages[0]), re.M), (query, text(messages[0]))


@pytest.mark.parametrize("arguments", [{"tools": "all"}, {"style": "short"}, {"max_turns": 4}])
def test_other_arguments_keep_the_contract(arguments: dict[str, Any]) -> None:
    subject = EnvUnderTest("tools/Workflow-v0", arguments, tasks=6)
    for check in (contract.limits, contract.bad_input, isolation.determinism, rewards.oracle, rewards.attacks):
        assert not list(check(subject)), check


def test_all_endpoints_can_be_offered_as_tools() -> None:
    env = Workflow(tools="all")
    info = env.reset(seed=0, options={"split": "test", "index": 0})[1]
    names = [tool["function"]["name"] for tool in info["tools"]]
    assert len(names) == 74 and names[-1] == "finish"
    messages, *_ = env.step('{"name": "getDepartment", "arguments": {"id": 1}}')
    assert json.loads(text(messages[0]))["id"] == 1
    assert "unknown endpoint" in text(env.step('{"name": "find_endpoints", "arguments": {"query": "x"}}')[0][0])


@pytest.mark.parametrize("tools", ["search", "all"])
def test_hostile_calls_are_answered_and_change_nothing(tools: Any) -> None:
    env = Workflow(tools=tools, max_turns=2000)
    info = env.reset(seed=0, options={"split": "test", "index": 1})[1]
    schemas = [tool for tool in info["tools"] if tool["function"]["name"] != "finish"]
    rng = np.random.default_rng(0)
    before = env.backend.state()
    for _ in range(100):
        *_, reward, terminated, _, _ = env.step(hostile_reply(rng, schemas))
        assert reward == 0 and not terminated
    if tools == "search":
        values = ("\ud800", "a" * 100_000, 10**400, -(2**80), 1e308, None, [], {"$ref": "x"}, True)
        for endpoint in env.endpoints.values():
            for value in values:
                arguments = dict.fromkeys(endpoint.schema["properties"], value)
                call = {"name": endpoint.name, "arguments": arguments}
                if arguments and endpoint.method != "GET":
                    env.step(assistant(tool_calls=[("call_endpoint", call)]))
        assert env.backend.state() == before


def test_an_episode_forks_at_any_moment(env: Any) -> None:
    index = next(i for i, task in enumerate(env.load("test")) if any(map(is_write, task.metadata["calls"])))
    begin(env, index)
    row = env.task.metadata
    moment, state = env.snapshot(), env.state()
    changes = [call for call in row["calls"] if is_write(call)]
    assert play(env, changes, row["values"], True)["success"]
    env.restore(moment)
    assert env.state() == state
    assert not play(env, [], row["values"], True)["success"]
    env.restore(moment)
    assert play(env, changes, row["values"], True)["success"]


@pytest.fixture
def lending(tmp_path: Path) -> dict[str, str]:
    """The example of the guide, as files."""
    page = (ROOT / "docs" / "workflow.md").read_text("utf-8")
    document, tasks = re.findall(r"```json\n(.*?)```", page, re.S)
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    for name, content in (("lending.json", document), ("lending.jsonl", tasks), ("lending.py", code)):
        (tmp_path / name).write_text(content, "utf-8")
    return {
        "openapi": str(tmp_path / "lending.json"),
        "backend": f"{tmp_path / 'lending.py'}:open_lending",
        "tasks": str(tmp_path / "lending.jsonl"),
    }


@pytest.mark.parametrize("tools", ["search", "all"])
def test_the_example_of_the_guide_keeps_the_contract(lending: dict[str, str], tools: str) -> None:
    subject = EnvUnderTest("tools/Workflow-v0", {**lending, "tools": tools})
    for check in (contract.splits, contract.limits, isolation.pickling, rewards.oracle, rewards.attacks):
        assert not list(check(subject)), check


def test_names_of_an_own_document_lead_back(lending: dict[str, str]) -> None:
    env = Workflow(**lending)
    env.reset(seed=0, options={"split": "test", "index": 0})
    messages, *_ = env.step(call("books_list", author="Austen"))
    assert [book["id"] for book in json.loads(text(messages[0]))] == [1, 2]
    assert "there is no book 9" in text(env.step(call("books_lend", id=9, reader="x"))[0][0])
    env.step(call("books_lend", id=2, reader="Mr Elton"))
    info = env.step(assistant(tool_calls=[("finish", {"values": [2]})]))[-1]
    assert info["rewards"] == {"state": 0, "values": 1, "possible": 1} and not info["success"]


def call(name: str, **arguments: Any) -> Message:
    return assistant(tool_calls=[("call_endpoint", {"name": name, "arguments": arguments})])


@pytest.mark.parametrize(
    "line, words",
    [
        ("{", "lending.jsonl:1: not JSON"),
        ("{}", "lending.jsonl:1: needs a request"),
        ('{"request": "x"}', "needs calls or values"),
        ('{"request": "x", "values": 3}', "values is 3, not of type list"),
        ('{"request": "x", "values": [[]]}', "values are texts and numbers"),
        ('{"request": "x", "calls": [{"name": "books.burn"}]}', "the document has no operation for the call"),
        ('{"request": "x", "values": [1], "split": "dev"}', "split 'dev' is not one of"),
        ("", "the file has no rows"),
    ],
)
def test_a_malformed_file_of_tasks_is_refused(lending: dict[str, str], line: str, words: str) -> None:
    Path(lending["tasks"]).write_text(line)
    with pytest.raises(ValueError, match=re.escape(words)):
        Workflow(**lending)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"tools": "some"}, "tools 'some' is not one of search, all"),
        ({"found": 0}, "found 0 is outside 1..100"),
        ({"openapi": "a.json"}, "backend is missing"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Workflow(**arguments)


def test_the_document_of_the_company_is_json() -> None:
    assert json.loads(json.dumps(company_document())) == company_document()
