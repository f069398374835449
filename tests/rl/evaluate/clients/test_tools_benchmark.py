"""The benchmark of tools with a model behind an API: tools are offered natively, and their results come back as such."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from rl.evaluate.__main__ import main as evaluate
from tests.support.chat_server import Answer, completion
from tests.support.fake_endpoint import with_server

EXAMPLES = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
GENERATED = ("tools/Search-v0", "tools/Clarify-v0", "tools/Support-v0", "tools/Travel-v0")  # parts without files


class Caller:
    """A model that calls the tools that are offered, two in its first reply, and says `done` after four results."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def __call__(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        fields = json.loads(body)
        self.requests.append(fields)
        answered = sum(message["role"] == "tool" for message in fields["messages"])
        if answered >= 4:
            return Answer(body=completion("done"))
        count = 1 if answered else 2
        tools = [fields["tools"][(answered + place) % len(fields["tools"])] for place in range(count)]
        calls = [_call(tool, answered + place) for place, tool in enumerate(tools)]
        return Answer(body=completion(None, tool_calls=calls))


def _call(tool: dict[str, Any], number: int) -> dict[str, Any]:
    """A call of a tool with an argument of the right type for each that it requires."""
    function = tool["function"]
    properties, required = function["parameters"]["properties"], function["parameters"].get("required", ())
    arguments = {name: EXAMPLES.get(properties[name].get("type", ""), "day") for name in required}
    body = {"name": function["name"], "arguments": json.dumps(arguments)}
    return {"id": f"call-{number}", "type": "function", "function": body}


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Caller, dict[str, Any]]:
    """The requests that a server got for two tasks of each part of the benchmark, and the result."""
    caller, out = Caller(), tmp_path_factory.mktemp("tools") / "r.json"

    async def use(url: str) -> int:
        words = [
            "--benchmark",
            "tools-v1",
            "--policy",
            f"openai:toy@{url}",
            "--episodes",
            "2",
            "--no-cache",
            "--data-root",
            str(out.parent),
        ]
        return await asyncio.to_thread(evaluate, [*words, "--json", str(out)])

    assert with_server(caller, use) == 0
    return caller, json.loads(out.read_text())


def test_every_part_without_files_is_played_to_its_end(evaluation) -> None:
    _, result = evaluation
    played = {name: part for name, part in result["envs"].items() if name in GENERATED}
    assert len(played) == len(GENERATED)
    assert all(part["episodes"] == 2 and not part["errors"] and part["turns_mean"] >= 2 for part in played.values())


def test_every_request_offers_tools_in_the_form_of_the_api(evaluation) -> None:
    caller, _ = evaluation
    offers = {json.dumps(fields["tools"]) for fields in caller.requests}
    assert len(offers) == len(GENERATED)
    for tool in (tool for offer in offers for tool in json.loads(offer)):
        function = tool["function"]
        assert tool["type"] == "function" and re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"])
        assert function["description"] and function["parameters"]["type"] == "object"


def test_each_call_is_answered_by_a_tool_message_with_its_id(evaluation) -> None:
    caller, _ = evaluation
    followed = [fields["messages"] for fields in caller.requests if fields["messages"][-1]["role"] != "user"]
    assert len(followed) >= 2 * len(GENERATED)
    for messages in followed:
        called = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
        answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
        assert answered == called and len(called) >= 2
