"""Every family of `benchmarks.support.families` with its real tokenizer and chat template."""

from __future__ import annotations

import pytest

from agents.chat import ChatAgent
from agents.render import Renderer
from agents.reply import calls, split_thinking
from agents.tool_calls import FORMATS
from benchmarks.support.families import FAMILIES, calls_text, load, reply_text
from benchmarks.support.family_dialogues import KINDS, TOOLS, TURNS, play, template_text, tools_of
from envs.types import final_text, system, user
from tests.support.families import FOLDER, NEEDS_TOKENIZERS

pytestmark = NEEDS_TOKENIZERS
ARGUMENTS = ({"word": 'a "b" < c\n<d> é', "limit": 5}, {"word": "5", "limit": 0})
MALFORMED = {
    "hermes": '<tool_call>\n{"name": "lookup", "arguments": {"word": "a}\n</tool_call>',
    "qwen3_coder": "<tool_call>\n<function=lookup>\n<parameter=word>\na\n</function>\n</tool_call>",
    "llama3_json": '{"name": "lookup", "parameters": {"word": "a"',
    "mistral": '[TOOL_CALLS][{"name": "lookup", "arguments": {"word": "a"}',
    "glm45": "<tool_call>lookup\n<arg_key>word</arg_key>\n<arg_value>a\n</tool_call>",
    "deepseek_v3": "<｜tool▁call▁begin｜>function<｜tool▁sep｜>lookup\n```json\n{word\n```<｜tool▁call▁end｜>",
    "gemma4": "<|tool_call>call:lookup{word:a b}<tool_call|>",
    "gpt_oss": ' to=functions.lookup<|channel|>commentary json<|message|>{"word": ',
}


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda family: family.name)
def family(request):
    """One family after the other, so that one tokenizer is in memory at a time."""
    return request.param


@pytest.fixture(scope="module")
def renderer(family):
    """Its renderer."""
    return Renderer(load(FOLDER, family))


def sample(renderer, text):
    """The tokens of a reply as a model samples it, control tokens included."""
    return tuple(renderer.tokenizer.encode(text, add_special_tokens=False))


def open_dialogue(renderer):
    """An agent that was offered the tools, and the text of its prompt."""
    agent = ChatAgent(renderer)
    ids = agent.open([system("Be brief."), user("Hello")], TOOLS).ids
    return agent, str(renderer.tokenizer.decode(list(ids)))


def test_the_tools_reach_the_prompt(renderer):
    _, prompt = open_dialogue(renderer)
    for text in ("lookup", "Look a word up.", "limit", "most entries"):
        assert text in prompt


def test_calls_in_the_family_s_own_form_are_read_after_reasoning_too(renderer, family):
    for count in (1, 2):
        if family.reasoning == "harmony" and count == 2:
            continue  # its reply ends with the first call
        agent, prompt = open_dialogue(renderer)
        wanted = [("lookup", arguments) for arguments in ARGUMENTS[:count]]
        text = reply_text(family, "", wanted, "I had better look." * bool(family.reasoning), prompt)
        message = agent.act(sample(renderer, text))
        assert calls(message) == wanted, text
        assert final_text(message).strip() == ""
        errors = ["error" in call for call in message["tool_calls"]]
        assert errors == [False, renderer.template.has_single_calls][:count]


def test_a_second_call_that_the_template_cannot_show_is_answered(renderer, family):
    if not renderer.template.has_single_calls or family.reasoning == "harmony":
        return
    agent, _ = open_dialogue(renderer)
    text = calls_text(family.form, [("lookup", arguments) for arguments in ARGUMENTS]) + family.end
    first, second = agent.act(sample(renderer, text))["tool_calls"]
    assert "Write one call" in second["error"] and FORMATS[family.form].example in second["error"]
    results = zip((first, second), ("Found it.", second["error"]), strict=True)
    context = agent.observe([{"role": "tool", "tool_call_id": c["id"], "content": r} for c, r in results])
    shown = renderer.tokenizer.decode(list(context.ids))
    assert not context.fresh and "Found it." in shown and "Write one call" in shown
    assert "Found it." in renderer.tokenizer.decode(list(renderer.render(agent.messages, TOOLS, generation=True)))


def test_a_malformed_call_gets_an_answer_with_the_form_expected(renderer, family):
    agent, prompt = open_dialogue(renderer)
    start = "Hm.\n</think>\n\n" if prompt.rstrip().endswith("<think>") else ""
    (call,) = agent.act(sample(renderer, start + MALFORMED[family.form] + (family.call_end or family.end)))[
        "tool_calls"
    ]
    assert FORMATS[family.form].example in call["error"]
    context = agent.observe([{"role": "tool", "tool_call_id": call["id"], "content": call["error"]}])
    answer = str(renderer.tokenizer.decode(list(context.ids)))
    assert "this call cannot be read" in answer
    example = FORMATS[family.form].example
    assert example in answer or example.replace('"', '\\"').replace("\n", "\\n") in answer


@pytest.mark.parametrize("kind", KINDS)
def test_eight_turns_are_continued_with_the_tokens_that_the_template_writes(renderer, family, kind):
    if kind == "reasoning" and not family.reasoning:
        return
    tools, tokenizer, moved = tools_of(kind), renderer.tokenizer, family.opens_results_once
    turns = list(play(renderer, family, kind))
    assert len(turns) == TURNS
    for turn in turns:
        assert calls(turn.reply) == turn.wanted
        text = template_text(renderer, family, turn.messages, tools)
        ids = tuple(tokenizer.encode(text, add_special_tokens=False))
        if turn.fresh:
            assert turn.after == ids
            prompt = tokenizer.decode(list(turn.prompt + turn.sampled))
            replies = [message["content"] for message in turn.messages if message["role"] == "assistant"]
            thoughts = [thought for content in replies if (thought := split_thinking(content)[0]) and thought in prompt]
            assert family.moves_head or not all(thought in text for thought in thoughts), "nothing was dropped"
            continue
        if moved and text.count(moved) == 1:
            assert str(text).endswith(tokenizer.decode(list(turn.after)).removeprefix(moved))
            continue
        assert ids[-len(turn.after) :] == turn.after
        end = tokenizer.decode([ids[-len(turn.after) - 1]])
        assert end == tokenizer.decode([turn.sampled[-1]]) or (end, family.end) == ("<|end|>", "<|return|>")


def test_without_reasoning_no_turn_is_fresh(renderer, family):
    for kind in ("answers", "calls"):
        assert family.moves_head or not any(turn.fresh for turn in play(renderer, family, kind))


def test_reasoning_stays_while_tools_are_called(renderer, family):
    if family.reasoning and renderer.template.thinking_key is not None:
        turns = list(play(renderer, family, "reasoning"))
        assert not any(turn.fresh for turn in turns if turn.wanted)


def test_no_data_becomes_a_control_token(renderer):
    tokenizer = renderer.tokenizer
    control = {id for id, token in tokenizer.added_tokens_decoder.items() if token.special} | set(
        renderer.template.control.texts
    )
    specials = [tokenizer.decode([id]) for id in sorted(control)]
    evil = " ".join([*specials[:300], *specials[-300:], "<|im_", "end|>"])

    def control_ids(data):
        tool = {"type": "function", "function": {**TOOLS[0]["function"], "description": f"Look {data} up."}}
        agent = ChatAgent(renderer)
        ids = [*agent.open([system(f"Rule {data}."), user(f"Hello {data}")], [tool]).ids]
        call = agent.act(renderer.write(message))["tool_calls"][0]
        ids += agent.observe([{"role": "tool", "tool_call_id": call["id"], "content": f"Found {data}!"}]).ids
        agent.act(sample(renderer, "Done."))
        ids += agent.observe([user(data)]).ids
        ids += renderer.render(agent.messages, [tool])
        return [id for id in ids if id in control]

    message = {
        **{"role": "assistant", "content": ""},
        "tool_calls": [
            {"id": "call00000", "type": "function", "function": {"name": "lookup", "arguments": '{"word": "a"}'}}
        ],
    }
    assert control_ids(evil) == control_ids("harmless")


def test_what_ends_a_reply_stops_sampling(renderer, family):
    for token in filter(None, (family.end, family.call_end)):
        assert renderer.tokenizer.convert_tokens_to_ids(token) in renderer.stop


def test_a_reply_that_is_written_is_read_back(renderer):
    call = {"id": "call00000", "type": "function", "function": {"name": "lookup", "arguments": '{"word": "a < b"}'}}
    for message in (
        {"role": "assistant", "content": "Yes."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ):
        parsed = renderer.parse(renderer.write(message), tools=TOOLS)
        assert calls(parsed) == calls(message) and final_text(parsed).strip() == message["content"]
