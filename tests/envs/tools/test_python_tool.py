"""The code that a reply asks to run, in fenced blocks, lines or calls, and the replies without code."""

import pytest

from envs.tools.python_tool import code_as_call, code_as_text, parse_code
from envs.tools.tool_calls import result_messages
from envs.types import ToolError, assistant


@pytest.mark.parametrize(
    "reply, code",
    [
        ("132", None),
        ("", None),
        ("if 3 > 2: 5", None),
        ("```\n132\n```", None),
        (">47*85", "47*85"),
        ("> 47*85 ", "47*85"),
        (">a = 1\n>if a:\n>    a", "a = 1\nif a:\n    a"),
        ("First\n> a = 1\n> a\nso", "a = 1\na"),
        ("Let me see.\n```python\na = 1\n```\nand\n```py\na\n```\n>no", "a"),
        ("  ```Python3\n  a\n  ```", "a"),
        ("```python\nprint(1)", "print(1)"),
        ("<think>\n>1\n</think>2", None),
        ("<think>5</think>\n>1", "1"),
    ],
)
def test_the_code_of_a_reply_is_found(reply, code):
    assert parse_code(assistant(reply)) == code


@pytest.mark.parametrize("reply", [">", "> \n>", "```python\n```"])
def test_a_block_without_code_is_refused(reply):
    with pytest.raises(ToolError, match="there is no code"):
        parse_code(assistant(reply))


@pytest.mark.parametrize("code", ["47*85", "if a:\n    b\n\nc", "a = '''\n  b'''"])
def test_code_survives_both_forms_of_message(code):
    assert parse_code(code_as_text(code)) == parse_code(code_as_call(code, 3)) == code


def test_the_first_of_several_calls_is_carried_out_and_all_are_answered():
    twice = code_as_call("1", 0)
    twice["tool_calls"] += code_as_call("2", 1)["tool_calls"]
    assert parse_code(twice) == "1"
    assert [(one["tool_call_id"], one["content"]) for one in result_messages(twice, "x")] == [
        ("call00000", "x"),
        ("call00001", "error: one call a turn"),
    ]
    assert result_messages(code_as_text("1"), "x") == ({"role": "user", "content": "x"},)


@pytest.mark.parametrize(
    "name, arguments, word",
    [
        ("pyton", "{}", "did you mean 'python'"),
        ("python", "{", "needs 'code' as a JSON object"),
        ("python", "[]", "needs 'code' as a JSON object"),
        ("python", "3", "needs 'code' as a JSON object"),
        ("python", "[" * 10**5, "needs 'code' as a JSON object"),
        ("python", '{"code": 3}', "there is no code"),
        ("python", '{"code": " "}', "there is no code"),
    ],
)
def test_a_call_with_wrong_arguments_is_refused(name, arguments, word):
    call = {"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}}
    with pytest.raises(ToolError, match=word):
        parse_code({"role": "assistant", "content": "517", "tool_calls": [call]})


def test_a_block_on_one_line_is_code() -> None:
    assert parse_code(assistant("I compute:\n```python print(802 + 183 * 6)```")) == "print(802 + 183 * 6)"
    assert parse_code(assistant("```python print(1)``` and more")) is None
