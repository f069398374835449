"""Tool environments: calls in order, mistakes as observations, and assistant messages that make calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from envs.spaces import message_error
from envs.tools import tool_env
from envs.tools.tool import tool
from envs.tools.tool_env import ToolEnv
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, call_id, user


class Counter(ToolEnv):
    """Count to three."""

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"{split}/0", (user(f"count to three, {split}"),))]

    def start(self) -> Messages:
        self.number = 0
        return self.task.prompt

    @tool
    def add(self, amount: int) -> int:
        """Add to the number."""
        if self.number + amount > 3:
            raise ToolError(f"{self.number + amount} is too many")
        self.number += amount
        return self.number

    @tool
    def crash(self) -> None:
        """Fail."""
        raise KeyError("a bug")

    def answer(self, reply: str) -> Outcome:
        success = self.number == 3 and reply == "three"
        return Outcome(reward=float(success), terminated=True, success=success)

    def oracle(self) -> Iterator[Message]:
        yield assistant(tool_calls=[("add", {"amount": 1}), ("add", {"amount": 2})])
        yield assistant("<think>\nperhaps four\n</think>\n\nthree")


@pytest.fixture
def env() -> Counter:
    env = Counter()
    env.reset(seed=0)
    return env


def test_tools_are_offered_and_all_calls_are_made_in_order(env: Counter) -> None:
    _, info = env.reset(seed=0)
    assert [schema["function"]["name"] for schema in info["tools"]] == ["add", "crash"]
    oracle = env.oracle()
    messages, reward, terminated, _, info = env.step(next(oracle))
    assert [message["content"] for message in messages] == ["1", "3"] and (reward, terminated) == (0.0, False)
    assert [message["tool_call_id"] for message in messages] == ["call00000", "call00001"]
    assert info["valid"] and info["metrics"] == {"calls": 2.0, "errors": 0.0}
    _, reward, terminated, _, info = env.step(next(oracle))
    assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_a_mistake_is_an_observation_and_the_other_calls_count(env: Counter) -> None:
    calls = [("ad", {}), ("add", {"amount": "1 more"}), ("add", {"amount": 9}), ("add", "{"), ("add", {"amount": 2})]
    messages, _, terminated, _, info = env.step(assistant(tool_calls=calls))
    contents = [message["content"] for message in messages]
    assert contents[0] == "error: unknown tool 'ad'; did you mean 'add'?"
    assert contents[1] == "error: argument 'amount' of add: Input should be a valid integer, not '1 more'"
    assert contents[2] == "error: 9 is too many" and contents[3].startswith("error: the arguments of add are no JSON")
    assert contents[4] == "2" and env.number == 2 and not terminated
    assert info["valid"] and info["metrics"] == {"calls": 5.0, "errors": 4.0}
    assert not env.step(assistant(tool_calls=[("ad", {})]))[4]["valid"]


def test_a_reply_makes_a_bounded_number_of_calls(env: Counter) -> None:
    calls = [("add", {"amount": 0})] * (tool_env.MAX_CALLS + 5)
    messages, *_, info = env.step(assistant(tool_calls=calls))
    assert len(messages) == len(calls) and info["metrics"]["errors"] == 5
    assert messages[-1]["content"] == f"error: at most {tool_env.MAX_CALLS} calls a turn"


def test_a_bug_of_a_tool_is_no_mistake_of_the_model(env: Counter) -> None:
    with pytest.raises(KeyError, match="a bug"):
        env.step(assistant(tool_calls=[("crash", {})]))


def test_a_call_of_ones_own_must_return_a_text() -> None:
    class Server(Counter):
        def call(self, name: str, arguments: str) -> str:
            return {"ok": True}  # type: ignore[return-value]

    env = Server()
    env.reset(seed=0)
    with pytest.raises(TypeError, match=r"Server\.call\('add'\) must return a text, not dict; use json\.dumps"):
        env.step(assistant(tool_calls=[("add", {"amount": 1})]))


def test_calls_are_given_as_pairs_or_whole_with_arguments_as_a_mapping_or_text() -> None:
    whole = {"id": "x", "type": "function", "function": {"name": "c", "arguments": "{}"}}
    message = assistant("hm", tool_calls=[("a", {"n": 1}), ("b", '{"n": 2}'), whole], first_id=7)  # type: ignore[list-item]
    assert message_error(message) is None and message["content"] == "hm"
    assert message["tool_calls"] == [
        {"id": "call00007", "type": "function", "function": {"name": "a", "arguments": '{"n": 1}'}},
        {"id": call_id(8), "type": "function", "function": {"name": "b", "arguments": '{"n": 2}'}},
        whole,
    ]
    assert assistant() == {"role": "assistant", "content": ""} == assistant("", tool_calls=[])
    assert assistant(tool_calls=[("a", {})]) == assistant(tool_calls=[("a", {})])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("ab", "not 'ab'"),
        (("a",), r"not \('a',\)"),
        (("a", [1]), "arguments of 'a' are a mapping or JSON text, not list"),
        ((1, {}), "are texts, not 1"),
        ({"name": "a"}, "not {'name': 'a'}"),
        (("a", {"x": {1}}), "not JSON serializable"),
    ],
)
def test_a_malformed_call_is_refused_with_its_value(call: object, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        assistant(tool_calls=[call])  # type: ignore[list-item]
