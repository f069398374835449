"""What a reasoning model writes before `</think>` is not judged, in any environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import envs
from envs import types
from envs.checks.env_under_test import Episode, oracle_replies, play
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
        plain = _earned(play(env, oracle_replies, index=0))
    except (MissingData, ImportError) as missing:
        pytest.skip(f"{row.id}: {missing}")
    assert plain[0]
    for form in ("<think>\n{}\n</think>\n\n{}", "{}\n</think>\n\n{}"):
        assert _earned(play(env, _thinking(form), index=0)) == plain


def _earned(episode: Episode) -> tuple[bool, float, list[bool]]:
    turns = episode.turns
    return turns[-1][4]["success"], sum(turn[1] for turn in turns), [turn[4]["valid"] for turn in turns]


def _thinking(form: str) -> Callable[[Env], Iterator[Message]]:
    def replies(env: Env) -> Iterator[Message]:
        for reply in env.oracle():
            message = assistant(reply) if isinstance(reply, str) else reply
            yield {**message, "content": form.format(THOUGHT, text(message))}

    return replies
