"""The argument `style`: full openings tell a stranger all there is to know, short ones stay as they were."""

from __future__ import annotations

from typing import Any

import pytest

import envs
from envs.data import MissingData
from envs.env import Env
from envs.episodes.guide import Guide, example_of, listing, replies_left
from envs.rows import ROWS, Row
from envs.types import Message, Outcome, Task, text, user

GUIDE = Guide("Say the word. You succeed if it is right.", "Reply with one word.", "pear", noun="word")


class Word(Env):
    """Asks for a word; says in full style what was wrong."""

    max_turns = 3

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"{split}/0", (user("p___"),), "plum")]

    def guide(self) -> Guide:
        return GUIDE

    def reply(self, action: Message) -> Outcome:
        if text(action) == "plum":
            return Outcome(reward=1.0, terminated=True, success=True)
        return Outcome((user(self.correction("That is no word.", "p___", short="?")),), valid=False)


class Plain(Word):
    """Knows no styles."""

    guide = Env.guide


def opening(env: Any) -> str:
    return "\n".join(map(text, env.reset(seed=0, options={"split": "test", "index": 0})[0]))


def test_full_is_the_default_and_puts_the_guide_before_the_observation() -> None:
    shown = opening(Word())
    assert shown.startswith(GUIDE.goal) and shown.endswith("The first observation:\np___")
    assert "You may think first; put your word alone on the last line of your reply." in shown
    assert "You have at most 3 replies." in shown and "You have at most 7 replies." in opening(Word(max_turns=7))
    assert opening(Word(style="short")) == "p___"


def test_an_environment_without_a_guide_is_the_same_in_every_style() -> None:
    assert opening(Plain()) == opening(Plain(style="short")) == "p___"


def test_an_invalid_reply_is_answered_with_the_fault_the_form_and_the_replies_left() -> None:
    env = Word()
    opening(env)
    for left in ("You have 2 replies left.", "You have 1 reply left."):
        answer = text(env.step("")[0][0])
        assert answer == f"That is no word. Reply with one word.\nExample of a reply:\npear\n\n{left}\n\np___"
    ending = "The episode is over: you have not succeeded."
    assert text(env.step("")[0][0]) == f"That is no word. That was your last reply.\n\np___\n{ending}"
    short = Word(style="short")
    opening(short)
    assert text(short.step("")[0][0]) == "?"


def test_an_unknown_style_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="style 'long' is not one of full, short"):
        Word(style="long")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("id", "argument"),
    [("games/Maze-v0", "explain"), ("math/Sets-v0", "words"), ("code/Shell-v0", "prose"), ("tools/Search-v0", "tools")],
)
def test_the_arguments_that_style_replaces_are_refused_with_a_hint(id: str, argument: str) -> None:
    with pytest.raises(ValueError, match=f"style replaces the argument '{argument}'; use style=full"):
        envs.make(id, **{argument: True})
    with pytest.raises(ValueError, match=f"style replaces the argument '{argument}'; use style=full"):
        envs.arguments([f"{argument}=true"], envs.entry(id))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_opening_gives_an_example_that_is_a_valid_reply(row: Row) -> None:
    env = envs.make(row.id).unwrapped
    try:
        for index in range(5):
            try:
                messages, info = env.reset(seed=index, options={"split": "test", "index": index})
            except (MissingData, ImportError) as missing:
                pytest.skip(f"{row.id}: {missing}")
            example = example_of(messages)
            assert example, f"{row.id} gives no example"
            _, _, _, _, info = env.step(example)
            assert info["valid"], f"{row.id}: {example}"
    finally:
        env.close()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_short_openings_are_far_shorter(row: Row) -> None:
    try:
        full, short = (opening(envs.make(row.id, style=style).unwrapped) for style in ("full", "short"))
    except (MissingData, ImportError) as missing:
        pytest.skip(f"{row.id}: {missing}")
    assert len(full) > len(short) + 200 and "Example of a reply:" not in short


def test_words_are_joined_as_in_a_sentence() -> None:
    assert [listing("a"), listing("ab"), listing("abc", "or")] == ["a", "a and b", "a, b or c"]
    assert (replies_left(2), replies_left(1), replies_left(0)) == (
        "You have 2 replies left.",
        "You have 1 reply left.",
        "That was your last reply.",
    )
