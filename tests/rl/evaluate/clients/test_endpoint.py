"""A policy behind an API: requests, responses, the cache of replies, and limits on tokens."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from envs.types import Message, Stop, user
from rl.cli import UserError
from rl.evaluate.clients import codec
from rl.evaluate.clients.cache import ReplyCache
from rl.evaluate.clients.client import IncompleteEvaluation, StopEvaluation
from rl.evaluate.clients.endpoint import EndpointModel
from rl.policy.engine import CutOff
from tests.support.chat_server import Answer, completion
from tests.support.fake_endpoint import KEY, TOOL, ScriptedServer, chat_request, play, post_once, successes


def test_a_request_holds_how_to_sample_and_fields_replace_it() -> None:
    request = chat_request(tools=(TOOL,), max_tokens=7, temperature=0.5, top_p=0.9, top_k=3, seed=2**40 + 5)
    body = codec.encode_request(request, "m", {})
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
    plain = codec.encode_request(chat_request(), "m", {"max_tokens": None, "seed": None, "max_completion_tokens": 9})
    assert plain.keys() == {"model", "messages", "temperature", "top_p", "max_completion_tokens"}
    assert plain["top_p"] == 1.0


@pytest.mark.parametrize(
    ("message", "response"),
    [
        ({"content": "7"}, {"content": "7"}),
        ({"content": None}, {"content": ""}),
        ({"content": None, "refusal": "no"}, {"content": "no"}),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]},
            {"content": "a\nb"},
        ),
        ({"content": "\ud800"}, {"content": "\ud800"}),
        ({"content": "7", "reasoning_content": "hm", "tool_calls": None}, {"content": "7", "reasoning_content": "hm"}),
        ({"content": "7", "reasoning": "hm"}, {"content": "7", "reasoning": "hm"}),
        ({"content": "7", "reasoning_content": "", "reasoning": "hm"}, {"content": "7", "reasoning": "hm"}),
        ({"content": "7", "reasoning_content": None, "reasoning": ""}, {"content": "7"}),
    ],
)
def test_an_answer_is_read_whatever_form_its_content_has(message: dict, response: dict) -> None:
    answer = {"choices": [{"message": {"role": "assistant", **message}}]}
    assert codec.decode_response(answer, chat_request()).message == {"role": "assistant", **response}


def test_tool_calls_are_read_as_calls_with_ids_and_arguments_as_text_also_where_they_came_as_words() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}},
        {"id": "", "function": {"name": "add", "arguments": {"x": 2}}},
        {"function": {"name": "add", "arguments": ""}},
    ]
    earlier: Message = {"role": "assistant", "content": "", "tool_calls": calls[:1]}  # type: ignore[typeddict-item]
    request = chat_request(user("go"), earlier, tools=(TOOL,))
    response = codec.decode_response(
        {"choices": [{"message": {"content": None, "tool_calls": calls}}]}, request
    ).message
    fields = [(call["id"], call["function"]["arguments"], call["type"]) for call in response["tool_calls"]]
    assert fields == [
        ("a", '{"x": 1}', "function"),
        ("call00002", '{"x": 2}', "function"),
        ("call00003", "{}", "function"),
    ]
    text = 'so: <tool_call>{"name": "add", "arguments": {"x": 3}}</tool_call>'
    decode = partial(codec.decode_response, {"choices": [{"message": {"content": text}}]})
    assert decode(request).message["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"x": 3}'}
    assert decode(chat_request()).message["content"] == text  # no tools were offered
    assert codec.encode_request(request, "m", {})["messages"][1]["content"] is None


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
        response = codec.decode_response(answer, chat_request())
        assert (response.finish, response.tokens, response.context) == (finish, 5, 15)
    groups = play(ScriptedServer(), 10)
    assert {len(str(t.turns[0].reply["content"])) == t.num_sampled for g in groups for t in g.trajectories} == {True}
    assert {t.num_sampled for g in groups for t in g.trajectories} == {1, 2}


def test_without_a_key_none_is_sent_and_a_server_that_wants_one_says_where_to_put_it() -> None:
    server = ScriptedServer(Answer(401, {"error": "who?"}))
    with pytest.raises(StopEvaluation, match="it needs an API key; set OPENAI_API_KEY"):
        post_once(server)
    assert "authorization" not in server.requests[0][1]
    server = ScriptedServer()
    post_once(server, key=KEY)
    assert server.requests[0][1]["authorization"] == f"Bearer {KEY}"
    assert server.requests[0][0] == "/v1/chat/completions"


def test_a_dialogue_that_is_too_long_for_the_model_truncates_the_episode() -> None:
    long = Answer(400, {"error": {"message": "This model's maximum context length is 20 tokens."}})
    with pytest.raises(CutOff):
        post_once(ScriptedServer(long))
    fine = Answer(body=completion("1"))
    (group,) = play(ScriptedServer(fine, long), 1, env={"turns": 3})
    assert [(t.stop, len(t.turns), t.success) for t in group.trajectories] == [(Stop.TOKEN_LIMIT, 1, False)]
    (group,) = play(ScriptedServer(long), 1)  # without any reply there is nothing to score
    assert (group.trajectories, len(group.errored)) == ([], 1)
    assert group.errored[0].failure.startswith(
        "CutOff: the dialogue is too long for the model: lower --turn-tokens or serve it with a longer context (400: "
    )


@pytest.mark.parametrize(
    ("flag", "fields", "hint"),
    [
        ("--policy", {"temperature": 1}, ": lower --turn-tokens or serve it with a longer context"),
        ("--policy", {"max_tokens": 9}, ": lower --api-arg max_tokens or serve it with a longer context"),
        (
            "--opponent",
            {"max_tokens": None, "max_completion_tokens": 9},
            ": lower --api-arg max_completion_tokens or serve it with a longer context",
        ),
        ("--judge", {}, ""),
    ],
)
def test_a_dialogue_that_is_too_long_names_what_sets_the_limit_of_a_reply_if_a_flag_does(
    flag: str, fields: dict[str, Any], hint: str
) -> None:
    long = Answer(400, {"error": {"message": "context length 20"}})
    limit_flag = EndpointModel.from_spec("toy@http://toy/v1", fields).limit_flag
    with pytest.raises(CutOff) as error:
        post_once(ScriptedServer(long), flag=flag, limit_flag=limit_flag)
    assert str(error.value) == f"the dialogue is too long for the model{hint} (400: context length 20)"


def test_the_tokens_of_an_episode_are_bounded_by_the_servers_count() -> None:
    server = ScriptedServer()
    (group,) = play(server, 1, env={"turns": 9}, context=20)
    limits = [body["max_tokens"] for _, _, body in server.requests]
    assert limits == [20, 20 - 10 - group.trajectories[0].turns[0].completion.num_sampled]
    assert group.trajectories[0].stop == Stop.TOKEN_LIMIT


def test_members_are_asked_for_apart_and_a_second_evaluation_asks_for_nothing(tmp_path: Path) -> None:
    server, cache = ScriptedServer(), ReplyCache(tmp_path)
    groups = play(server, 5, samples=3, cache=cache, fields={"seed": None})
    assert len(server.requests) == 15
    assert all("seed" not in body for _, _, body in server.requests)
    server.requests.clear()
    assert successes(play(server, 5, samples=3, cache=cache, fields={"seed": None})) == successes(groups)
    assert server.requests == []
    play(server, 5, samples=3, cache=cache, fields={"seed": None, "reasoning_effort": "low"})
    assert len(server.requests) == 15
    assert not [path for path in tmp_path.rglob("*.json") if KEY in path.read_text()]
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 30


def test_a_file_of_the_cache_that_cannot_be_read_is_asked_for_again(tmp_path: Path) -> None:
    server, cache = ScriptedServer(), ReplyCache(tmp_path)
    play(server, 2, cache=cache)
    next(tmp_path.rglob("*.json")).write_text('{"mess')
    play(server, 2, cache=cache)
    assert len(server.requests) == 3


def test_no_flipped_bit_of_the_cache_passes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = ReplyCache(tmp_path)
    value = {"message": {"role": "assistant", "content": "17"}, "tokens": 2}
    cache.put("ab12", value)
    assert cache.get("ab12") == value
    (path,) = tmp_path.rglob("*.json")
    content = path.read_bytes()
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        caplog.clear()
        assert cache.get("ab12") is None
        assert caplog.messages == [f"{path} is damaged and not used; the reply is asked for again"]
    path.write_bytes(content.partition(b"\n")[2])  # as an older version wrote it
    assert cache.get("ab12") == value


@pytest.mark.parametrize(
    "reasoning", [{"reasoning_content": "a tool"}, {"reasoning": "a tool"}, {"reasoning_content": ""}]
)
def test_tools_are_offered_their_calls_are_played_and_go_back_with_the_reasoning(reasoning: dict[str, str]) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    first = completion(None, tool_calls=[call], **reasoning)
    server = ScriptedServer(Answer(body=first), Answer(body=completion("9")))
    (group,) = play(server, 1, env={"tools": True})
    assert reasoning.items() <= group.trajectories[0].turns[0].reply.items()
    assert [body["tools"] for _, _, body in server.requests] == [[TOOL], [TOOL]]
    assert server.requests[1][2]["messages"][1:] == [
        {"role": "assistant", "content": None, "tool_calls": [call], **reasoning},
        {"role": "tool", "content": "2", "tool_call_id": "c1"},
    ]
    assert [len(t.turns) for t in group.trajectories] == [2]


def test_a_used_up_token_budget_sends_nothing_more_keeps_what_was_answered_and_can_be_continued(tmp_path: Path) -> None:
    expected = successes(play(ScriptedServer(), 30))
    server, cache = ScriptedServer(), ReplyCache(tmp_path)
    with pytest.raises(
        IncompleteEvaluation, match=r"--token-budget 100 is used up \(1\d\d tokens; the same command with a larger"
    ) as stop:
        play(server, 30, cache=cache, budget=100, concurrency=4)
    num_requests = len(server.requests)
    assert 9 <= num_requests <= 9 + 4
    assert len(list(tmp_path.rglob("*.json"))) == num_requests == len(stop.value.groups)
    assert all(group.trajectories and not group.errored for group in stop.value.groups)
    assert successes(play(server, 30, cache=cache, budget=10_000)) == expected
    assert len(server.requests) == 30


def test_a_budget_is_refused_where_the_server_counts_no_tokens(caplog: pytest.LogCaptureFixture) -> None:
    answers = [Answer(body={**completion("1"), "usage": None}) for _ in range(9)]
    with pytest.raises(UserError, match="counts no tokens"):
        play(ScriptedServer(*answers), budget=100)
    groups = play(ScriptedServer(*answers), 6)
    assert {t.num_sampled for group in groups for t in group.trajectories} == {0}
    assert caplog.text.count("counts no tokens") == 1


def test_replies_of_the_cache_that_count_no_tokens_are_told_and_refused_as_new_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [Answer(body={**completion("1"), "usage": None}) for _ in range(3)]
    play(ScriptedServer(*answers), 3, cache=ReplyCache(tmp_path))
    caplog.clear()
    server = ScriptedServer()
    play(server, 3, cache=ReplyCache(tmp_path))
    assert (server.requests, caplog.text.count("counts no tokens")) == ([], 1)
    with pytest.raises(UserError, match="counts no tokens"):
        play(server, 3, cache=ReplyCache(tmp_path), budget=10)


@pytest.mark.parametrize(
    ("spec", "name", "url"),
    [
        ("m@http://h:8000/v1", "m", "http://h:8000/v1"),
        ("@cf/meta/llama@https://h/v1/", "@cf/meta/llama", "https://h/v1"),
        ("a/b:free@https://h/api/v1/chat/completions", "a/b:free", "https://h/api/v1"),
    ],
)
def test_a_spec_names_a_model_and_a_url(spec: str, name: str, url: str) -> None:
    assert (EndpointModel.from_spec(spec).name, EndpointModel.from_spec(spec).url) == (name, url)


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
        EndpointModel.from_spec(spec)
    with pytest.raises(ValueError, match="'messages' cannot be set"):
        EndpointModel.from_spec("m@http://h", {"messages": []})
