"""What a reply wants an interpreter to run: in fenced blocks, in lines, in calls; and which replies are answers."""

import pytest

from envs.tools.snippets import answered, asked, calling, saying
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
        ("Let me see.\n```python\na = 1\n```\nand\n```py\na\n```\n>no", "a = 1\na"),
        ("  ```Python3\n  a\n  ```", "a"),
        ("```python\nprint(1)", "print(1)"),
        ("<think>\n>1\n</think>2", None),
        ("<think>5</think>\n>1", "1"),
    ],
)
def test_what_a_reply_wants_to_be_run(reply, code):
    assert asked(assistant(reply)) == code


@pytest.mark.parametrize("reply", [">", "> \n>", "```python\n```"])
def test_code_that_is_not_there_is_no_answer(reply):
    with pytest.raises(ToolError, match="there is no code"):
        asked(assistant(reply))


@pytest.mark.parametrize("code", ["47*85", "if a:\n    b\n\nc", "a = '''\n  b'''"])
def test_code_comes_back_as_it_was_written(code):
    assert asked(saying(code)) == asked(calling(code, 3)) == code


def test_of_several_calls_the_first_counts_and_all_are_answered():
    twice = calling("1", 0)
    twice["tool_calls"] += calling("2", 1)["tool_calls"]
    assert asked(twice) == "1"
    assert [(one["tool_call_id"], one["content"]) for one in answered(twice, "x")] == [
        ("call00000", "x"),
        ("call00001", "error: one call a turn"),
    ]
    assert answered(saying("1"), "x") == ({"role": "user", "content": "x"},)


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
def test_a_call_that_cannot_be_made_is_refused(name, arguments, word):
    call = {"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}}
    with pytest.raises(ToolError, match=word):
        asked({"role": "assistant", "content": "517", "tool_calls": [call]})
