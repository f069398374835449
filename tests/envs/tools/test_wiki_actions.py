"""The action that a reply takes on a wiki: by a call, by a line, or as the answer; and replies that are refused."""

import json

import pytest

from envs.tools.wiki_actions import ARGUMENTS, TOOLS, WikiAction, action_as_call, action_as_text, parse_action
from envs.types import ToolError, assistant


def call(name, arguments):
    function = {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": function}]}


@pytest.mark.parametrize(
    "reply, action",
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
        ("`search sad poem`", ("search", "sad poem")),
        ("**read Zir**", ("read", "Zir")),
        ("- search sad poem", ("search", "sad poem")),
        ("1. search sad poem", ("search", "sad poem")),
        ("> search sad poem", ("search", "sad poem")),
        ("Action: search Far", ("search", "Far")),
        ("**Action:** `read Far`", ("read", "Far")),
        ("I will search Far", ("search", "Far")),
        ("First I look for it.\nLet me search sad poem.", ("search", "sad poem")),
        ("<search>Far</search>", ("search", "Far")),
        ("`answer Far`", ("answer", "Far")),
        ("**answer Far**", ("answer", "Far")),
        ("Action: answer Far", ("answer", "Far")),
        ("The scene of the sad poem is Far.", ("answer", "Far")),
        ("It is Far.", ("answer", "Far")),
        ("The page of Zir says so.\nThe scene of the sad poem is **Far**.", ("answer", "Far")),
        ('{"name": "search", "arguments": {"query": "sad poem"}}', ("search", "sad poem")),
        ('I look.\n`{"name": "read", "parameters": {"title": "Zir"}}`', ("read", "Zir")),
    ],
)
def test_a_text_is_parsed(reply, action):
    assert parse_action(assistant(reply)) == WikiAction(*action)


@pytest.mark.parametrize(
    "reply", ["", "  \n", "s", "R", "answer", "<think>r Bel</think>", "one thing\nand another", "a" * 20_000,
              "<answer>Tor</answer> <answer>Bel</answer>", "s ", "read \"\"",
              "`search`", '{"name": "serch", "arguments": {"query": "x"}}', 'I call {"name": "read"}',
              '{"name": "read", "arguments": {"title": "Zir"}}\n{"name": "answer", "arguments": {"text": "Far"}}',
              "The scene is Far.\nThe scene is Bel."],
)  # fmt: skip
def test_a_text_without_an_action_is_refused(reply):
    with pytest.raises(ToolError):
        parse_action(assistant(reply))


@pytest.mark.parametrize(
    "reply",
    ["It is not Far.", "It is Far or Bel.", "The pages Bel and Tor say it is Far.", "The wrong name is Far.",
     "Bel. It is Far.", "answer Far, Bel", "It is unlikely to be Far."],
)  # fmt: skip
def test_a_sentence_that_doubts_or_has_several_names_answers_none_of_them(reply):
    assert parse_action(assistant(reply)).argument not in ("Far", "Bel")


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
def test_a_wrong_call_is_refused_with_a_one_line_reason(name, arguments, word):
    with pytest.raises(ToolError) as error:
        parse_action(call(name, arguments))
    assert word in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "action", [WikiAction("search", "old cook"), WikiAction("read", "Bel"), WikiAction("answer", "Tor")]
)
def test_an_action_survives_both_forms_of_message(action):
    assert parse_action(action_as_call(action, 3)) == parse_action(action_as_text(action)) == action
    assert action_as_call(action, 3)["tool_calls"][0]["id"] == "call00003"


def test_the_schemas_name_each_action_and_its_argument():
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    assert {name: parameters["required"] for name, parameters in schemas.items()} == {
        name: [argument] for name, argument in ARGUMENTS.items()
    }
    assert all(set(parameters["properties"]) == set(parameters["required"]) for parameters in schemas.values())
