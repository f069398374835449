"""Word problems: the stories ask for what the templates compute, and units count."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from envs.grading.units import conversion_factor
from envs.math.stories import LEVELS
from envs.math.word_problems import WordProblems
from envs.types import Task, user

BY_HAND = [
    ("Leo has 21 pens, Ann has 3 more. How many have both?", 45),
    ("A pen costs $7. Tom buys 3 and pays $30. How much change?", 9),
    ("A rope of 1.5 m is cut into pieces of 25 cm. How many pieces?", 6),
    ("A bus leaves at 9:50 and arrives at 11:05. How many minutes?", 75),
    ("A coat of $80 is reduced by 25%. With $5 for postage, how many dollars does it cost?", 65),
    ("One pump fills a tank in 3 hours, another in 6. How many hours do both take? Give a fraction.", 2),
]


def pattern(text: str) -> str:
    """A story without its names, things and numbers."""
    words = [word for word in text.split() if not any(char.isdigit() for char in word)]
    return " ".join(word for word in words if word.islower())


@pytest.mark.parametrize("text, answer", BY_HAND)
def test_stories_worked_by_hand_are_among_the_templates(text, answer):
    rng = np.random.default_rng(0)
    stories = [template(rng) for level in LEVELS for template in level for _ in range(30)]
    assert pattern(text) in {pattern(story.text) for story in stories}


@pytest.mark.parametrize("level", WordProblems.levels)
def test_every_template_of_a_level_is_used_and_no_story_names_its_answer(level):
    tasks = WordProblems(level=level).load("test")
    assert len({task.metadata["same"][0] for task in tasks}) == len(LEVELS[level])
    for task in tasks:
        assert Fraction(task.answer) > 0
        assert task.answer not in task.metadata["same"][1:]


@pytest.mark.parametrize(
    "reply, reward",
    [
        ("180", 1.0),
        ("180 minutes", 1.0),
        ("180 min.", 1.0),
        ("3 hours", 1.0),
        (r"\boxed{3\text{ h}}", 1.0),
        ("It takes 3 hours.", 1.0),
        ("The answer is 10800 seconds.", 1.0),
        ("#### 180", 1.0),
        ("180 hours", 0.0),
        ("3", 0.0),
        ("3 minutes", 0.0),
        ("180 km", 0.0),
        ("180 cents", 0.0),
        ("180 or 181", 0.0),
        ("**180** minutes", 1.0),
        ("minutes: 180", 1.0),
        ("$180$", 1.0),
        (r"The answer is $x = 180\text{ min}$.", 1.0),
        (r"So $3 \times 60 = 180$ minutes.", 1.0),
        (r"\boxed{180} minutes, which is 3 hours.", 1.0),
        ("hours: 3", 1.0),
        ("**180** hours", 0.0),
        ("180 (hours)", 0.0),
        ("hours: 180", 0.0),
        ("Time in hours = **180**", 0.0),
        ("The answer is 180, in hours.", 0.0),
        (r"$\boxed{180}$ hours", 0.0),
        (r"\boxed{180\,\text{hours}}", 0.0),
        ("180 tons", 0.0),
        ("180 years", 0.0),
        ("180 " * 50_000 + "years", 0.0),
        ("$180", 0.0),
        ("180%", 0.0),
    ],
)
def test_a_unit_need_not_be_given_but_counts_where_it_is(reply, reward, monkeypatch):
    task = Task("test/0", (user("A trip takes 2 h 60 min. How many minutes?"),), "180", {"unit": "minutes"})
    monkeypatch.setattr(WordProblems, "tasks", lambda self, split: [task])
    env = WordProblems(max_seconds=77.0)  # arguments of its own, for tasks of its own
    env.reset(options={"split": "test", "index": 0})
    assert env.step(reply)[1] == reward


@pytest.mark.parametrize(
    "reply, extracted, asked, by",
    [
        ("It is 3 km.", "3", "m", 1000),
        ("5 dollars", "5", "cents", 100),
        ("5 apples", "5", "cents", 1),
        ("60 km/h", "60", "minutes", 1),
        ("5 kg", "5", "km", None),
        ("5", "5", "", 1),
        ("$5", "5", "cents", 100),
        ("It costs **$5.00**.", "5.00", "cents", 100),
        (r"\$5", "5", "cents", 100),
        ("$5 and nothing else", "$5", "cents", 100),
        ("$5$", "5", "cents", 1),
        ("$2 + 3 = 5$", "5", "cents", 1),
        ("5 km, or 5 miles", "5", "km", None),
        ("15 km and 5", "5", "m", 1),
        ("m = 5", "5", "cm", 1),
    ],
)
def test_a_unit_is_a_factor(reply, extracted, asked, by):
    assert conversion_factor(reply, extracted, asked) == by
