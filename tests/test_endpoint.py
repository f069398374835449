"""A policy behind an API: what is sent, what an answer means, what is repeated, what is refused, what is bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_endpoint import Answer, completion, serve, solved

from envs.env import Env
from envs.types import Message, Outcome, Stop, Task, user
from rl.cli import UserError
from rl.evaluation import sampling, tickets
from rl.records import CutOff, Group, SamplingParams
from rl.speakers import wire
from rl.speakers.cache import ReplyCache
from rl.speakers.connection import STRIKES, Connection, Refused, Unreachable
from rl.speakers.endpoint import Endpoint, Model
from rl.speakers.speaker import Asked, Halt, Unfinished, converse

KEY = "sk-very-secret"
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}


class Sums(Env):
    """Thirty sums; with `turns` > 1 every reply but the last is met with the same question."""

    def __init__(self, *, turns: int = 1, tools: bool = False, **limits: Any) -> None:
        super().__init__(max_turns=9, **limits)
        self.wanted, self.tools = turns, (TOOL,) if tools else ()

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"{split}/{i}", (user(f"{i} + 1 = ?"),), str(i + 1)) for i in range(30)]

    def reply(self, action: Message) -> Outcome:
        calls = action.get("tool_calls", ())
        if calls:
            return Outcome(({"role": "tool", "content": "2", "tool_call_id": calls[0]["id"]},))
        if self.turns + 1 < self.wanted:
            return Outcome(self.task.prompt)
        won = action["content"] == self.task.answer
        return Outcome(reward=float(won), terminated=True, success=won)

    def oracle(self) -> Iterator[Message]:
        raise NotImplementedError


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Script:
    """Responds with the given answers in turn, then rightly; remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.asked = list(answers), list[tuple[str, dict[str, str], Any]]()

    async def __call__(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if path.endswith("/models"):
            return Answer(body={"data": [{"id": "qwen3-8b"}, {"id": "llama"}]})
        self.asked.append((path, headers, json.loads(body)))
        if self.answers:
            return self.answers.pop(0)
        parsed = json.loads(body)
        return Answer(body=completion(solved(parsed), prompt=10 * len(parsed["messages"])))


def asked(*messages: Message, tools: tuple = (), **params: Any) -> Asked:
    return Asked(messages or (user("1 + 1 = ?"),), tools, SamplingParams(**params), "0/0")


def on(
    respond: Callable[..., Awaitable[Answer]], use: Callable[[str], Awaitable[Any]], path: str = "/v1", port: int = 0
) -> Any:
    """What `use(url)` returns while a server answers there."""

    async def both() -> Any:
        async with await serve(respond, port) as server:
            return await use(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}")

    return asyncio.run(both())


def ask_once(script: Script, clock: Clock | None = None, **settings: Any) -> Any:
    """What a connection makes of one request."""
    clock = clock or Clock()

    async def use(url: str) -> Any:
        async with Connection("qwen-8b", url, sleep=clock.sleep, clock=clock, **settings) as connection:
            question = asked()
            body = json.dumps(wire.request(question, "qwen-8b", {})).encode()
            return await connection.ask(body, partial(wire.read, asked=question), np.random.default_rng(0))

    return on(script, use)


def play(script: Callable[..., Awaitable[Answer]], number: int = 6, samples: int = 1, **settings: Any) -> list[Group]:
    """The groups that an endpoint plays; `settings` are the endpoint's, `env` the environment's."""
    env, patience = settings.pop("env", {}), settings.pop("patience", 5.0)
    clock = Clock()

    async def use(url: str) -> list[Group]:
        # The same name whatever the port, so that a cache is found again.
        model = Model("toy", "http://toy/v1", settings.pop("fields", {}))
        connection = Connection("toy", url, key=KEY, patience_s=patience, sleep=clock.sleep, clock=clock)
        async with Endpoint(model, connection, **settings) as endpoint:
            chosen = tickets(30, number, samples, 0)
            params = sampling(samples, turn_tokens=64)
            return await converse(lambda: Sums(**env), endpoint, params, chosen, at_once=8)

    return on(script, use)


def successes(groups: list[Group]) -> list[list[bool]]:
    return [[trajectory.success for trajectory in group.trajectories] for group in groups]


def test_a_request_holds_how_to_sample_and_fields_replace_it() -> None:
    question = asked(tools=(TOOL,), max_tokens=7, temperature=0.5, top_p=0.9, top_k=3, seed=2**40 + 5)
    body = wire.request(question, "m", {})
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
    plain = wire.request(asked(), "m", {"max_tokens": None, "seed": None, "max_completion_tokens": 9})
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
    assert wire.read(answer, asked()).message == {"role": "assistant", **said}


def test_tool_calls_are_read_as_calls_with_ids_and_arguments_as_text_also_where_they_came_as_words() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}},
        {"id": "", "function": {"name": "add", "arguments": {"x": 2}}},
        {"function": {"name": "add", "arguments": ""}},
    ]
    earlier: Message = {"role": "assistant", "content": "", "tool_calls": calls[:1]}  # type: ignore[typeddict-item]
    question = asked(user("go"), earlier, tools=(TOOL,))
    said = wire.read({"choices": [{"message": {"content": None, "tool_calls": calls}}]}, question).message
    found = [(call["id"], call["function"]["arguments"], call["type"]) for call in said["tool_calls"]]
    assert found == [
        ("a", '{"x": 1}', "function"),
        ("call00002", '{"x": 2}', "function"),
        ("call00003", "{}", "function"),
    ]
    text = 'so: <tool_call>{"name": "add", "arguments": {"x": 3}}</tool_call>'
    read = partial(wire.read, {"choices": [{"message": {"content": text}}]})
    assert read(question).message["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"x": 3}'}
    assert read(asked()).message["content"] == text  # no tools were offered
    assert wire.request(question, "m", {})["messages"][1]["content"] is None


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
        said = wire.read(answer, asked())
        assert (said.finish, said.tokens, said.context) == (finish, 5, 15)
    groups = play(Script(), 10)
    assert {len(str(t.turns[0].reply["content"])) == t.num_sampled for g in groups for t in g.trajectories} == {True}
    assert {t.num_sampled for g in groups for t in g.trajectories} == {1, 2}


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"message": "overloaded"}},
        {"choices": []},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"content": "x"}, "finish_reason": "abort"}]},
        {"choices": [{"message": {"tool_calls": [{"id": "a", "function": {"name": ""}}]}}]},
        [],
        None,
    ],
)
def test_an_answer_that_is_none_is_asked_for_again(answer: Any) -> None:
    script = Script(Answer(body=answer), Answer(200, answer))
    assert ask_once(script).message["content"] in "23"
    assert len(script.asked) == 3


def test_passing_failures_are_repeated_with_growing_waits_that_differ_by_seed_alone() -> None:
    failures = [Answer(status, {"error": "busy"}) for status in (500, 503, 429, 408, 502)]
    clocks = [Clock(), Clock()]
    for clock in clocks:
        script = Script(*failures)
        assert ask_once(script, clock).finish == "stop"
        assert len({json.dumps(body) for _, _, body in script.asked}) == 1
    assert clocks[0].slept == clocks[1].slept
    assert all(0.5 * 0.5 * 2**i <= wait < 0.5 * 1.5 * 2**i for i, wait in enumerate(clocks[0].slept))


def test_retry_after_is_honoured_in_seconds_and_as_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    clock = Clock()
    ask_once(
        Script(
            Answer(429, {}, {"retry-after": "40"}),
            Answer(503, {}, {"retry-after": later}),
            Answer(429, {}, {"retry-after": "soon"}),
        ),
        clock,
    )
    assert 40 <= clock.slept[0] <= 44
    assert 90 <= clock.slept[1] <= 110
    assert clock.slept[2] <= 0.5 * 1.5 * 4
    with pytest.raises(Unreachable, match="asks to wait 700 s"):
        ask_once(Script(Answer(429, {}, {"retry-after": "700"})))


def test_a_server_that_stays_away_is_waited_for_once_and_not_once_per_request() -> None:
    clock = Clock()

    async def use(url: str) -> None:
        async with Connection(
            "m", "http://127.0.0.1:9/v1", patience_s=100, sleep=clock.sleep, clock=clock
        ) as connection:
            for _ in range(3):
                with pytest.raises(Unreachable, match=r"connection refused; no answer for 1\d\d s"):
                    await connection.ask(b"{}", partial(wire.read, asked=asked()), np.random.default_rng(1))

    on(Script(), use)
    assert 100 <= clock.now < 135


def test_one_request_that_always_fails_is_given_up_while_others_are_answered() -> None:
    bad: list[int] = []

    async def respond(path: str, headers: dict[str, str], body: bytes) -> Answer:
        await asyncio.sleep(0)
        if '"0 + 1 = ?"' in body.decode() or '"3 + 1 = ?"' in body.decode():
            bad.append(1)
            return Answer(500, {"error": {"message": "cannot"}})
        return Answer(body=completion("1"))

    groups = play(respond, 30, env={"turns": 8}, concurrency=8, patience=1e9)
    failed = [trajectory for group in groups for trajectory in group.errored]
    assert [trajectory.task for trajectory in failed] == ["test/0", "test/3"]
    assert all(t.stop == Stop.ERROR and not t.turns for t in failed)
    assert "Unreachable: 500: cannot" in str(failed[0].error)
    assert len(bad) >= 2 * STRIKES


def test_an_endpoint_that_fails_is_an_error_and_never_a_score() -> None:
    groups = play(Script(*[Answer(500, {})] * 500), 3)
    assert successes(groups) == [[], [], []]
    assert [len(group.errored) for group in groups] == [1, 1, 1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            Answer(401, {"error": {"message": f"bad key {KEY}"}}),
            r"the key in OPENAI_API_KEY is refused \(401: bad key \(key\)\)",
        ),
        (
            Answer(404, {"error": {"message": "The model `qwen-8b` does not exist."}}),
            "unknown model; did you mean qwen3-8b",
        ),
        (
            Answer(404, {"detail": "Not Found"}),
            "nothing answers at http://.*/v1/chat/completions .404.; most servers want",
        ),
        (Answer(301, {}, {"location": "https://x/v1"}), "it points to https://x/v1"),
        (Answer(200, "<html>hello"), "no such API: it answers with a page"),
        (Answer(402, {"error": "no credit"}), "it wants to be paid"),
        (Answer(429, {"error": {"message": "sorry", "code": "insufficient_quota"}}), "quota is used up"),
    ],
)
def test_what_no_repetition_can_mend_ends_the_evaluation_at_once_with_one_line(answer: Answer, words: str) -> None:
    script = Script(answer)
    with pytest.raises(Halt, match=words) as halted:
        ask_once(script, key=KEY)
    assert (halted.value.refused, len(script.asked)) == (True, 1)
    assert KEY not in str(halted.value)
    assert str(halted.value).startswith("--policy openai:qwen-8b@http://127.0.0.1:")
    with pytest.raises(UserError, match="--policy openai:toy@"):
        play(Script(*[answer] * 20))


def test_without_a_key_none_is_sent_and_a_server_that_wants_one_says_where_to_put_it() -> None:
    script = Script(Answer(401, {"error": "who?"}))
    with pytest.raises(Halt, match="it wants a key; set OPENAI_API_KEY"):
        ask_once(script)
    assert "authorization" not in script.asked[0][1]
    script = Script()
    ask_once(script, key=KEY)
    assert script.asked[0][1]["authorization"] == f"Bearer {KEY}"
    assert script.asked[0][0] == "/v1/chat/completions"


def test_a_refused_request_fails_its_episode_once_and_many_before_any_answer_end_the_evaluation() -> None:
    wrong = Answer(400, {"error": {"message": "Unsupported value: 'temperature'"}})
    with pytest.raises(Refused, match="400: Unsupported value: 'temperature'; --api-arg KEY=VALUE"):
        ask_once(Script(wrong))
    script = Script(wrong, wrong)
    groups = play(script, 6, concurrency=1)
    assert sorted(map(len, successes(groups))) == [0, 0, 1, 1, 1, 1]
    assert len(script.asked) == 6  # a refused one is not sent again, though the episode is repeated
    with pytest.raises(UserError, match="400: Unsupported value"):
        play(Script(*[wrong] * 100), 30)


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


def test_what_an_outage_left_as_errors_is_played_by_a_second_evaluation(tmp_path: Path) -> None:
    whole, cache = successes(play(Script(), 12)), ReplyCache(tmp_path)
    good = []

    async def dying(path: str, headers: dict[str, str], body: bytes) -> Answer:
        good.append(body)
        if len(good) > 5:
            return Answer(503, {})
        return Answer(body=completion(solved(json.loads(body))))

    cut = play(dying, 12, cache=cache, patience=3.0)
    assert (sum(map(len, successes(cut))), sum(len(group.errored) for group in cut)) == (5, 7)
    script = Script()
    assert successes(play(script, 12, cache=cache)) == whole
    assert len(script.asked) == 7


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


def test_an_outage_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    ask_once(Script(*[Answer(503, {"error": "loading"})] * 7))
    assert caplog.text.count("503: loading; trying again for ") == 1
    assert caplog.text.count("answers again after") == 1
    caplog.clear()
    ask_once(Script(Answer(503, {})))
    assert caplog.text == ""


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
