"""Tool calls in the form of each family: well-formed ones are read, malformed ones explained, nothing crashes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import reply
from agents.chat import ChatAgent
from agents.render import Renderer
from agents.tool_calls import FORMATS, detect_format
from envs.tools.tool_calls import check_readable
from envs.types import ToolError, user
from tests.support import chat_templates as styles

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "d",
            "parameters": {
                "type": "object",
                "properties": {"q": {"type": "string"}, "n": {"type": "integer"}, "l": {"type": "array"}},
            },
        },
    }
]
ARGUMENTS = {"q": "5 < 6", "n": 5, "l": [1, "é"]}
JSON = json.dumps(ARGUMENTS, ensure_ascii=False)
WELL_FORMED = {
    "hermes": [f'<tool_call>\n{{"name": "look", "arguments": {JSON}}}\n</tool_call>',
               f'<tool_call>{{"name": "look", "arguments": {JSON}}}'],
    "qwen3_coder": ["<tool_call>\n<function=look>\n<parameter=q>\n5 < 6\n</parameter>\n<parameter=n>\n5\n</parameter>\n"
                    '<parameter=l>\n[1, "é"]\n</parameter>\n</function>\n</tool_call>'],
    "llama3_json": [f'{{"name": "look", "parameters": {JSON}}}', f'<|python_tag|>{{"name": "look", "parameters": {JSON}}}',
                    f'{{"type": "function", "name": "look", "arguments": {JSON}}}'],
    "mistral": [f'[TOOL_CALLS][{{"name": "look", "arguments": {JSON}, "id": "call00000"}}]', f"[TOOL_CALLS]look[ARGS]{JSON}",
                f"[TOOL_CALLS]look[CALL_ID]abc[ARGS]{JSON}"],
    "glm45": ["<tool_call>look\n<arg_key>q</arg_key>\n<arg_value>5 < 6</arg_value>\n<arg_key>n</arg_key>\n"
              '<arg_value>5</arg_value>\n<arg_key>l</arg_key>\n<arg_value>[1, "é"]</arg_value>\n</tool_call>'],
    "deepseek_v3": [
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n{JSON}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{JSON}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"],
    "gemma4": ['<|tool_call>call:look{q:<|"|>5 < 6<|"|>,n:5,l:[1,<|"|>é<|"|>]}<tool_call|>'],
    "gpt_oss": [f"<|channel|>commentary to=functions.look <|constrain|>json<|message|>{JSON}",
                f" to=functions.look<|channel|>commentary json<|message|>{JSON}"],
}  # fmt: skip
MALFORMED = {
    "hermes": ["<tool_call>{", '<tool_call>{"name": 3}</tool_call>', "<tool_call>" + "[" * 100_000 + "</tool_call>",
               '<tool_call>{"name": "look", "arguments": {"n": NaN}}</tool_call>'],
    "qwen3_coder": ["<tool_call>\n<function=look\n</tool_call>", "<tool_call><function=look><parameter=q>5</function></tool_call>"],
    "llama3_json": ['{"name": "look", "parameters": {', '<|python_tag|>look.call(q="5")'],
    "mistral": ["[TOOL_CALLS]look{}", '[TOOL_CALLS][{"name": "look", "arguments": 3}]', "[TOOL_CALLS]look[ARGS]{"],
    "glm45": ["<tool_call>look\n<arg_key>q</arg_key>\n<arg_value>5\n</tool_call>", "<tool_call></tool_call>"],
    "deepseek_v3": ["<｜tool▁call▁begin｜>look{}<｜tool▁call▁end｜>", "<｜tool▁call▁begin｜>look<｜tool▁sep｜>{<｜tool▁call▁end｜>"],
    "gemma4": ["<|tool_call>call:look{q:five}<tool_call|>", "<|tool_call>look{}<tool_call|>", "<|tool_call>call:look{q:" + "[" * 999],
    "gpt_oss": ["<|channel|>commentary to=functions.look <|constrain|>json<|message|>{"],
}  # fmt: skip


def cases(table):
    return [(name, text) for name, texts in table.items() for text in texts]


@pytest.mark.parametrize("name, text", cases(WELL_FORMED))
def test_a_call_in_the_family_s_own_form_is_read(name, text):
    message = reply.parse(text, 2, FORMATS[name], TOOLS)
    assert reply.calls(message) == [("look", ARGUMENTS)]
    assert message["tool_calls"][0]["id"] == "call00002" and "error" not in message["tool_calls"][0]
    assert message["content"] == ""


@pytest.mark.parametrize("name, text", cases(MALFORMED))
def test_a_malformed_call_is_answered_with_the_form_expected(name, text):
    (call,) = reply.parse(text, 0, FORMATS[name], TOOLS)["tool_calls"]
    with pytest.raises(ToolError) as error_info:
        check_readable(call)
    assert FORMATS[name].example in str(error_info.value)
    json.loads(call["function"]["arguments"])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("text", ["", " plain text ", '{"answer": 3}', '{"name": "Bob"}', "a < b", "say [x] and {y}"])
def test_text_without_a_call_is_the_content(name, text):
    assert reply.parse(text, 0, FORMATS[name], TOOLS) == {"role": "assistant", "content": text}


@pytest.mark.parametrize("name", FORMATS)
def test_calls_in_the_reasoning_are_none(name):
    if name == "gpt_oss":
        return
    for text in WELL_FORMED[name]:
        message = reply.parse(f"<think>{text}</think>done", 0, FORMATS[name], TOOLS)
        assert "tool_calls" not in message


PIECES = sorted({piece for _, text in [*cases(WELL_FORMED), *cases(MALFORMED)[:2]] for piece in
                 (text[:200], text[: len(text) // 2][:200], text[len(text) // 2 :][:200])})  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=5))
def test_nothing_crashes_a_reader_and_messages_are_json(name, pieces):
    for tools in (TOOLS, []):
        message = reply.parse("".join(pieces), 0, FORMATS[name], tools)
        for call in message.get("tool_calls") or ():
            json.loads(call["function"]["arguments"])
            assert call["function"]["name"]


def test_reasoning_of_every_family_stands_in_think_tags():
    channels = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes"
    for name, text in (("gpt_oss", channels), ("gemma4", "<|channel>thought\nhm\n<channel|>yes"),
                       ("mistral", "[THINK]\nhm\n[/THINK]\n\nyes")):  # fmt: skip
        assert reply.parse(text, 0, FORMATS[name])["content"] == "<think>\nhm\n</think>\n\nyes", name


def test_a_model_of_another_family_may_still_write_hermes():
    for name in ("llama3_json", "gemma4", "gpt_oss"):
        text = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
        assert reply.calls(reply.parse(text, 0, FORMATS[name], TOOLS)) == [("look", {})]


def test_the_form_is_found_in_the_template_and_an_unknown_one_is_refused():
    assert detect_format(styles.CHATML).name == "hermes" and detect_format("<function=").name == "qwen3_coder"
    with pytest.raises(ValueError, match="'glm' is unknown; choose from hermes, qwen3_coder"):
        Renderer(styles.merging(styles.CHATML), tool_format="glm")
    assert Renderer(styles.merging(styles.CHATML), tool_format="glm45").template.form.name == "glm45"


@pytest.mark.parametrize("template", [styles.CHATML, styles.GEMMA, styles.R1], ids=["chatml", "gemma", "r1"])
def test_a_template_that_knows_no_tools_gets_them_in_its_first_message(template, caplog):
    renderer = Renderer(styles.merging(template))
    prompt = renderer.tokenizer.decode(renderer.open([user("x")], TOOLS))
    assert '"name": "look"' in prompt and "<tool_call>" in prompt
    renderer.open([user("y")], TOOLS)
    assert [record.getMessage()[:35] for record in caplog.records] == ["the chat template knows no tools: t"]


def test_a_template_that_asks_for_another_form_than_the_chosen_one_is_named_once(caplog):
    renderer = Renderer(styles.merging(styles.MISTRAL), tool_format="glm45")
    plain = Renderer(styles.merging(styles.MISTRAL))
    for _ in range(2):
        assert renderer.open([user("x")], TOOLS) == plain.open([user("x")], TOOLS)
    warnings = [record.getMessage() for record in caplog.records]
    assert warnings == ["the chat template asks for hermes calls itself; glm45 calls are read as well"]


def test_results_of_calls_reach_a_template_that_knows_no_tools():
    renderer = Renderer(styles.merging(styles.GEMMA))
    agent = ChatAgent(renderer)
    prompt = [*agent.open([user("x")], TOOLS).ids]
    ids = [*renderer.tokenizer.encode(WELL_FORMED["hermes"][0]), renderer.terminator]
    call = agent.act(ids)["tool_calls"][0]
    context = agent.observe([{"role": "tool", "tool_call_id": call["id"], "content": "found it"}])
    assert not context.fresh and "<tool_response>\nfound it" in renderer.tokenizer.decode([*prompt, *ids, *context.ids])


class Pictures:
    """A model's images, each of which is one token."""

    placeholder = "<|endoftext|>"

    def __init__(self, tokenizer):
        self.ids = (tokenizer.convert_tokens_to_ids(self.placeholder),)

    def expand(self, image):
        return self.ids


@pytest.mark.parametrize("template", [styles.TEXT_OR_BLOCKS, styles.BLOCKS_ONLY], ids=["text or blocks", "blocks only"])
@pytest.mark.parametrize("system", [(), ({"role": "system", "content": "Be brief."},)], ids=["", "system"])
def test_a_vision_language_template_that_drops_tools_shows_them_and_calls_and_results_as_text(template, system, caplog):
    tokenizer = styles.merging(template)
    renderer = Renderer(tokenizer, images=Pictures(tokenizer))
    agent = ChatAgent(renderer)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    first = {"role": "user", "content": [picture, {"type": "text", "text": "x"}]}
    prompt = [*agent.open([*system, first], TOOLS).ids]
    assert [record.getMessage()[:35] for record in caplog.records] == ["the chat template knows no tools: t"]
    reply_ids = [*tokenizer.encode(WELL_FORMED["hermes"][0]), renderer.terminator]
    call = agent.act(reply_ids)["tool_calls"][0]
    seen = [picture, {"type": "text", "text": "found it"}]
    context = agent.observe([{"role": "tool", "tool_call_id": call["id"], "content": seen}])
    text = tokenizer.decode([*prompt, *([] if context.fresh else reply_ids), *context.ids])
    whole = tokenizer.decode(renderer.render([*system, first, *agent.messages[-2:]], TOOLS))
    for one in (text, whole):
        assert "'type'" not in one and one.count(Pictures.placeholder) == 2
        assert '"name": "look", "description"' in one and '<tool_call>{"name": "look"' in one.replace("\n{", "{")
        assert f"<tool_response>\n{Pictures.placeholder}found it\n</tool_response>" in one


class WithResponseTemplate:
    """A tokenizer that reads replies itself."""

    def __init__(self, tokenizer, answer):
        self.response_template = {"any": "thing"}
        self.tokenizer, self.answer, self.prefixes = tokenizer, answer, []

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)

    def parse_response(self, ids, prefix=None, tools=None):
        self.prefixes.append(prefix)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_response_template_of_the_tokenizer_reads_first():
    answer = {"content": "a", "thinking": "hm", "tool_calls": [{"function": {"name": "look", "arguments": {"n": 5}}}]}
    tokenizer = WithResponseTemplate(styles.merging(styles.CHATML), answer)
    renderer = Renderer(tokenizer)
    message = renderer.parse([65], tools=TOOLS, prompt=(66,), calls_before=4)
    assert message["content"] == "<think>\nhm\n</think>\n\na" and tokenizer.prefixes[-1] == [66]
    assert reply.calls(message) == [("look", {"n": 5})] and message["tool_calls"][0]["id"] == "call00004"
    tokenizer.answer = RuntimeError("broken")
    assert renderer.parse([65], tools=TOOLS)["content"] == "A"
