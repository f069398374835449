"""Information gain by turn: what reveals a fact is told apart from what repeats a turn, by the environment's metric."""

from __future__ import annotations

import pytest

import envs
from benchmarks.turn_gain import KINDS, gains, oracle_with_repetition


def test_every_turn_but_the_last_has_a_gain_and_one_of_each_episode_repeats():
    found = gains("tools/Clarify-v0", "tiny", 3)
    assert len(found[KINDS[1]]) == 3 and len(found[KINDS[0]]) in range(6, 10)  # two or three missing details each
    assert any(found[KINDS[0]])


def test_the_oracle_makes_its_first_reply_twice_and_still_succeeds():
    with envs.make("tools/Clarify-v0", style="short") as env:
        env.reset(seed=0, options={"split": "test", "index": 0})
        replies = []
        for reply in oracle_with_repetition(env, 0):
            _, _, terminated, _, info = env.step(reply)
            replies.append(reply["content"])
            if terminated:
                break
    assert replies[0] == replies[1] and len(set(replies)) == len(replies) - 1
    assert terminated and info["success"]


@pytest.mark.parametrize("env", ["games/Maze-v0", "math/Revise-v0"])
def test_an_environment_without_turns_that_reveal_facts_is_refused(env):
    with pytest.raises(ValueError, match=f"--env {env}: (its turns have no metric `gain`|no turn reveals)"):
        gains(env, "tiny", 2)
