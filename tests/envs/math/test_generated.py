"""Generated problems with one reply: the answers are right, the splits are sound, cheating earns nothing."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from envs.grading.exact import member_numbers
from envs.math.algebra import Algebra
from envs.math.fractions import Fractions
from envs.math.generated import LENGTHS
from envs.math.linear_system import LinearSystem
from envs.math.sets import Sets
from envs.math.word_problems import WordProblems

KINDS = [Algebra, Fractions, LinearSystem, Sets, WordProblems]
EVERY = [(kind, level) for kind in KINDS for level in kind.levels]
by_level = pytest.mark.parametrize("kind, level", EVERY, ids=lambda value: getattr(value, "__name__", str(value)))


def shown(task) -> str:
    return task.prompt[0]["content"]


def paid(env, reply: str, index: int = 0) -> float:
    env.reset(options={"split": "test", "index": index})
    return env.step(reply)[1]


def as_python(text: str) -> str:
    return re.sub(r"(?<=[0-9xyz)])(?=[xyz(])", "*", text).replace("^", "**")


@by_level
def test_the_oracle_is_right_and_no_attack_is(kind, level):
    env = kind(level=level)
    for index in range(0, LENGTHS["test"], 10):
        env.reset(options={"split": "test", "index": index})
        replies = [next(env.oracle()), *env.attacks(), env.noop()]
        assert [paid(env, reply, index) for reply in replies] == [1.0] + [0.0] * (len(replies) - 1)


@by_level
def test_no_problem_stands_in_two_splits_or_twice_in_a_held_out_one(kind, level):
    env = kind(level=level)
    test, val = ({shown(task) for task in env.load(split)} for split in ("test", "val"))
    train = {shown(task) for task in env.load("train")[:300]}
    assert (len(test), len(val)) == (LENGTHS["test"], LENGTHS["val"])
    assert not (test & val or test & train or val & train)


@by_level
def test_every_style_asks_for_the_same_problems(kind, level):
    short, v1, full = (kind(level=level, style=style).load("test")[:20] for style in ("short", "v1", "full"))
    assert [task.answer for task in short] == [task.answer for task in v1] == [task.answer for task in full]
    assert all(len(shown(one)) < len(shown(other)) for one, other in zip(short, v1, strict=True))
    assert all(len(shown(one)) <= len(shown(other)) for one, other in zip(short, full, strict=True))


@by_level
def test_the_opening_in_full_style_says_what_is_asked_and_gives_a_wrong_example_that_counts(kind, level):
    env = kind(level=level)
    for index in range(20):
        (opening,), _ = env.reset(options={"split": "test", "index": index})
        assert opening["content"].endswith(shown(env.task)) and "You succeed if" in opening["content"]
        _, reward, _, _, info = env.step(env.guide().example)
        assert (reward, info["valid"]) == (0.0, True)


@by_level
def test_random_replies_are_rarely_right(kind, level):
    env, rng, right = kind(level=level), np.random.default_rng(0), 0.0
    for index in range(LENGTHS["test"]):
        env.reset(options={"split": "test", "index": index})
        right += env.step(env.random(rng))[1]
    assert right <= 0.04 * LENGTHS["test"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [-1, 9, "easy", 1.5])
def test_an_unknown_level_is_named_with_the_known_ones(kind, level):
    with pytest.raises(ValueError, match=re.escape(f"level {level!r} is not one of 0, 1")):
        kind(level=level)


def test_prompts_are_short_enough_for_a_model_of_bytes():
    for kind in (Algebra, Fractions, LinearSystem, Sets):
        assert max(len(shown(task)) for task in kind(style="short").load("test")) <= 50
    assert max(len(shown(task)) for task in WordProblems(style="short").load("test")) <= 90


@pytest.mark.parametrize("level", Algebra.levels)
def test_solutions_solve_their_equations_and_no_other_whole_number_does(level):
    for task in Algebra(style="short", level=level).load("test")[:60]:
        left, right = as_python(shown(task)).split(" = ")
        roots = member_numbers(task.answer)
        assert all(eval(left, {"x": root}) == eval(right, {"x": root}) for root in roots)
        roots = {Fraction(x) for x in range(-130, 131) if eval(left, {"x": x}) == eval(right, {"x": x})}
        assert roots == {root for root in roots if root.denominator == 1}


def test_both_solutions_of_a_quadratic_are_needed_in_any_order():
    env = Algebra(style="short", level=4)
    index = next(i for i, task in enumerate(env.load("test")) if "," in task.answer)
    first, second = env.load("test")[index].answer.split(", ")
    right = (f"{second}, {first}", rf"\boxed{{x = {first}, x = {second}}}", f"The solutions: x={first} or x={second}")
    assert [paid(env, reply, index) for reply in (*right[:2], first, second)] == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("level", LinearSystem.levels)
def test_values_solve_their_system(level):
    for task in LinearSystem(style="short", level=level).load("test")[:60]:
        values = dict(zip("xyz", member_numbers(task.answer), strict=False))
        for line in shown(task).split(", "):
            left, right = as_python(line).split("=")
            assert eval(left, {}, values) == int(right)
        assert any(value.denominator > 1 for value in values.values()) is (level in (2, 4))


def test_a_system_may_be_answered_with_names_in_any_order():
    env = LinearSystem(style="short")
    x, y = map(str, member_numbers(env.load("test")[0].answer))
    right = (f"({x}, {y})", f"x={x}, y={y}", f"y = {y}, x = {x}", rf"\boxed{{({x},{y})}}", f"The answer is ({x},{y}).")
    assert [paid(env, reply) for reply in right] == [1.0] * 5
    formatted = (f"**({x},{y})**", f"`({x},{y})`", f"```\n({x},{y})\n```", f"The answer is **({x}, {y})**.")
    assert [paid(env, reply) for reply in formatted] == [1.0] * 4
    wrong = (f"({y},{x})", f"x={y}, y={x}", f"[{y},{x}]", x, f"({x},{y},0)")
    assert [paid(env, reply) for reply in wrong] == [0.0] * 5


@pytest.mark.parametrize("level", Fractions.levels)
def test_values_of_fractions_are_right(level):
    for task in Fractions(style="short", level=level).load("test")[:100]:
        expression = shown(task).removesuffix(" = ?")
        exact = re.sub(r"(\d+)/(\d+)", r"F(\1,\2)", expression)
        assert str(eval(exact, {"F": Fraction})) == task.answer
        assert math.isclose(eval(expression), eval(task.answer))


def test_lowest_terms_are_asked_for_only_on_demand():
    for lowest, rewards in ((False, [1.0, 1.0, 0.0]), (True, [1.0, 0.0, 0.0])):
        env = Fractions(style="short", lowest=lowest)
        top, bottom = map(int, env.load("test")[0].answer.split("/"))
        replies = (f"{top}/{bottom}", f"{2 * top}/{2 * bottom}", f"{top + 1}/{bottom}")
        assert [paid(env, reply) for reply in replies] == rewards
        env.reset(options={"split": "test", "index": 0})
        assert env.step(replies[1])[4]["metrics"] == {"lowest": 0.0}


@pytest.mark.parametrize("level", Sets.levels)
def test_sets_are_what_python_makes_of_them(level):
    for task in Sets(style="short", level=level).load("test")[:100]:
        assert sorted(eval(shown(task))) == [int(number) for number in member_numbers(task.answer)]
        assert task.answer not in shown(task)


def test_a_set_counts_in_any_order_and_with_or_without_brackets():
    env = Sets(style="short")
    index = next(i for i, task in enumerate(env.load("test")) if task.answer.count(",") == 2)
    a, b, c = env.load("test")[index].answer.strip("{}").split(",")
    right = (f"{{{c},{b},{a}}}", f"{b}, {c}, {a}", rf"\boxed{{\{{{a},{c},{b}\}}}}", f"The answer is {{{a}, {b}, {c}}}.")
    assert [paid(env, reply, index) for reply in right] == [1.0] * 4
    wrong = (f"{{{a},{b}}}", f"({a},{b},{c})", f"{{{a},{b},{c},99}}", f"{a} {b} {c}")
    assert [paid(env, reply, index) for reply in wrong] == [0.0] * 4
    assert env.vote({"role": "assistant", "content": right[0]}) == env.vote({"role": "assistant", "content": right[2]})
