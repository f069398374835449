"""Continuing a dialogue where a template shows one call, moves the system message or opens reasoning in some prompts."""

from __future__ import annotations

import pytest

from agents import reply
from agents.chat import ChatAgent
from agents.render import Renderer
from envs.types import system, user
from tests.support import chat_templates as styles

TOOL = {"type": "function", "function": {"name": "look", "description": "d", "parameters": {"type": "object"}}}
SINGLE = styles.CHATML.replace(
    "{%- for call in message.tool_calls or () -%}",
    "{%- if message.tool_calls and message.tool_calls | length > 1 -%}{{ raise_exception('one call') }}{%- endif -%}"
    "{%- for call in message.tool_calls or () -%}",
).replace("{{- '<|im_start|>' +", "{{- (tools | tojson if tools and loop.first else '') + '<|im_start|>' +")
CALL = '<tool_call>\n{"name": "look", "arguments": {"n": %d}}\n</tool_call>'


def ids_of(renderer, text):
    """The tokens of a reply with its terminator."""
    return [*renderer.tokenizer.encode(text), renderer.terminator]


def result(call, content):
    """A message with the result of a call."""
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


def test_a_call_that_the_template_cannot_show_is_not_dropped_in_silence():
    renderer = Renderer(styles.merging(SINGLE))
    agent = ChatAgent(renderer)
    agent.open([user("x")], [TOOL])
    first, second = agent.act(ids_of(renderer, CALL % 1 + CALL % 2))["tool_calls"]
    assert "error" not in first and first["id"] != second["id"]
    assert "not carried out" in second["error"] and renderer.template.form.example in second["error"]
    assert not agent.observe([result(first, "found"), result(second, second["error"])]).fresh
    dialogue = renderer.tokenizer.decode(renderer.render(agent.messages, [TOOL]))
    assert '"n": 1' in dialogue and '"n": 2' not in dialogue and "not carried out" in dialogue


def test_two_calls_are_both_carried_out_where_the_template_shows_them():
    renderer = Renderer(styles.merging(styles.CHATML))
    calls = renderer.parse(ids_of(renderer, CALL % 1 + CALL % 2), tools=[TOOL])["tool_calls"]
    assert ["error" in call for call in calls] == [False, False]


def test_a_system_message_that_moves_prevents_extension_only_of_dialogues_that_have_one():
    last = "(messages[0].content if loop.last and message.role == 'user' and messages[0].role == 'system' else '')"
    renderer = Renderer(styles.merging(styles.CHATML.replace("message.content", f"message.content + {last}", 1)))
    for messages, is_fresh in (([user("x")], False), ([system("s"), user("x")], True)):
        agent = ChatAgent(renderer)
        agent.open(messages)
        agent.act(ids_of(renderer, "ab"))
        assert agent.observe([user("y")]).fresh == is_fresh


@pytest.mark.parametrize("thought, is_fresh", [("", False), ("hm", True)])
def test_reasoning_that_is_empty_needs_no_fresh_context_when_it_is_dropped(thought, is_fresh):
    renderer = Renderer(styles.merging(styles.R1))
    agent = ChatAgent(renderer)
    agent.open([user("x")])
    agent.act(ids_of(renderer, f"{thought}\n</think>\n\nb"))
    assert agent.observe([user("y")]).fresh == is_fresh


def test_reasoning_begins_in_the_prompt_only_where_the_prompt_says_so():
    opening = "{%- if messages[-1].role == 'user' -%}{{- '<think>\\n' -}}{%- endif -%}{%- endif -%}"
    renderer = Renderer(styles.merging(styles.CHATML.removesuffix("{%- endif -%}") + opening))
    agent = ChatAgent(renderer)
    agent.open([user("x")], [TOOL])
    cut = agent.act(ids_of(renderer, "hm " + CALL % 0))
    assert "tool_calls" not in cut, "reasoning that began in the prompt and did not end"
    agent.observe([{"role": "tool", "tool_call_id": "call00000", "content": "found"}])
    assert reply.calls(agent.act(ids_of(renderer, CALL % 2))) == [("look", {"n": 2})]


def test_a_written_call_closes_the_reasoning_that_the_prompt_opens():
    renderer = Renderer(styles.merging(styles.CHATML.replace("assistant\\n' -}}", "assistant\\n<think>\\n' -}}")))
    message = renderer.parse(ids_of(renderer, "\n</think>\n\n" + CALL % 1), tools=[TOOL])
    text = renderer.tokenizer.decode(renderer.write({**message, "content": ""}))
    assert text == "\n</think>\n\n\n" + CALL % 1 + "<|im_end|>", "as the template writes calls"


def test_a_call_in_the_form_that_the_template_speaks_of_is_read_even_where_it_shows_no_tools():
    renderer = Renderer(styles.merging(styles.GEMMA + "{# <｜tool▁call▁begin｜> #}"))
    text = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n{}\n```<｜tool▁call▁end｜>"
    assert renderer.template.form.name == "hermes"
    assert reply.calls(renderer.parse(ids_of(renderer, text), tools=[TOOL])) == [("look", {})]
    assert "tool_calls" not in renderer.parse(ids_of(renderer, text))
