"""The first wrong step of a calculation."""

import re
from itertools import pairwise

import pytest

import envs
from envs.checks import check_env
from envs.types import assistant, text

ID = "math/FirstError-v0"


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_answer_is_the_first_step_that_does_not_hold(level):
    env = envs.make(ID, level=level, style="short").unwrapped
    answers = set()
    for task in env.load("test")[:60]:
        steps = re.findall(r"(-?\d+)([+*-])(\d+)=(-?\d+)", text(task.prompt[0]))
        wrong = [n for n, (a, sign, b, c) in enumerate(steps) if eval(f"{a}{sign}{b}") != int(c)]
        assert str(wrong[0] if wrong else -1) == task.answer
        assert len(wrong) <= 1
        assert all(one[3] == other[0] for one, other in pairwise(steps))
        answers.add(task.answer)
    assert "-1" in answers and len(answers) == len(steps) + 1


@pytest.mark.parametrize("options", [{"level": 0}, {"level": 2}, {"style": "short"}])
def test_it_passes_the_doctor(options):
    assert not [result for result in check_env(ID, **options) if result.faults]


@pytest.mark.parametrize(
    "reply, reward", [("\\boxed{2}", 0.0), ("\\boxed{-1}", 1.0), ("-1", 1.0), ("I say -1 or 2", 0.0)]
)
def test_by_default_only_the_right_number_earns(reply, reward):
    env = envs.make(ID).unwrapped
    index = [task.answer for task in env.load("test")].index("-1")
    env.reset(seed=0, options={"split": "test", "index": index})
    assert env.step(assistant(reply))[1] == reward


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="rule 'f1' is not one of exact, fapo"):
        envs.make(ID, rule="f1")
