"""Reasoning before an answer is not judged, in any environment, whether it stands before `</think>` or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import envs
from envs import types
from envs.checks import rewards
from envs.checks.env_under_test import EnvUnderTest, Episode, constant_replies, oracle_replies, play
from envs.data import MissingData
from envs.env import Env
from envs.rows import ROWS, Row
from envs.types import Message, assistant, final_text, text

THOUGHT = "The answer is 5. No: \\boxed{17} = 17.\n\nanswer: left\n#### 3\n>1 + 1\n\n```python\nx = 1\n```\n\nsubmit\n\n[B]\n\n(A)"


@pytest.mark.parametrize(
    "reply, said",
    [
        ("143", "143"),
        ("", ""),
        ("<think>\n5\n</think>\n\n143", "143"),
        ("5\n</think>\n\n143", "143"),  # a template's header may open the thought
        ("<think>5</think>6<think>7</think>    return 8", "    return 8"),
        ("<think>\nperhaps 143", ""),
        (" \n<think>\nperhaps 143", ""),
        ("is `<think>` a tag?", "is `<think>` a tag?"),
    ],
)
def test_what_is_said_stands_after_the_thought(reply: str, said: str) -> None:
    assert final_text(assistant(reply)) == said


def test_blocks_of_text_are_read_together() -> None:
    blocks = [{"type": "text", "text": "<think>4"}, {"type": "image_url"}, {"type": "text", "text": "</think>5"}]
    assert final_text({"role": "assistant", "content": blocks}) == "5"


def test_the_former_name_of_final_text_still_works() -> None:
    assert types.spoken is final_text


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_thinking_aloud_before_every_right_reply_changes_nothing(row: Row) -> None:
    try:
        env = envs.make(row.id)
        tasks = range(20 if env.unwrapped.is_contest else 1)  # even an oracle loses some deals of a card game
        earned = ((index, _earned(play(env, oracle_replies, index=index))) for index in tasks)
        index, plain = next((pair for pair in earned if pair[1][0]), (0, (False, 0.0, [])))
    except (MissingData, ImportError) as missing:
        pytest.skip(f"{row.id}: {missing}")
    assert plain[0]
    for form in ("<think>\n{}\n</think>\n\n{}", "{}\n</think>\n\n{}"):
        assert _earned(play(env, _thinking(form), index=index)) == plain


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_reasoning_on_the_lines_before_every_right_reply_costs_nothing(row: Row) -> None:
    try:
        assert not list(rewards.thinking_aloud(EnvUnderTest(row.id)))
    except (MissingData, ImportError) as missing:
        pytest.skip(f"{row.id}: {missing}")


@pytest.mark.parametrize(
    "spec, arguments",
    [
        ("code/Shell-v0", {"style": "short"}),
        ("code/Shell-v0", {"level": 3}),
        ("code/Repo-v0", {"level": 1}),
        ("code/Repo-v0", {"style": "short"}),
        ("tools/Search-v0", {"style": "short"}),
        ("tools/Clarify-v0", {"style": "short"}),
        ("math/Python-v0", {"task": "countdown", "style": "short"}),
        ("math/Python-v0", {"style": "short"}),
        ("math/Algebra-v0", {"level": 4}),
        ("math/LinearSystem-v0", {"level": 4}),
        ("games/Sokoban-v0", {"at_once": 8}),
        ("games/GuessNumber-v0", {"remind": False}),
    ],
)
def test_nor_does_it_with_other_arguments(spec: str, arguments: dict[str, Any]) -> None:
    assert not list(rewards.thinking_aloud(EnvUnderTest(spec, arguments, tasks=2)))


@pytest.mark.parametrize(
    "spec, hedges",
    [
        ("math/Arithmetic-v0", ["{0} or 1{0}", "1{0} {0}", "not {0}", "{0}, 1{0}"]),
        ("math/Algebra-v0", ["{0} or 1{0}", "1{0} {0}", "not {0}", "{0}, 1{0}"]),
        ("math/Sets-v0", ["{0} or {{1}}", "not {0}", "{{1}} {0}"]),
        ("math/Countdown-v0", ["{0} or 1", "1+1 {0}"]),
        ("games/FrozenLake-v0", ["left right up down", "{0} or left or up", "not {0}, down, up"]),
        ("games/2048-v0", ["left right up down", "up or down"]),
        ("games/Sokoban-v0", ["left right up down", "u d l r"]),
        ("games/Maze-v0", ["n e s w", "north or east or south"]),
        ("games/Wordle-v0", ["CRANE {0}", "{0} or 'crane'"]),
        ("games/Mastermind-v0", ["111 {0} 222", "{0} or 444 or 123"]),
        ("games/TwentyQuestions-v0", ["yes", "wings dog legs"]),
        ("tools/Search-v0", ["{0} or Bel", "not {0}", "Bel, {0}"]),
    ],
)
def test_several_answers_on_the_last_line_earn_nothing_after_reasoning_either(spec: str, hedges: list[str]) -> None:
    env = envs.make(spec, style="short").unwrapped
    for index in range(5):
        env.reset(seed=0, options={"split": "test", "index": index})
        right = env.task.answer or text(next(iter(env.oracle())))
        for hedge in hedges:
            reply = f"There are several ways, say 3 or 4. I am going to list what I thought of.\n{hedge.format(right)}"
            episode = play(env, constant_replies(reply), index=index)
            assert episode.total_reward == 0, reply


def _earned(episode: Episode) -> tuple[bool, float, list[bool]]:
    turns = episode.turns
    return turns[-1][4]["success"], sum(turn[1] for turn in turns), [turn[4]["valid"] for turn in turns]


def _thinking(form: str) -> Callable[[Env], Iterator[Message]]:
    def replies(env: Env) -> Iterator[Message]:
        for reply in env.oracle():
            message = assistant(reply) if isinstance(reply, str) else reply
            yield {**message, "content": form.format(THOUGHT, text(message))}

    return replies
