"""A policy behind an API: what is sent, what an answer means, what is kept, what is bounded."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from envs.types import Message, Stop, user
from rl.cli import UserError
from rl.evaluate.clients import codec
from rl.evaluate.clients.cache import ReplyCache
from rl.evaluate.clients.client import Halt, Unfinished
from rl.evaluate.clients.endpoint import Model
from rl.records import CutOff
from tests.support.chat_server import Answer, completion
from tests.support.endpoint_stage import KEY, TOOL, Script, ask_once, asked, play, successes


def test_a_request_holds_how_to_sample_and_fields_replace_it() -> None:
    question = asked(tools=(TOOL,), max_tokens=7, temperature=0.5, top_p=0.9, top_k=3, seed=2**40 + 5)
    body = codec.request(question, "m", {})
    assert body == {
        "model": "m",
        "messages": [user("1 + 1 = ?")],
        "max_tokens": 7,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "seed": 5,
        "tools": [TOOL],
    }
    plain = codec.request(asked(), "m", {"max_tokens": None, "seed": None, "max_completion_tokens": 9})
    assert plain.keys() == {"model", "messages", "temperature", "max_completion_tokens"}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"content": "7"}, {"content": "7"}),
        ({"content": None}, {"content": ""}),
        ({"content": None, "refusal": "no"}, {"content": "no"}),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]},
            {"content": "a\nb"},
        ),
        ({"content": "\ud800"}, {"content": "\ud800"}),
        ({"content": "7", "reasoning_content": "hm", "tool_calls": None}, {"content": "7"}),
    ],
)
def test_an_answer_is_read_whatever_form_its_content_has(message: dict, said: dict) -> None:
    answer = {"choices": [{"message": {"role": "assistant", **message}}]}
    assert codec.read(answer, asked()).message == {"role": "assistant", **said}


def test_tool_calls_are_read_as_calls_with_ids_and_arguments_as_text_also_where_they_came_as_words() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}},
        {"id": "", "function": {"name": "add", "arguments": {"x": 2}}},
        {"function": {"name": "add", "arguments": ""}},
    ]
    earlier: Message = {"role": "assistant", "content": "", "tool_calls": calls[:1]}  # type: ignore[typeddict-item]
    question = asked(user("go"), earlier, tools=(TOOL,))
    said = codec.read({"choices": [{"message": {"content": None, "tool_calls": calls}}]}, question).message
    found = [(call["id"], call["function"]["arguments"], call["type"]) for call in said["tool_calls"]]
    assert found == [
        ("a", '{"x": 1}', "function"),
        ("call00002", '{"x": 2}', "function"),
        ("call00003", "{}", "function"),
    ]
    text = 'so: <tool_call>{"name": "add", "arguments": {"x": 3}}</tool_call>'
    read = partial(codec.read, {"choices": [{"message": {"content": text}}]})
    assert read(question).message["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"x": 3}'}
    assert read(asked()).message["content"] == text  # no tools were offered
    assert codec.request(question, "m", {})["messages"][1]["content"] is None


def test_stop_reasons_are_mapped_and_tokens_are_the_servers_count() -> None:
    for reason, finish in (
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "stop"),
        (None, "stop"),
        ("content_filter", "stop"),
    ):
        answer = completion("12345")
        answer["choices"][0]["finish_reason"] = reason
        said = codec.read(answer, asked())
        assert (said.finish, said.tokens, said.context) == (finish, 5, 15)
    groups = play(Script(), 10)
    assert {len(str(t.turns[0].reply["content"])) == t.num_sampled for g in groups for t in g.trajectories} == {True}
    assert {t.num_sampled for g in groups for t in g.trajectories} == {1, 2}


def test_without_a_key_none_is_sent_and_a_server_that_wants_one_says_where_to_put_it() -> None:
    script = Script(Answer(401, {"error": "who?"}))
    with pytest.raises(Halt, match="it wants a key; set OPENAI_API_KEY"):
        ask_once(script)
    assert "authorization" not in script.asked[0][1]
    script = Script()
    ask_once(script, key=KEY)
    assert script.asked[0][1]["authorization"] == f"Bearer {KEY}"
    assert script.asked[0][0] == "/v1/chat/completions"


def test_a_dialogue_that_is_too_long_for_the_model_truncates_the_episode() -> None:
    long = Answer(400, {"error": {"message": "This model's maximum context length is 20 tokens."}})
    with pytest.raises(CutOff):
        ask_once(Script(long))
    fine = Answer(body=completion("1"))
    (group,) = play(Script(fine, long), 1, env={"turns": 3})
    assert [(t.stop, len(t.turns), t.success) for t in group.trajectories] == [(Stop.TOKEN_LIMIT, 1, False)]
    (group,) = play(Script(long), 1)  # a prompt that cannot be read is nobody's score
    assert (group.trajectories, len(group.errored)) == ([], 1)


def test_the_tokens_of_an_episode_are_bounded_by_the_servers_count() -> None:
    script = Script()
    (group,) = play(script, 1, env={"turns": 9}, context=20)
    limits = [body["max_tokens"] for _, _, body in script.asked]
    assert limits == [20, 20 - 10 - group.trajectories[0].turns[0].completion.num_sampled]
    assert group.trajectories[0].stop == Stop.TOKEN_LIMIT


def test_members_are_asked_for_apart_and_a_second_evaluation_asks_for_nothing(tmp_path: Path) -> None:
    script, cache = Script(), ReplyCache(tmp_path)
    first = play(script, 5, samples=3, cache=cache, fields={"seed": None})
    assert len(script.asked) == 15
    assert all("seed" not in body for _, _, body in script.asked)
    script.asked.clear()
    assert successes(play(script, 5, samples=3, cache=cache, fields={"seed": None})) == successes(first)
    assert script.asked == []
    play(script, 5, samples=3, cache=cache, fields={"seed": None, "reasoning_effort": "low"})
    assert len(script.asked) == 15
    assert not [path for path in tmp_path.rglob("*.json") if KEY in path.read_text()]
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 30


def test_a_file_of_the_cache_that_cannot_be_read_is_asked_for_again(tmp_path: Path) -> None:
    script, cache = Script(), ReplyCache(tmp_path)
    play(script, 2, cache=cache)
    next(tmp_path.rglob("*.json")).write_text('{"mess')
    play(script, 2, cache=cache)
    assert len(script.asked) == 3


def test_tools_are_offered_and_their_calls_are_played() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    script = Script(Answer(body=completion(None, tool_calls=[call])), Answer(body=completion("9")))
    (group,) = play(script, 1, env={"tools": True})
    assert [body["tools"] for _, _, body in script.asked] == [[TOOL], [TOOL]]
    assert script.asked[1][2]["messages"][1:] == [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "2", "tool_call_id": "c1"},
    ]
    assert [len(t.turns) for t in group.trajectories] == [2]


def test_a_used_up_token_budget_sends_nothing_more_keeps_what_was_answered_and_can_be_continued(tmp_path: Path) -> None:
    whole = successes(play(Script(), 30))
    script, cache = Script(), ReplyCache(tmp_path)
    with pytest.raises(
        Unfinished, match=r"--token-budget 100 is used up \(1\d\d tokens; the same command with a larger"
    ) as left:
        play(script, 30, cache=cache, budget=100, concurrency=4)
    sent = len(script.asked)
    assert 9 <= sent <= 9 + 4
    assert len(list(tmp_path.rglob("*.json"))) == sent == len(left.value.groups)
    assert all(group.trajectories and not group.errored for group in left.value.groups)
    assert successes(play(script, 30, cache=cache, budget=10_000)) == whole
    assert len(script.asked) == 30


def test_a_budget_is_refused_where_the_server_counts_no_tokens(caplog: pytest.LogCaptureFixture) -> None:
    uncounted = [Answer(body={**completion("1"), "usage": None}) for _ in range(9)]
    with pytest.raises(UserError, match="counts no tokens"):
        play(Script(*uncounted), budget=100)
    groups = play(Script(*uncounted), 6)
    assert {t.num_sampled for group in groups for t in group.trajectories} == {0}
    assert caplog.text.count("counts no tokens") == 1


@pytest.mark.parametrize(
    ("spec", "name", "url"),
    [
        ("m@http://h:8000/v1", "m", "http://h:8000/v1"),
        ("@cf/meta/llama@https://h/v1/", "@cf/meta/llama", "https://h/v1"),
        ("a/b:free@https://h/api/v1/chat/completions", "a/b:free", "https://h/api/v1"),
    ],
)
def test_a_spec_names_a_model_and_a_url(spec: str, name: str, url: str) -> None:
    assert (Model.read(spec).name, Model.read(spec).url) == (name, url)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("gpt", "openai:gpt is not openai:MODEL@URL"),
        ("gpt@localhost:8000", "is not openai:MODEL@URL"),
        ("m@http://me:sk-1@h/v1", "put the key in OPENAI_API_KEY"),
        ("m@http://:80/v1", "is no URL of a server"),
        ("m@http://h:eight/v1", "is no URL of a server"),
    ],
)
def test_a_wrong_spec_is_refused(spec: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Model.read(spec)
    with pytest.raises(ValueError, match="'messages' is not for you to set"):
        Model.read("m@http://h", {"messages": []})
