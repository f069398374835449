"""What a reply to a wiki asks for: as a call, as a line, or as the answer; and what is refused."""

import json

import pytest

from envs.tools.wiki_actions import ARGUMENTS, TOOLS, Move, asked, calling, saying
from envs.types import ToolError, assistant


def call(name, arguments):
    function = {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": function}]}


@pytest.mark.parametrize(
    "reply, move",
    [
        ("s old cook", ("search", "old cook")),
        ("search old cook", ("search", "old cook")),
        ('search("old cook")', ("search", "old cook")),
        ("Search: old cook", ("search", "old cook")),
        ("r Bel", ("read", "Bel")),
        ("I look at Bel's page first.\nread Bel.", ("read", "Bel")),
        ("<think>s old\nmonk</think>r Bel", ("read", "Bel")),
        ("answer Tor", ("answer", "Tor")),
        ("Tor", ("answer", "Tor")),
        ("Tor Bel", ("answer", "Tor Bel")),
        ("The home of Bel is known. The answer is Tor.", ("answer", "Tor")),
        ("It follows.\n<answer>Tor</answer>", ("answer", "Tor")),
        ("So \\boxed{Tor}", ("answer", "Tor")),
        ("Reader", ("answer", "Reader")),
        ("sad", ("answer", "sad")),
    ],
)
def test_a_text_is_read(reply, move):
    assert asked(assistant(reply)) == Move(*move)


@pytest.mark.parametrize(
    "reply", ["", "  \n", "s", "R", "answer", "<think>r Bel</think>", "one thing\nand another", "a" * 20_000,
              "<answer>Tor</answer> <answer>Bel</answer>", "s ", "read \"\""],
)  # fmt: skip
def test_a_text_that_asks_for_nothing_is_refused(reply):
    with pytest.raises(ToolError):
        asked(assistant(reply))


@pytest.mark.parametrize(
    "name, arguments, word",
    [
        ("serch", {"query": "x"}, "did you mean 'search'"),
        ("search", {"title": "x"}, "'query'"),
        ("read", {"title": 7}, "'title'"),
        ("read", {"title": "  "}, "'title'"),
        ("answer", ["Tor"], "'text'"),
        ("answer", "Tor", "no JSON"),
        ("answer", "[" * 100_000, "no JSON"),
    ],
)
def test_a_wrong_call_is_refused_in_a_line_that_says_why(name, arguments, word):
    with pytest.raises(ToolError) as refused:
        asked(call(name, arguments))
    assert word in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("move", [Move("search", "old cook"), Move("read", "Bel"), Move("answer", "Tor")])
def test_a_move_survives_being_written_as_a_call_and_as_a_text(move):
    assert asked(calling(move, 3)) == asked(saying(move)) == move
    assert calling(move, 3)["tool_calls"][0]["id"] == "call00003"


def test_the_schemas_name_each_move_and_its_argument():
    told = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    assert {name: parameters["required"] for name, parameters in told.items()} == {
        name: [argument] for name, argument in ARGUMENTS.items()
    }
    assert all(set(parameters["properties"]) == set(parameters["required"]) for parameters in told.values())
