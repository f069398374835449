"""Malformed and hostile calls are answered: no crash, no changed records, no forged turn."""

from __future__ import annotations

import os

import numpy as np
import pytest

import envs
from envs.tools.tool_env import MAX_CALLS
from envs.types import text
from tests.support.hostile_calls import hostile_reply

REPLIES = int(os.environ.get("TURNWISE_HOSTILE_REPLIES", "300"))  # .ci/run plays 10,000


@pytest.mark.parametrize("id", ["tools/Support-v0", "tools/Travel-v0"])
def test_hostile_calls_are_answered_and_change_nothing(id: str) -> None:
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
