"""Solutions as language models write them, with the right answer at their end, are paid; hedged and denied ones are not."""

from __future__ import annotations

import pytest

import envs
from envs.grading.lines import last_assignments
from envs.types import text

SOLUTIONS = (
    "12 + 5 = 17\n17 * 2 = 34\n34 - 3 = 31\n{}",
    "1. 3 × 4 = 12\n2. 12 + 5 = 17\n\n**{}**",
    "3x + 4 = 19\n3x = 15\n{}",
    "3*4 -> 12\n12+5 -> 17\n{}",
    "3 * 4 = 12.\n12 + 5 = 17.\n{}.",
    "$3 \\times 4 = 12$\n$12 + 5 = 17$\n${}$",
    "Subtract 4 from both sides:\n\\[ 3x = 15 \\]\n\nDivide by 3:\n\\[ {} \\]",
    "Therefore:\n\n\\[\n{}\n\\]",
    "Therefore\n$$\n{}\n$$",
    "\\[ {} \\]",
    "\\( {} \\)",
    "Therefore, the solution is $ {} $.",
    "The solution is **{}**.",
    "Thus, {}.",
    "Result: {}",
)
TASKS = (
    *("math/Arithmetic-v0", "math/Algebra-v0", "math/Fractions-v0", "math/WordProblems-v0", "math/LinearSystem-v0"),
    *("math/Sets-v0", "math/Countdown-v0"),
)
PAIRS = (
    "x = {0}, y = {1}",
    "x = {0}\ny = {1}",
    "From the second, y is known.\n\nx = {0}\ny = {1}",
    "So x = {0} and y = {1}.",
    "The solution is x = {0}, y = {1}.",
    "Therefore, the solution is:\n\n- $x = {0}$\n- $y = {1}$",
    "**x = {0}**\n**y = {1}**",
    "y = {1}\nx = {0}",
    "(x, y) = ({0}, {1})",
    "The solution is $(x, y) = ({0}, {1})$.",
    "\\[ (x, y) = ({0}, {1}) \\]",
    "x = {0}\ny = {1}\n\n({0}, {1})",
    "x: {0}, y: {1}",
)


def reward(id: str, form: str, index: int) -> float:
    env = envs.make(id).unwrapped
    env.reset(seed=0, options={"split": "test", "index": index})
    answer = text(next(iter(env.oracle())))
    reply = form.replace("{}", answer) if "{}" in form else form.format(*answer.strip("()").split(","))
    return float(env.step(reply)[1])


@pytest.mark.parametrize("id", TASKS)
@pytest.mark.parametrize("form", SOLUTIONS)
def test_a_solution_that_ends_with_the_answer_is_paid(id: str, form: str) -> None:
    assert [reward(id, form, index) for index in range(3)] == [1.0] * 3


@pytest.mark.parametrize("form", PAIRS)
def test_values_of_unknowns_may_stand_by_themselves(form: str) -> None:
    assert [reward("math/LinearSystem-v0", form, index) for index in range(3)] == [1.0] * 3


@pytest.mark.parametrize(
    "form",
    [
        "It is not {}.",
        "Suppose {}.",
        "{} or 99999",
        "99999\n{}",
        "12 + 5 = 17\n{} or 99999",
        "12 + 5 = 17\nnot {}",
        "Therefore:\n\\[\n{}, 99999\n\\]",
        "Thus, {} is wrong.",
    ],
)
@pytest.mark.parametrize("id", TASKS)
def test_a_hedged_or_denied_answer_is_not_paid(id: str, form: str) -> None:
    assert reward(id, form, 0) == 0.0


@pytest.mark.parametrize(
    "form",
    [
        "The answer is (9,9), the answer is: {}",
        "I considered (9,9): {}",
        "So \\boxed{(9,9)} or {}",
        "The solution is (9,9) or {}",
        "Not (9,9) but {}",
        "The solution is {} and (9,9)",
        "The solution is not {}.",
    ],
)
def test_a_pair_beside_another_one_is_not_paid(form: str) -> None:
    assert [reward("math/LinearSystem-v0", form, index) for index in range(3)] == [0.0] * 3


@pytest.mark.parametrize(
    "reply",
    [
        "x = 3",
        "x = 3, x = 3",
        "x = 3 or y = -2",
        "x = 3, y = -2 or y = 2",
        "x = 3, y = -2, z = 4",
        "It is not x = 3, y = -2",
        "Suppose x = 3, y = -2",
        "x = 3, y = -2 is wrong",
        "x = 3 + 1, y = -2",
        "2x = 3, y = -2",
        "x = 3y, y = -2",
        "x = 3\nIf not,\ny = -2",
        "x = 3\nso y = -2",
        "x = 17 = 3, y = -2",
        "x = 3, y = -2, 5",
        "x != 3, y = -2",
        "",
    ],
)
def test_doubted_or_partial_values_are_none(reply: str) -> None:
    assert last_assignments(reply, "xy") == ""


def test_the_last_lines_give_the_values() -> None:
    assert (
        last_assignments("x = 9, y = 9\nNo, I made a mistake.\nx = 3/4 and y = \\frac{-1}{2}", "xy")
        == "x = 3/4, y = -1/2"
    )
    assert last_assignments("z = 3\ny = 2\nx = 1", "xyz") == "x = 1, y = 2, z = 3"


@pytest.mark.parametrize(
    "form",
    [
        "x = \\boxed{<x>}\ny = \\boxed{<y>}",
        '{"x": <x>, "y": <y>}',
        '```json\n{"x": <x>, "y": <y>}\n```',
        '{"y": <y>, "x": <x>}',
        '{"x": "<x>", "y": "<y>"}',
        "So $x = \\boxed{<x>}$ and $y = \\boxed{<y>}$.",
        "\\boxed{x = <x>}\n\\boxed{y = <y>}",
        "\\[ x = \\boxed{<x>} \\]\n\\[ y = \\boxed{<y>} \\]",
        "The solution is:\n$$x = \\boxed{<x>}$$\n$$y = \\boxed{<y>}$$",
        "\\boxed{x = <x>, y = <y>}",
        "\\boxed{(<x>, <y>)}",
        "- x = \\boxed{<x>}\n- y = \\boxed{<y>}",
        "x &= \\boxed{<x>} \\\\\ny &= \\boxed{<y>}",
        "Therefore:\n\n**x = \\boxed{<x>}**\n**y = \\boxed{<y>}**",
    ],
)
def test_values_in_boxes_and_in_json_are_paid(form: str) -> None:
    assert pair_reward(form) == 1.0


@pytest.mark.parametrize(
    "form",
    [
        "x = 2\\boxed{<x>}\ny = \\boxed{<y>}",
        '{"x": <x>, "y": <y>, "y": 99}',
        '{"x": <x>}',
        '{"x": [<x>, 9], "y": <y>}',
        '{"x": <x>, "y": <y>, "z": 1}',
        "x = \\boxed{<x>} or 9\ny = \\boxed{<y>}",
        "x = \\boxed{<x>}\ny = \\boxed{<y>}\nor x = 9",
        "x = \\boxed{<x>} + 1\ny = \\boxed{<y>}",
        "x = \\boxed{99}\nx = \\boxed{<x>}\ny = \\boxed{<y>}",
        "Suppose x = \\boxed{<x>}, y = \\boxed{<y>}",
        "x = \\boxed{<x>}\ny = \\boxed{<y>} is wrong",
        "It is not x = \\boxed{<x>}, y = \\boxed{<y>}",
        "\\boxed{y = <x>}\n\\boxed{x = <y>}",
    ],
)
def test_values_in_boxes_and_in_json_that_are_changed_or_hedged_are_not_paid(form: str) -> None:
    assert pair_reward(form) == 0.0


@pytest.mark.parametrize(
    "form",
    [
        "x = {}\n\nCheck: 3*({}) + 60 = 0",
        "x = {}\n\n**Verification:** $3({}) + 60 = -60 + 60 = 0$ ✓",
        "x = \\boxed{{}}",
        "$x = {}$",
        "x = -\\boxed{20}",
        "-\\boxed{20}",
        "**x = {}**\n\nCheck: 3x + 60 = 3({}) + 60 = 0",
    ],
)
def test_a_check_behind_a_solution_does_not_hide_it(form: str) -> None:
    assert algebra_reward(form.replace("{}", "-20")) == 1.0


@pytest.mark.parametrize(
    "form",
    [
        "x = {}\n\nCheck: 3*({}) + 60 = 1",
        "x = {}\n\nCheck: x = 20",
        "x = {}\n\nCheck: or x = 20",
        "x = {}\n\nCheck: 3*20 - 60 = 0, x = 20",
        "2x = {}",
        "\\boxed{20}",
        "x = 20 - \\boxed{{}}",
    ],
)
def test_a_false_check_or_another_value_is_not_paid(form: str) -> None:
    assert algebra_reward(form.replace("{}", "-20")) == 0.0


def pair_reward(form: str) -> float:
    """The reward of a reply to the system with the solution (3, -2)."""
    env = envs.make("math/LinearSystem-v0").unwrapped
    env.reset(seed=0, options={"split": "test", "index": 0})
    return float(env.step(form.replace("<x>", "3").replace("<y>", "-2"))[1])


def algebra_reward(reply: str) -> float:
    """The reward of a reply to the equation with the solution -20."""
    env = envs.make("math/Algebra-v0").unwrapped
    env.reset(seed=0, options={"split": "test", "index": 0})
    return float(env.step(reply)[1])
