"""Law 1: what was sampled stays as it was sampled, and extending a dialogue equals rendering it anew."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tokenizers import normalizers

from agents import reply
from agents.chat import ChatAgent
from agents.render import Renderer
from envs.types import assistant, final_text
from rl.policy.tiny import byte_tokenizer
from tests.support import chat_templates as styles

LETTERS = (*'ab \n\té🎉<{"\\', "aa", "\n\n", "</think", "12", "123", "%}", "{{ x }}")
TOOL = {"type": "function", "function": {"name": "look", "description": "d", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def tiny():
    """The bundled model's renderer."""
    return Renderer(byte_tokenizer())


def random_text(rng, most=8):
    """Random text of awkward pieces."""
    return "".join(rng.choice(LETTERS, size=rng.integers(most)))


def make_message(role, content):
    """A message."""
    return {"role": role, "content": content}


def call_message(content, *arguments):
    """An assistant message with one call for each of the arguments."""
    return assistant(content, tool_calls=[("look", argument) for argument in arguments])


def exchange(rng, turn):
    """A random reply and what is answered to it."""
    if rng.random() < 0.4:
        content = random_text(rng).strip()
        arguments = ['{"a": [1, "é"]}', "{}"][: rng.integers(1, 3)]
        return call_message(content, *arguments), [
            {**make_message("tool", random_text(rng)), "tool_call_id": reply.call_id(i)} for i in range(len(arguments))
        ]
    new = [make_message("user", random_text(rng)) for _ in range(rng.integers(1, 3))]
    return make_message("assistant", f"<think>{random_text(rng)}</think>" * (turn % 3 == 1) + random_text(rng)), new


@pytest.mark.parametrize("seed", range(40))
def test_extending_a_random_dialogue_equals_rendering_it_anew(seed, tiny):
    rng = np.random.default_rng(seed)
    tools = [TOOL] if seed % 2 else []
    messages = [make_message("system", random_text(rng))] * (seed % 3 == 0) + [make_message("user", random_text(rng))]
    ids = [*tiny.open(messages, tools)]
    for turn in range(6):
        answer, new = exchange(rng, turn)
        reply_ids = tiny.write(answer)
        assert tiny.parse(reply_ids)["content"] == answer["content"]
        assert reply.calls(tiny.parse(reply_ids)) == reply.calls(answer)
        thinking = reply.has_thinking(answer)
        tail = tiny.extend(new, closed=True, thinking=thinking, tools=tools)
        assert tiny.extend(new, closed=False, thinking=thinking, tools=tools) == (tiny.terminator, *tail)
        ids += [*reply_ids, *tail]
        messages += [answer, *new]
        assert tuple(ids) == tiny.render(messages, tools, generation=True)
    assert tiny.tokenizer.decode(ids).count("<|end|>") == ids.count(tiny.terminator)


def families():
    """Each template that can be extended after every kind of message it knows."""
    return [styles.CHATML, styles.LLAMA3, styles.MISTRAL, styles.GEMMA]


@pytest.mark.parametrize("template", families(), ids=["chatml", "llama3", "mistral", "gemma"])
def test_every_family_extends_to_the_text_of_the_whole_dialogue(template):
    renderer = Renderer(styles.merging(template))
    tokenizer = renderer.tokenizer
    messages = [make_message("user", "aab\n\naaaa")]
    ids = [*renderer.open(messages)]
    for answer, question in itertools.product(("aaaa b", "123"), ("\naaa", "ab 12")):
        ids += renderer.write(make_message("assistant", answer))
        ids += renderer.extend([make_message("user", question)], closed=True)
        messages += [make_message("assistant", answer), make_message("user", question)]
        assert tokenizer.decode(ids) == tokenizer.decode(renderer.render(messages, generation=True))
    assert renderer.extends["assistant -> user"] and renderer.extends["thinking assistant -> user"]
    assert renderer.extends["assistant -> tool"]


def test_a_spelling_that_the_tokenizer_would_not_choose_is_kept_as_it_was_sampled():
    renderer = Renderer(styles.merging(styles.CHATML))
    a, aa = renderer.tokenizer.convert_tokens_to_ids(["a", "aa"])
    opening, end = renderer.open([make_message("user", "x")]), renderer.terminator
    tail = renderer.extend([make_message("user", "aaab")], closed=True)
    prompts = {}
    for reply_ids in ((a, a, a, end), (a, aa, end), (aa, a, end)):
        assert renderer.parse(reply_ids) == make_message("assistant", "aaa")
        prompts[reply_ids] = (*opening, *reply_ids, *tail)
    assert len(set(prompts.values())) == 3, "three spellings of one text are three histories"
    whole = renderer.render(
        [make_message("user", "x"), make_message("assistant", "aaa"), make_message("user", "aaab")], generation=True
    )
    different = [reply_ids for reply_ids, prompt in prompts.items() if prompt != whole]
    assert len(different) >= 2, "rendering anew would have replaced what was sampled"
    for reply_ids, prompt in prompts.items():
        assert prompt[len(opening) :][: len(reply_ids)] == reply_ids
        assert renderer.tokenizer.decode(prompt) == renderer.tokenizer.decode(whole)


def test_sampled_specials_and_broken_bytes_are_shown_and_leave_the_history_alone(tiny):
    reply_ids = (0xFF, 65, *tiny.tokenizer.encode("<|user|>"), 0xC3, tiny.terminator)
    assert tiny.parse(reply_ids)["content"] == "\ufffdA<|user|>\ufffd"
    assert tiny.parse(reply_ids[:-1]) == tiny.parse(reply_ids)
    assert tiny.parse(()) == make_message("assistant", "")


def test_half_a_surrogate_pair_in_a_message_can_still_be_rendered(tiny):
    assert tiny.open([make_message("user", "a\ud800b")]) == tiny.open([make_message("user", "a?b")])


def test_the_terminator_is_written_once_whether_or_not_the_reply_ended_with_it():
    renderer = Renderer(styles.merging(styles.CHATML))
    new = [make_message("user", "ab")]
    closed, cut = renderer.extend(new, closed=True), renderer.extend(new, closed=False)
    assert cut == (renderer.terminator, *closed)
    assert renderer.tokenizer.decode(closed) == "\n<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n"


def test_a_stop_token_other_than_eos_is_found_in_the_template():
    renderer = Renderer(styles.merging(styles.CHATML, eos="<|endoftext|>"))
    names = renderer.tokenizer.convert_ids_to_tokens(list(renderer.stop))
    assert names == ["<|endoftext|>", "<|im_end|>"] and renderer.terminator == renderer.stop[1]
    assert Renderer(byte_tokenizer()).stop == (297,)


def test_qwen3_style_thinking_survives_a_tool_loop_and_ends_at_a_user_message():
    renderer = Renderer(styles.merging(styles.QWEN3))
    assert renderer.extends == {
        "assistant -> user": True,
        "assistant -> tool": True,  # history shows an empty thinking block that was never sampled: bridged
        "thinking assistant -> user": False,
        "thinking assistant -> tool": True,
    }
    thought = call_message("<think>\nab\n</think>\n\nb", "{}")
    answer = {**make_message("tool", "12"), "tool_call_id": reply.call_id(0)}
    tail = renderer.extend([answer], closed=True, thinking=True)
    ids = [*renderer.open([make_message("user", "x")]), *renderer.write(thought), *tail]
    whole = renderer.render([make_message("user", "x"), thought, answer], generation=True)
    assert renderer.tokenizer.decode(ids) == renderer.tokenizer.decode(whole)
    assert renderer.extend([make_message("user", "go on")], closed=True, thinking=True) is None


def test_template_options_reach_the_template():
    tokenizer = styles.merging(styles.QWEN3)
    prompt = Renderer(tokenizer, enable_thinking=False).open([make_message("user", "x")])
    assert tokenizer.decode(prompt).endswith("<think>\n\n</think>\n\n")
    assert Renderer(tokenizer, enable_thinking=False).extends["assistant -> tool"]


def test_a_template_whose_replies_end_with_no_token_is_not_extended():
    renderer = Renderer(styles.merging(styles.PLAIN))
    assert not any(renderer.extends.values())
    assert renderer.write(make_message("assistant", "ab"))[-1] in renderer.stop


def test_reasoning_that_history_never_shows_is_dropped_and_a_reply_without_any_is_bridged():
    renderer = Renderer(styles.merging(styles.R1))
    assert [renderer.extends[f"{kind}assistant -> user"] for kind in ("", "thinking ")] == [True, False]
    written = renderer.write(make_message("assistant", "ab"))
    assert written[-1] in renderer.stop and final_text(renderer.parse(written)) == "ab"


def test_tools_that_move_with_the_last_user_message_prevent_extension():
    renderer = Renderer(styles.merging(styles.MISTRAL))
    new = [make_message("user", "ab")]
    assert renderer.extend(new, closed=True) is not None
    assert renderer.extend(new, closed=True, tools=[TOOL]) is None
    answer = {**make_message("tool", "ab"), "tool_call_id": reply.call_id(0)}
    assert renderer.extend([answer], closed=True, tools=[TOOL]) is not None


def test_a_system_message_that_moves_prevents_extension():
    last = "(messages[0].content if loop.last and message.role == 'user' and messages[0].role == 'system' else '')"
    moving_system = styles.CHATML.replace("message.content", f"message.content + {last}", 1)
    assert Renderer(styles.merging(styles.CHATML)).extends["assistant -> user"]
    extends = Renderer(styles.merging(moving_system)).extends
    assert not extends["assistant -> user"] and not extends["thinking assistant -> user"]


def test_opening_and_extending_are_cached_per_content_and_options(tiny):
    messages = [make_message("user", "cached")]
    assert tiny.open(messages) is tiny.open([dict(messages[0])])
    assert tiny.extend(messages, closed=True) is tiny.extend(list(messages), closed=True)
    messages[0]["content"] = "changed"
    assert tiny.tokenizer.decode(tiny.open(messages)) == "<|user|>changed<|end|><|assistant|>"
    assert tiny.open(messages, [TOOL]) != tiny.open(messages)


def test_a_tokenizer_without_template_is_told_the_fix():
    with pytest.raises(ValueError, match=r"no chat template; take the model's instruct version.*chat_template\.jinja"):
        Renderer(styles.merging(None))


def test_messages_that_the_template_refuses_are_named_by_their_roles():
    renderer = Renderer(styles.merging(styles.GEMMA))
    with pytest.raises(ValueError, match=r"\(user, user\): .*alternate"):
        renderer.open([make_message("user", "a"), make_message("user", "b")])


@pytest.mark.parametrize(
    "fault",
    [
        "{% for x in range(10000000000) %}a{% endfor %}",
        "{{ 1 // 0 }}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
    ],
)
def test_a_template_that_fails_to_compute_refuses_the_messages(fault):
    renderer = Renderer(styles.merging("{% if messages[-1].content == 'b' %}" + fault + "{% endif %}" + styles.CHATML))
    with pytest.raises(ValueError, match=r"the chat template.* refuses the messages \(user\): ."):
        renderer.open([make_message("user", "b")])


def test_calls_are_read_after_the_thinking_and_numbered_through_the_dialogue():
    text = (
        'before <think><tool_call>{"name": "f"}</tool_call></think> now\n<tool_call>\n'
        '{"name": "f", "arguments": {"a": "é"}}\n</tool_call><tool_call>{"name": "g"}</tool_call> after '
    )
    message = reply.parse(text, 3)
    assert message["content"] == 'before <think><tool_call>{"name": "f"}</tool_call></think> now\n after'
    assert [call["id"] for call in message["tool_calls"]] == ["call00003", "call00004"]
    assert reply.calls(message) == [("f", {"a": "é"}), ("g", {})]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a": "é"}'


@pytest.mark.parametrize(
    "block",
    [
        "{", "[]", "null", '{"name": 3}', '{"arguments": {}}', '{"name": "f", "arguments": "x"}', "[" * 100_000,
        '{"name": "f", "arguments": {"a": "\\ud800"}}', '{"name": "f", "arguments": {"a": "</tool_call>"}}',
    ],
)  # fmt: skip
def test_a_malformed_call_stays_in_the_content_unchanged(block):
    text = f" a <tool_call>{block}</tool_call> b "
    assert reply.parse(text) == make_message("assistant", text)


def test_a_good_call_beside_a_malformed_one_is_read():
    message = reply.parse('<tool_call>{"name": "f"}</tool_call><tool_call>{</tool_call>')
    assert reply.calls(message) == [("f", {})] and message["content"] == "<tool_call>{</tool_call>"


def test_composing_is_the_inverse_of_parsing():
    message = call_message("look:", '{"a": [1, "é"]}', "{}")
    assert reply.parse(reply.compose(message)) == message
    assert reply.compose(make_message("assistant", " as it is\n")) == " as it is\n"


class Counting:
    """A tokenizer that counts the characters it is given."""

    def __init__(self, tokenizer):
        self.tokenizer, self.characters = tokenizer, 0

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)

    def encode(self, text, **options):
        self.characters += len(text)
        return self.tokenizer.encode(text, **options)


def test_of_a_text_that_fits_no_context_only_as_much_is_tokenized_as_shows_that():
    tokenizer = Counting(byte_tokenizer())
    bounded, whole = Renderer(tokenizer, most_tokens=512), Renderer(byte_tokenizer())
    book = {"role": "user", "content": "it was a dark night " * 50_000}
    before = tokenizer.characters
    prompt, all_ids = bounded.open([book]), whole.open([book])
    assert 512 <= len(prompt) < len(all_ids)
    assert prompt == all_ids[: len(prompt)]
    agent = ChatAgent(bounded)
    agent.open([{"role": "user", "content": "hi"}])
    agent.act(bounded.write(assistant("yes")))
    assert len(agent.observe([book]).ids) >= 512
    assert tokenizer.characters - before < 200_000


def test_a_text_that_fits_a_context_is_never_cut_however_few_tokens_it_has():
    """Here the tokenizer drops all spaces, so that a long text has few tokens."""
    tokenizer = byte_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace(" ", "")
    messages = [{"role": "user", "content": "a" + " " * 1_000_000 + "b"}]
    assert Renderer(tokenizer, most_tokens=16).open(messages) == Renderer(tokenizer).open(messages)


def test_long_texts_do_not_fill_the_caches(tiny):
    renderer = Renderer(byte_tokenizer())
    message = {"role": "user", "content": "x" * 100_000}
    renderer.open([message])
    renderer.extend([message], closed=True)
    renderer.write(assistant("x" * 100_000))
    caches = (renderer._cached_open, renderer._cached_write)
    assert [cache.cache_info().currsize for cache in caches] == [0, 0]
