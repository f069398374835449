"""Calls in the forms of model families do what a native call does, in every environment with tools; others say what to mend."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest

import envs
from envs.catalogue import entries
from envs.data import MissingData
from envs.tools.call_forms.native import MAX_CALLS, native_calls
from envs.tools.text_calls import parse_reply_calls, parse_text_calls
from envs.types import Message, ToolError, assistant


def tags(arguments: dict[str, Any], form: str) -> str:
    return "".join(
        form.format(key, value if isinstance(value, str) else json.dumps(value)) for key, value in arguments.items()
    )


def written(name: str, arguments: dict[str, Any]) -> dict[str, str]:
    """A call as models of each family write it."""
    values = json.dumps(arguments)
    call, listed = (
        json.dumps({"name": name, "arguments": arguments}),
        json.dumps([{"name": name, "arguments": arguments}]),
    )
    function = {"type": "function", "id": "1", "function": {"name": name, "arguments": values}}
    return {
        "hermes": f"I call it.\n<tool_call>\n{call}\n</tool_call>",
        "qwen coder": "<tool_call>\n<function={}>\n{}</function>\n</tool_call>".format(
            name, tags(arguments, "<parameter={}>\n{}\n</parameter>\n")
        ),
        "glm": "<tool_call>{}\n{}</tool_call>".format(
            name, tags(arguments, "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n")
        ),
        "llama": json.dumps({"type": "function", "name": name, "parameters": arguments}),
        "llama with a tag": f'<|python_tag|>{{"name": "{name}", "parameters": {values}}}<|eom_id|>',
        "llama's functions": f"<function={name}>{values}</function>",
        "llama in python": "[{}({})]".format(name, ", ".join(f"{key}={value!r}" for key, value in arguments.items())),
        "mistral": f"[TOOL_CALLS] {listed}",
        "mistral by name": f"[TOOL_CALLS]{name}[ARGS]{values}",
        "mistral with an id": f"[TOOL_CALLS]{name}[CALL_ID]abcdefghi[ARGS]{values}</s>",
        "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
        f"{name}\n```json\n{values}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "deepseek 3.1": f"I call it.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{values}<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
        "kimi": f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{values}"
        "<|tool_call_end|><|tool_calls_section_end|>",
        "gpt-oss": f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{values}<|call|>",
        "openai": json.dumps({"tool_calls": [function]}),
        "openai's list": json.dumps([function]),
        "granite": f"<|tool_call|>{listed}",
        "phi": f"<|tool_call|>{listed}<|/tool_call|>",
        "invoke": '<function_calls>\n<invoke name="{}">\n{}</invoke>\n</function_calls>'.format(
            name, tags(arguments, '<parameter name="{}">{}</parameter>\n')
        ),
        "react": f"Thought: I use it.\nAction: {name}\nAction Input: {values}",
    }


def step(env: Any, action: Message) -> Any:
    messages, reward, terminated, truncated, info = env.step(action)
    return [message["content"] for message in messages], reward, terminated, truncated, info["valid"]


@pytest.mark.parametrize(
    "id", [row.id for row in entries() if row.id.split("/")[0] in ("tools", "web", "code", "math")]
)
def test_every_environment_with_tools_reads_the_forms_of_all_families(id: str) -> None:
    options = {"split": "test", "index": 0}
    try:
        env: Any = envs.make(id).unwrapped
        _, info = env.reset(seed=0, options=options)
    except (MissingData, ImportError) as missing:
        pytest.skip(str(missing))
    calls = next(iter(env.oracle())).get("tool_calls") if info["tools"] else None
    if not calls or getattr(env, "exact_calls", False):
        env.close()
        pytest.skip("its first reply is no call, or it reads one form only, as its benchmark does")
    function = calls[0]["function"]
    name, arguments = function["name"], json.loads(function["arguments"])
    native = step(env, assistant("", tool_calls=[(name, arguments)]))
    for family, reply in written(name, arguments).items():
        env.reset(seed=0, options=options)
        assert step(env, assistant(reply)) == native, family
    env.close()


def names(reply: str) -> list[str]:
    return [call.name for call in parse_reply_calls(reply, parse_text_calls)]


def test_several_calls_of_a_family_are_made_in_their_order() -> None:
    one, two = written("first", {"a": "x"}), written("second", {"a": "y"})
    two["deepseek 3.1"] = two["deepseek 3.1"].removeprefix("I call it.")
    for family in ("qwen coder", "glm", "llama's functions", "mistral by name", "kimi", "invoke", "deepseek 3.1"):
        end = "</s>" if family.startswith("mistral") else ""
        assert names(f"{one[family].removesuffix('<｜end▁of▁sentence｜>')}\n{two[family]}{end}") == [
            "first",
            "second",
        ], family
    assert names('[first(a="x"), second(a="y")]') == ["first", "second"]


@pytest.mark.parametrize("family", written("send", {"a": "x"}))
def test_a_call_that_the_reply_goes_on_after_is_not_made(family: str) -> None:
    reply = written("send", {"a": "x"})[family]
    with suppress(ToolError):
        assert names(f"{reply}\nI would never make this call; the answer is another one.") == []


@pytest.mark.parametrize(
    "reply",
    [
        "<function=send>{</function>",
        "[TOOL_CALLS]send[ARGS][1]",
        "<tool_call><function=send><parameter=a>x</parameter>and more</function></tool_call>",
        "<|tool_call_begin|>functions.send:0<|tool_call_argument_begin|>" + "[" * 20_000 + "<|tool_call_end|>",
    ],
)
def test_arguments_that_cannot_be_read_say_what_to_mend(reply: str) -> None:
    with pytest.raises(ToolError, match="form of a call"):
        native_calls(reply)


@pytest.mark.parametrize(
    "reply", ["[1, 2]", "[a, f(x=1)]", "['f(x=1)']", "Action: go north", "<function=", "[TOOL_CALLS]"]
)
def test_other_text_is_no_call(reply: str) -> None:
    assert names(reply) == []


@pytest.mark.parametrize(
    "piece",
    [
        "<function=a>",
        '<invoke name="a">',
        "<tool_call>a ",
        "<｜tool▁call▁begin｜>a<｜tool▁sep｜>",
        " ",
        "\n",
        "[TOOL_CALLS]a[ARGS]",
    ],
)
def test_endless_pieces_of_calls_are_read_in_bounded_time(piece: str) -> None:
    before = time.process_time()
    for count in (MAX_CALLS, 40_000 // len(piece)):
        for start in ("", "<function=a><parameter=b>", "Action: a\nAction Input: {", "<tool_call>a"):
            text = f"{start}{piece * count}{' ' * 20_000}x"
            try:
                native_calls(text)
            except ToolError:
                continue
    assert time.process_time() - before < 5
