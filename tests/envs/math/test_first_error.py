"""The first wrong step of a calculation."""

import re
from itertools import pairwise

import pytest

import envs
from envs.checks import check_env
from envs.math.first_error import named_step
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
    "reply, step",
    [
        ("4", 4),
        ("-1", -1),
        ("\u22121", -1),
        ("426+87=513\n\n4", 4),
        ("0: 86*5=430 ok\n4: 426+87=513, not 512\n\n4", 4),
        ("- 86*5=430\n\n- 4", 4),
        ("430\n403\n334\n\n**4**", 4),
        ("426+87=\\boxed{513}\n4", 4),
        ("The first wrong step is 4.", 4),
        ("The first wrong step is: **4**", 4),
        ("Step 4 is wrong.", 4),
        ("\\boxed{\\text{Step }4}", 4),
        ("Every step is right: -1", -1),
        ("\uff14", None),
        ("step #4", 4),
        ("", None),
        ("4 or 3", None),
        ("not 4", None),
        ("3, 4", None),
        ("\\boxed{3} \\boxed{4}", None),
        ("4\nThe answer is 3.", None),
        ("\\boxed{4}\n3", 3),
        ("- 1", None),
        ("4.5", None),
        ("8/2", None),
        ("3\n4", None),
        ("4 is wrong", None),
        ("exit(4)", None),
        ("I say -1 or 2", None),
    ],
)
def test_the_last_line_names_a_step(reply, step):
    assert named_step(reply) == step


def test_by_default_only_the_right_number_earns():
    env = envs.make(ID).unwrapped
    index = [task.answer for task in env.load("test")].index("-1")
    for reply, reward, valid in (("\\boxed{2}", 0.0, True), ("1+1=2\n-1", 1.0, True), ("-1 or 2", 0.0, False)):
        env.reset(seed=0, options={"split": "test", "index": index})
        _, earned, _, _, info = env.step(assistant(reply))
        assert (earned, info["valid"]) == (reward, valid)


def test_the_rule_of_the_judge_is_prompt():
    env = envs.make(ID, rule="fapo", style="full").unwrapped
    messages, _ = env.reset(seed=0)
    prompt = " ".join(text(message) for message in messages)
    assert "distance divided by the number of steps" in prompt and "last 300 characters" in prompt


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="rule 'f1' is not one of exact, fapo"):
        envs.make(ID, rule="f1")
