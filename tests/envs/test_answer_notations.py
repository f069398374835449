"""One answer counts in each notation that models write it in; a near miss in the same notation does not."""

from __future__ import annotations

from typing import Any

import pytest

import envs
from envs.games.game import parse_directions
from envs.grading.choice import find_choice
from envs.math.first_error import named_step
from envs.types import Task, assistant


def grade(env_id: str, task: Task, reply: str, **arguments: Any) -> bool:
    """Whether a reply solves a task of a single turn."""
    env = envs.make(env_id, **arguments).unwrapped
    env.reset(seed=0)
    env.task = task
    return bool(env.reply(assistant(reply)).success)


def solves_system(reply: str, answer: str = "(-8,9)", level: int = 1) -> bool:
    return grade("math/LinearSystem-v0", Task("", answer=answer, metadata={"level": level}), reply, level=level)


@pytest.mark.parametrize(
    "reply",
    [
        "[-8, 9]",
        "-8, 9",
        "−8, 9",
        "$-8, 9$",
        "**-8, 9**",
        "-8; 9",
        "-8 and 9",
        "(-8; 9)",
        "The solution is [-8, 9].",
        "The answer is (-8; 9).",
        "Answer: -8, 9",
        "\\boxed{-8, 9}",
        "\\boxed{[-8, 9]}",
        "I add both equations.\n-8, 9",
        "\\begin{pmatrix}-8\\\\9\\end{pmatrix}",
        "$\\begin{bmatrix}-8 & 9\\end{bmatrix}$",
        "\\boxed{\\begin{pmatrix} -8 \\\\ 9 \\end{pmatrix}}",
        "$(x, y) = \\begin{pmatrix}-8\\\\9\\end{pmatrix}$",
    ],
)
def test_values_of_a_system_may_be_a_list_or_a_column(reply: str) -> None:
    assert solves_system(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "[9, -8]",
        "9, -8",
        "-8",
        "-8, 9, 1",
        "-8 or 9",
        "[-8, 9] or [9, -8]",
        "[9, -8]\n[-8, 9]",
        "9, -8\n-8, 9",
        "not [-8, 9]",
        "not -8, 9",
        "[-8, 9, 1]",
        "(-8; 9; 1)",
        "\\begin{pmatrix}9\\\\-8\\end{pmatrix}",
        "\\begin{pmatrix}-8&9\\\\9&-8\\end{pmatrix}",
        "\\begin{pmatrix}-8\\\\9\\\\1\\end{pmatrix}",
        "\\boxed{9, -8} \\boxed{-8, 9}",
        "-16/2, 9 + 0",
    ],
)
def test_other_values_of_a_system_are_wrong(reply: str) -> None:
    assert not solves_system(reply)


@pytest.mark.parametrize("reply", ["[1/2, -3/2, 4]", "1/2, -3/2, 4", "1/2, -3/2, and 4", "[1/2; -3/2; 4]"])
def test_three_values_of_a_system_may_be_a_list(reply: str) -> None:
    assert solves_system(reply, "(1/2,-3/2,4)", level=4)
    assert not solves_system(reply, "(1/2,4,-3/2)", level=4)


def solves_countdown(reply: str) -> bool:
    task = Task("", answer="109", metadata={"numbers": [10, 10, 9]})
    return grade("math/Countdown-v0", task, reply)


@pytest.mark.parametrize(
    "reply",
    [
        "9 + (10 x 10)",
        "9 + 10x10",
        "10 X 10 + 9",
        "10·10+9",
        "10 ⋅ 10 + 9",
        "[10*10]+9",
        "[(10 x 10) + 9]",
        "109 = 10*10+9",
        "109 = 9 + (10 × 10)",
        "The expression is 109 = 10*10+9",
        "\\boxed{109 = 10 \\cdot 10 + 9}",
    ],
)
def test_signs_and_brackets_of_an_expression(reply: str) -> None:
    assert solves_countdown(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "108 = 10*10+9",
        "109 = 10*10+8",
        "109 = 10*10",
        "109 = 109",
        "109",
        "109 = 10*10+9 or 10*10-9",
        "100+9 = 10*10+9",
        "[10*10)+9",
        "(10*10]+9",
        "[10*10+9",
        "10x+9x10",
        "10 xx 10+9",
        "10x10+9x",
        "0x10+109",
    ],
)
def test_another_value_or_other_numbers_are_wrong(reply: str) -> None:
    assert not solves_countdown(reply)


def solves_sets(reply: str, answer: str = "{2,3,18}") -> bool:
    return grade("math/Sets-v0", Task("", answer=answer, metadata={"level": 1}), reply)


@pytest.mark.parametrize(
    "reply",
    [
        "A ∪ B = {2, 3, 18}",
        "A ∪ B = {18, 3, 2}",
        "$A \\cup B = \\{18, 2, 3\\}$",
        "(A ∪ B) ∩ C = {2, 18, 3}",
        "{2,3} | {3,18} = {3,2,18}",
        "A ∪ B = {2,3} ∪ {18} = {18,2,3}",
        "[2,3,18]",
        "[18, 2, 3]",
        "\\boxed{[2, 3, 18]}",
        "The union is [2, 3, 18].",
        "{2, 3, and 18}",
        "{2, 3 and 18}",
        "The union is {2, 3, and 18}.",
        "2, 3, and 18",
    ],
)
def test_a_set_may_be_an_equation_or_a_list(reply: str) -> None:
    assert solves_sets(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "A ∪ B = {2, 3}",
        "A ∪ B = {2,3,18}, A ∩ B = {3}",
        "A ∪ B = {3}, A ∩ B = {2,3,18}",
        "A ∪ B = {2,3} = {2,3,18}",
        "A ∪ B ≠ {2,3,18}",
        "{2,3} = {2,3,18}",
        "[2,3]",
        "[2,3,18,4]",
        "[2,3,18] or [2,3]",
        "not [2,3,18]",
        "{2, 3, or 18}",
        "{2, 3 or 18}",
        "{2, 3, and 18, and 4}",
        "[2,3]\n[2,3,18]",
    ],
)
def test_another_set_or_several_are_wrong(reply: str) -> None:
    assert not solves_sets(reply)


@pytest.mark.parametrize(
    ("reply", "step"),
    [
        ("three", 3),
        ("Three.", 3),
        ("Step three", 3),
        ("**Step three**", 3),
        ("\\boxed{three}", 3),
        ("The answer is three.", 3),
        ("minus one", -1),
        ("Step 3: 1-42 should be -41, not -39.", 3),
        ("**Step 3**: 1-42 should be -41, not -39.", 3),
        ("Step 3 is wrong: 1-42 should be -41.", 3),
        ("The first wrong step is step 3: 1 - 42 = -41, not -39.", 3),
        ("Step 2: 7*8 is 56, not 54", 2),
        ("Step 3: 1-42=-39", 3),
        ("**Step 3: 1 - 42 = -39**", 3),
        ("**Step 3:** `1−42=−39`.", 3),
        ("The first wrong step is step 2: 7×8 = 54.", 2),
        ("I checked each of them.\nStep 3: 1-42=-39", 3),
    ],
)
def test_a_step_in_words_or_with_its_correction(reply: str, step: int) -> None:
    assert named_step(reply) == step


@pytest.mark.parametrize(
    "reply",
    [
        "three or four",
        "not three",
        "third",
        "the third step",
        "Step 3: 1-42 should be -41, not -39, but step 2 is wrong.",
        "Not step 3: 1-42 should be -41, not -39.",
        "Step 3 or 4: 1-42 should be -41, not -39.",
        "Step 3 is right: 1-42 should be -41, not -39.",
        "Step 3 is not wrong: 1-42 should be -41.",
        "Step 3: not 4",
        "2\nStep 3: 1-42 should be -41, not -39.",
        "Step 3: 1-42=-41",
        "2\nStep 3: 1-42=-39",
        "Step 2: 7*8=54\nStep 3: 1-42=-39",
        "Step 2: 1+0=1\nStep 3: 1-42=-39",
        "2: 1+0=1\nStep 3: 1-42=-39",
        "Not step 3: 1-42=-39",
        "Step 3: 1-42=-39 or 1-42=-41",
        "Step 3: 1-42=-39=-41",
        "twenty",
    ],
)
def test_several_steps_or_denied_ones_are_none(reply: str) -> None:
    assert named_step(reply) is None


def row_answer(reply: str, kind: str = "row") -> str | None:
    env = envs.make("games/Shapes-v0", question=kind).unwrapped
    env.reset(seed=0)
    return env._read(reply)


@pytest.mark.parametrize(
    "reply", ["1st", "first", "First.", "**first**", "the 1st", "first row", "It is in the 1st row."]
)
def test_a_row_may_be_an_ordinal(reply: str) -> None:
    assert row_answer(reply) == "1"


@pytest.mark.parametrize("reply", ["first or second", "First I look at the circle.", "not the first row", "1st, 2nd"])
def test_several_or_denied_ordinals_are_none(reply: str) -> None:
    assert row_answer(reply) is None


def test_an_ordinal_is_no_count() -> None:
    assert row_answer("first", "count") is None


WORDS = {word: word for word in ("check", "bet", "a", "b", "take key", "take cup")}


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ("'check'", "check"),
        ("‘check’", "check"),
        ("I choose 'check'.", "check"),
        ("**'a'**", "a"),
        ("'take key'", "take key"),
        ("take  key", "take key"),
        ("I \ttake   key", "take key"),
    ],
)
def test_single_quotes_and_wide_spaces_around_a_choice(reply: str, word: str) -> None:
    assert find_choice(reply, WORDS) == word


@pytest.mark.parametrize(
    "reply", ["'check' or 'bet'", "check or 'bet'", "I don't 'check'", "check's", "not 'b'", "d'a'"]
)
def test_quoted_choices_that_are_several_or_denied_are_none(reply: str) -> None:
    assert find_choice(reply, WORDS) is None


@pytest.mark.parametrize("reply", ["'take key'", "take  key", "take the  key"])
def test_rooms_reads_quotes_and_wide_spaces(reply: str) -> None:
    env = envs.make("games/Rooms-v0").unwrapped
    env.reset(seed=0)
    for command in env.oracle():
        said = reply.replace("take", command.get("content").partition(" ")[0])
        said = said.replace("key", command["content"].partition(" ")[2])
        if " " not in command["content"].partition(" ")[2]:
            assert env.step(said)[4]["valid"], said
            return


@pytest.mark.parametrize("id", ["games/FrozenLake-v0", "games/CliffWalking-v0", "games/Maze-v0", "games/Taxi-v0"])
@pytest.mark.parametrize("form", ["{}", "`{}`", "**{}**", "Answer: {}", "I go {}.", "'{}'"])
@pytest.mark.parametrize("arrows", ["↑→↓←", "⬆➡⬇⬅"])
def test_an_arrow_alone_is_a_direction(id: str, form: str, arrows: str) -> None:
    env = envs.make(id).unwrapped
    for arrow, name in zip(arrows, ("up", "right", "down", "left"), strict=True):
        results = []
        for word in (arrow, name):
            env.reset(seed=0)
            results.append(env.step(form.format(word))[0::2])
        assert results[0] == results[1], arrow


@pytest.mark.parametrize("reply", ["→ ←", "↑ →", "→ or ↑", "not →", "↑ ↓"])
def test_several_arrows_are_no_direction(reply: str) -> None:
    env = envs.make("games/FrozenLake-v0").unwrapped
    env.reset(seed=0)
    assert not env.step(reply)[4]["valid"]


@pytest.mark.parametrize(("reply", "moves"), [("I go →", "r"), ("Answer: → → ↓", "rrd"), ("➡️", "r"), ("'right'", "r")])
def test_arrows_behind_words_are_moves(reply: str, moves: str) -> None:
    assert parse_directions(reply) == moves


@pytest.mark.parametrize("reply", ["not →", "→ or ↓", "up →"])
def test_arrows_among_other_words_are_no_moves(reply: str) -> None:
    assert parse_directions(reply) in (None, "u")


@pytest.mark.parametrize(
    "reply", ["C R A N E", "c r a n e", "C-R-A-N-E", "C, R, A, N, E", "My guess is C R A N E.", "Answer: **C R A N E**"]
)
def test_a_guess_may_be_spelled(reply: str) -> None:
    assert envs.make("games/Wordle-v0").unwrapped.parse_guess(reply) == "CRANE"


@pytest.mark.parametrize(
    "reply",
    ["C R A N", "C R A N E S", "C R A N E or S L A T E", "It is not C R A N E", "C R A N E?", "C R A N E S L A T E"],
)
def test_other_spelled_letters_are_no_guess(reply: str) -> None:
    assert envs.make("games/Wordle-v0").unwrapped.parse_guess(reply) is None


@pytest.mark.parametrize(
    "reply",
    [
        "b 3",
        "B 3",
        "(b, 3)",
        "(b,3)",
        "b, 3",
        "3b",
        "3 b",
        "**b 3**",
        "Open b 3.",
        "column b, row 3",
        "row 3, column b",
        "Column b and row 3",
        "I open column b, row 3.",
        "column 2, row 3",
    ],
)
def test_a_cell_of_the_minefield(reply: str) -> None:
    env = envs.make("games/Minesweeper-v0").unwrapped
    assert env._parse_cell(reply) == env._parse_cell("b3") == 9


@pytest.mark.parametrize(
    "reply",
    [
        "b 3 c 2",
        "3b 2c",
        "not (b, 3)",
        "b 9",
        "There is a 1",
        "column b",
        "not column b, row 3",
        "column b, row 3 or column c, row 3",
        "b 3 or c 3",
    ],
)
def test_several_cells_or_none(reply: str) -> None:
    assert envs.make("games/Minesweeper-v0").unwrapped._parse_cell(reply) is None


def test_a_number_beside_the_article_is_no_cell() -> None:
    assert envs.make("games/Minesweeper-v0").unwrapped._parse_cell("b2 shows a 1, but it is open") == 5
