"""Natural ways to give one answer count in every game; a hedge, a denial and a choice between two do not."""

from __future__ import annotations

from typing import Any

import pytest

import envs
from envs.games.game import parse_directions
from envs.grading.choice import find_choice, find_choices, plain_answer
from envs.rows import ROWS, Row
from envs.types import text

FORMS = (
    "```\n{}\n```",
    "```text\n{}\n```",
    "`{}`",
    "**{}**",
    "{}.",
    "Answer: {}",
    "**Answer:** {}",
    "Final answer: **{}**.",
    "The goal is not far, so I think about up or down first.\n\nMy move: {}",
    "> {}",
    "- {}",
    "\\boxed{{{}}}",
    "<answer>{}</answer>",
    '{{"action": "{}"}}',
    "I choose {}.",
    "I'll go with {}!",
)
OPEN_FORMS = ("multi/CoderTester-v0", "multi/OddWord-v0")  # replies are programs, or clues in free words
SIGNED = ("multi/Relay-v0",)  # "- 5" may be an item of a list or a negative number, so the environment asks
GAMES = [row for row in ROWS if row.id.startswith(("games/", "multi/")) and row.id not in OPEN_FORMS]


@pytest.mark.parametrize("row", GAMES, ids=lambda row: row.id)
def test_an_answer_counts_in_every_usual_wrapping(row: Row) -> None:
    if row.extra:
        pytest.importorskip(row.extra)
    env = envs.make(row.id).unwrapped

    def first_turn(form: str) -> Any:
        env.reset(seed=0, options={"split": "test", "index": 1})
        messages, reward, *_, info = env.step(form.format(text(next(iter(env.oracle())))))
        return messages, reward, info["valid"]

    plain = first_turn("{}")
    assert plain[2]
    for form in FORMS:
        if form == "- {}" and row.id in SIGNED:
            assert not first_turn(form)[2]
        else:
            assert first_turn(form) == plain, form


@pytest.mark.parametrize(
    ("id", "reply", "same"),
    [
        ("games/Blackjack-v0", "I stand.", "stick"),
        ("games/Blackjack-v0", "Hit me!", "hit"),
        ("games/Maze-v0", "I move up", "north"),
        ("games/FrozenLake-v0", "Let's go south.", "down"),
        ("games/FrozenLake-v0", "↓", "down"),
        ("games/FrozenLake-v0", "d", "down"),
        ("games/Taxi-v0", "up", "north"),
        ("games/2048-v0", "←", "left"),
        ("games/Wordle-v0", "My next guess is point.", "POINT"),
        ("games/Rooms-v0", "I pick up the key", "take key"),
        ("multi/PlanPath-v0", "Move up.", "up"),
        ("multi/PlanPath-v0", "I go right, right and then down.", "right right down"),
        ("multi/Kuhn-v0", "I'm betting", "bet"),
        ("multi/Kuhn-v0", "pass", "check"),
        ("multi/Leduc-v0", "Betting!", "bet"),
        ("multi/IteratedDilemma-v0", "C", "cooperate"),
        ("multi/IteratedDilemma-v0", "Answer: D", "defect"),
        ("multi/IteratedDilemma-v0", "Defection.", "defect"),
        ("multi/TicTacToe-v0", "I take the center.", "b2"),
        ("multi/TicTacToe-v0", "top-right corner", "c1"),
        ("multi/ConnectFour-v0", "I drop it into column 4, row 1, for 4 in a row.", "4"),
        ("multi/ConnectFour-v0", "Column four", "4"),
    ],
)
def test_a_synonym_is_the_same_move(id: str, reply: str, same: str) -> None:
    env = envs.make(id).unwrapped
    results = []
    for each in (reply, same):
        env.reset(seed=0, options={"split": "test", "index": 1})
        results.append(env.step(each))
    assert results[0] == results[1] and results[0][4]["valid"] == (id != "games/Taxi-v0" or results[1][4]["valid"])


@pytest.mark.parametrize(
    ("id", "reply"),
    [
        ("games/Blackjack-v0", "stick or hit"),
        ("games/Blackjack-v0", "I do not hit"),
        ("games/Blackjack-v0", "stand or hit"),
        ("games/Blackjack-v0", "hitman"),
        ("games/Maze-v0", "north or up"),
        ("games/Maze-v0", "up or down"),
        ("games/FrozenLake-v0", "not down"),
        ("games/FrozenLake-v0", "down is not safe"),
        ("games/2048-v0", "up or down"),
        ("games/Sokoban-v0", "I won't go up"),
        ("games/Wordle-v0", "My guess is point or joint"),
        ("multi/PlanPath-v0", "up or right"),
        ("multi/PlanPath-v0", "up/right"),
        ("multi/PlanPath-v0", "do not go up"),
        ("multi/PlanPath-v0", "!= up"),
        ("multi/PlanPath-v0", "three steps up"),
        ("multi/Kuhn-v0", "check or bet"),
        ("multi/Kuhn-v0", "I never bet"),
        ("multi/IteratedDilemma-v0", "C or D"),
        ("multi/IteratedDilemma-v0", "cooperate/defect"),
        ("multi/IteratedDilemma-v0", "plan C is to wait"),
        ("multi/TicTacToe-v0", "top left or center"),
        ("multi/ConnectFour-v0", "column 3 or 4"),
        ("multi/ConnectFour-v0", "not column 3"),
    ],
)
def test_a_hedge_or_a_denial_is_no_move(id: str, reply: str) -> None:
    env = envs.make(id).unwrapped
    env.reset(seed=0, options={"split": "test", "index": 1})
    assert not env.step(reply)[4]["valid"]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("**Final answer:** `up`.", "up"),
        ('{"action": "up"}', "up"),
        ("\\boxed{\\text{up}}", "up"),
        ("I will go up, then right!", "up, then right"),
        ("not up", "not up"),
        ("- 4", "4"),
        ("...4.", "4"),
        ("-4", "-4"),
        ("Answer: -4.", "-4"),
        ("**.5**", ".5"),
        ("!= up", "!= up"),
        ("", ""),
    ],
)
def test_what_announces_or_wraps_an_answer_is_dropped(line: str, answer: str) -> None:
    assert plain_answer(line) == answer


def test_names_come_before_synonyms_and_one_letter_is_no_part_of_a_sentence() -> None:
    names, synonyms = {"stick": 0, "hit": 1}, {"stand": 0, "s": 0}
    assert find_choice("I hold 12, so hit", names, {**synonyms, "hold": 0}) == 1
    assert find_choice("stick or hit, I stand", names, synonyms) is None
    assert find_choice("Answer: S", names, synonyms) == 0
    assert find_choice("the s is silent", names, synonyms) is None
    assert find_choices("hit, hit and stick", names) == (1, 1, 0)
    assert find_choice("It is not safe here, so I stick", names) == 0


def test_long_lines_are_read_in_linear_time() -> None:
    for junk in ("up " * 500_000, "i " * 500_000 + "up", "not " * 400_000, "up, " * 300 + "?"):
        assert parse_directions(junk) in (None, "u", "u" * 500_000, "u" * 300)
