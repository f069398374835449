"""Malformed and hostile calls are answered: no crash, no changed records, no forged turn."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import envs
from agents.render import Renderer
from envs.catalogue import entries
from envs.tools.tool_env import MAX_CALLS
from envs.types import text
from rl.policy.tiny import byte_tokenizer
from tests.support.bfcl_files import write_multi_turn, write_single_turn
from tests.support.corpus_files import write_corpus
from tests.support.hostile_calls import hostile_reply
from tests.support.tau2_files import write as write_tau2

REPLIES = int(os.environ.get("TURNWISE_HOSTILE_REPLIES", "300"))  # .ci/run plays 10,000
IDS = [row.id for row in entries() if row.id.startswith("tools/")]
RENDERER = Renderer(byte_tokenizer())


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with small files of every environment that reads some."""
    root: Path = tmp_path_factory.mktemp("data")
    write_corpus(root)
    write_tau2(root)
    write_multi_turn(root)
    write_single_turn(root, "simple_python", [{"trip.book": {"city": ["Rome"], "days": [3]}}])
    return str(root)


def control_tokens(messages: Any) -> list[int]:
    """The control tokens with which messages go on after a reply."""
    cut = [{**message, "content": text(message)[:2000]} for message in messages]
    return [id for id in RENDERER.extend(cut, closed=True) or () if id in RENDERER.tokenizer.added_tokens_decoder]


@pytest.mark.parametrize("id", IDS)
def test_hostile_calls_are_answered_in_every_environment(
    id: str, data_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNWISE_DATA", data_root)
    env = envs.make(id).unwrapped
    rng = np.random.default_rng(0)
    replies = max(1, REPLIES // 3)
    episode, done, info = 0, True, {}
    tools: list[dict[str, Any]] = []
    for turn in range(replies):
        if done:
            _, info = env.reset(seed=episode, options={"split": "test", "index": episode % len(env.load("test"))})  # type: ignore[attr-defined]
            tools, episode = info["tools"], episode + 1
        reply = hostile_reply(rng, tools or [{"function": {"name": "run", "parameters": {"properties": {"plan": {}}}}}])
        messages, reward, terminated, truncated, info = env.step(reply)
        done = terminated or truncated
        assert reward <= 0.0 and not (done and info["success"]), reply
        ids = [call["id"] for call in reply.get("tool_calls", ())]
        answers = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
        assert answers == ids[: len(answers)], "an answer belongs to a call of the reply, in order"
        assert done or messages, "a reply that does not end the episode is answered"
        assert {message["role"] for message in messages} <= {"tool", "user"}
        for message in messages:
            assert "tool_calls" not in message and len(text(message)) < 100_000
            text(message).encode("utf-8")
        json.dumps(info, allow_nan=False)
        assert len(info["state"] or "") < 1000
        if turn % 10 == 0:
            plain = [{**message, "content": "x"} for message in messages]
            assert control_tokens(messages) == control_tokens(plain), "data forge no turn"
    env.close()


@pytest.mark.parametrize("id", ["tools/Support-v0", "tools/Travel-v0"])
def test_hostile_calls_of_a_desk_change_nothing(id: str) -> None:
    env = envs.make(id, max_turns=REPLIES + 1).unwrapped
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=0, options={"split": "test", "index": 0})
    records = env.database.digest()  # type: ignore[attr-defined]
    for _ in range(REPLIES):
        reply = hostile_reply(rng, info["tools"])
        messages, reward, terminated, truncated, step_info = env.step(reply)
        assert reward == 0.0 and not terminated and not truncated
        ids = [call["id"] for call in reply.get("tool_calls", ())]
        assert [message.get("tool_call_id") for message in messages] == (ids or [None])
        assert {message["role"] for message in messages} == ({"tool"} if ids else {"user"})
        for message in messages:
            assert len(text(message)) < 500 * MAX_CALLS
            text(message).encode("utf-8")
            if ids:
                assert text(message).startswith(("error: ", "[]"))
        assert len(step_info["state"]) < 200
    assert env.database.digest() == records  # type: ignore[attr-defined]
    env.close()
