"""A policy behind an API that fails: retries, errors and log messages."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envs.types import Stop
from rl.cli import UserError
from rl.evaluate.clients import codec
from rl.evaluate.clients.cache import ReplyCache
from rl.evaluate.clients.client import StopEvaluation
from rl.evaluate.clients.connection import MAX_FAILURES, Connection, Refused, Unreachable
from tests.support.chat_server import Answer, completion, solve
from tests.support.fake_endpoint import (
    KEY,
    Clock,
    ScriptedServer,
    chat_request,
    play,
    post_once,
    successes,
    with_server,
)


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
    server = ScriptedServer(Answer(body=answer), Answer(200, answer))
    assert post_once(server).message["content"] in "23"
    assert len(server.requests) == 3


def test_passing_failures_are_repeated_with_growing_waits_that_differ_by_seed_alone() -> None:
    errors = [Answer(status, {"error": "busy"}) for status in (500, 503, 429, 408, 502)]
    clocks = [Clock(), Clock()]
    for clock in clocks:
        server = ScriptedServer(*errors)
        assert post_once(server, clock).finish == "stop"
        assert len({json.dumps(body) for _, _, body in server.requests}) == 1
    assert clocks[0].waits == clocks[1].waits
    assert all(0.5 * 0.5 * 2**i <= wait < 0.5 * 1.5 * 2**i for i, wait in enumerate(clocks[0].waits))


def test_retry_after_is_honoured_in_seconds_and_as_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    clock = Clock()
    post_once(
        ScriptedServer(
            Answer(429, {}, {"retry-after": "40"}),
            Answer(503, {}, {"retry-after": later}),
            Answer(429, {}, {"retry-after": "soon"}),
        ),
        clock,
    )
    assert 40 <= clock.waits[0] <= 44
    assert 90 <= clock.waits[1] <= 110
    assert clock.waits[2] <= 0.5 * 1.5 * 4
    with pytest.raises(Unreachable, match="asks to wait 700 s"):
        post_once(ScriptedServer(Answer(429, {}, {"retry-after": "700"})))


def test_a_server_that_stays_away_is_waited_for_once_and_not_once_per_request() -> None:
    clock = Clock()

    async def use(url: str) -> None:
        async with Connection(
            "m", "http://127.0.0.1:9/v1", patience_s=100, sleep=clock.sleep, clock=clock
        ) as connection:
            for _ in range(3):
                with pytest.raises(Unreachable, match=r"connection refused; no answer for 1\d\d s"):
                    await connection.post(
                        b"{}", partial(codec.decode_response, request=chat_request()), np.random.default_rng(1)
                    )

    with_server(ScriptedServer(), use)
    assert 100 <= clock.now < 135


def test_one_request_that_always_fails_is_given_up_while_others_are_answered() -> None:
    bad_requests: list[int] = []

    async def respond(path: str, headers: dict[str, str], body: bytes) -> Answer:
        await asyncio.sleep(0)
        if '"0 + 1 = ?"' in body.decode() or '"3 + 1 = ?"' in body.decode():
            bad_requests.append(1)
            return Answer(500, {"error": {"message": "cannot"}})
        return Answer(body=completion("1"))

    groups = play(respond, 30, env={"turns": 8}, concurrency=8, patience=1e9)
    failures = [trajectory for group in groups for trajectory in group.errored]
    assert [trajectory.task for trajectory in failures] == ["test/0", "test/3"]
    assert all(t.stop == Stop.ERROR and not t.turns for t in failures)
    assert "FailedAlone: 500: cannot" in str(failures[0].error)
    assert len(bad_requests) >= 2 * MAX_FAILURES


def test_an_endpoint_that_fails_is_an_error_and_never_a_score() -> None:
    groups = play(ScriptedServer(*[Answer(500, {})] * 500), 3)
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
        (
            Answer(200, "<html>hello"),
            r"no chat-completions API: it answers '<html>hello'; is the URL http://\S+ right\? Most .* /v1$",
        ),
        (Answer(200, f"\n<html>{KEY}" + "o" * 99, {"content-type": "application/json"}), r"'<html>\(key\)o{49}'; is"),
        (Answer(402, {"error": "no credit"}), "it requires payment"),
        (Answer(429, {"error": {"message": "sorry", "code": "insufficient_quota"}}), "quota is used up"),
    ],
)
def test_what_no_repetition_can_mend_ends_the_evaluation_at_once_with_one_line(answer: Answer, words: str) -> None:
    server = ScriptedServer(answer)
    with pytest.raises(StopEvaluation, match=words) as stop:
        post_once(server, key=KEY)
    assert (stop.value.is_user_error, len(server.requests)) == (True, 1)
    assert KEY not in str(stop.value)
    assert str(stop.value).startswith("--policy openai:qwen-8b@http://127.0.0.1:")
    with pytest.raises(UserError, match="--policy openai:toy@"):
        play(ScriptedServer(*[answer] * 20))


def test_a_refused_request_fails_its_episode_once_and_many_before_any_answer_end_the_evaluation() -> None:
    wrong = Answer(400, {"error": {"message": "Unsupported value: 'temperature'"}})
    with pytest.raises(Refused, match="400: Unsupported value: 'temperature'; --api-arg KEY=VALUE"):
        post_once(ScriptedServer(wrong))
    server = ScriptedServer(wrong, wrong)
    groups = play(server, 6, concurrency=1)
    assert sorted(map(len, successes(groups))) == [0, 0, 1, 1, 1, 1]
    assert len(server.requests) == 6  # a refused one is not sent again, though the episode is repeated
    with pytest.raises(UserError, match="400: Unsupported value"):
        play(ScriptedServer(*[wrong] * 100), 30)


def test_what_an_outage_left_as_errors_is_played_by_a_second_evaluation(tmp_path: Path) -> None:
    expected, cache = successes(play(ScriptedServer(), 12)), ReplyCache(tmp_path)
    good_requests = []

    async def respond(path: str, headers: dict[str, str], body: bytes) -> Answer:
        good_requests.append(body)
        if len(good_requests) > 5:
            return Answer(503, {})
        return Answer(body=completion(solve(json.loads(body))))

    groups = play(respond, 12, cache=cache, patience=3.0)
    assert (sum(map(len, successes(groups))), sum(len(group.errored) for group in groups)) == (5, 7)
    server = ScriptedServer()
    assert successes(play(server, 12, cache=cache)) == expected
    assert len(server.requests) == 7


def test_an_outage_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    post_once(ScriptedServer(*[Answer(503, {"error": "loading"})] * 7))
    assert caplog.text.count("503: loading; trying again for ") == 1
    assert caplog.text.count("answers again after") == 1
    caplog.clear()
    post_once(ScriptedServer(Answer(503, {})))
    assert caplog.text == ""


def test_a_text_that_is_no_json_is_asked_for_again_and_quoted_in_the_end() -> None:
    kind = {"content-type": "application/json"}
    text = Answer(200, "upstream is busy", kind)
    assert post_once(ScriptedServer(text, text)).finish == "stop"
    with pytest.raises(Unreachable, match=r"^it answers no JSON but 'upstream is busy'; no answer for "):
        post_once(ScriptedServer(*[text] * 99), patience_s=9)
    server = ScriptedServer(Answer(body=completion("1")), Answer(200, "<html>back soon", kind))
    assert len(successes(play(server, 2, concurrency=1))) == 2  # it has answered, so that the URL is right
    assert len(server.requests) == 3
