"""Word problems generated from templates, in four levels, with units."""

from __future__ import annotations

import re
from typing import ClassVar

import numpy as np

from envs.episodes.guide import Guide
from envs.grading.declaration import number_in_phrase
from envs.grading.lines import answer_line
from envs.grading.math import verify
from envs.grading.number import parse_number
from envs.grading.units import conversion_factor
from envs.math.generated import GeneratedProblems, Problem, between, format_number, one_of
from envs.math.stories import LEVELS
from envs.types import Message, Outcome, assistant, final_text


class WordProblems(GeneratedProblems):
    """Solve a short story.

    Observation: `Ann has 12 pens and gets 5. How many pens now?`, one user message. In full style
    after the instructions.
    Action: the number, `17`; sentences and boxes are read as `envs.grading.math.verify` says.
    Reward: 1 if the value is right, else 0. The unit is optional, but a unit that is given counts: if the story asks
    for minutes, `3 hours` is as right as `180`, and `180 hours` is wrong.
    Episode end: after the first reply.
    Levels: 0 one step; 1, the default, two steps; 2 two steps with units of time, length, volume, mass and money;
    3 several steps with percents, fractions and rates, where the answer may be a fraction. The answer is positive and
    is none of the numbers in the story.
    Source and licence: generated from own templates. Version history: v0.
    """

    levels: ClassVar = range(len(LEVELS))

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        return self.answer_guide(
            goal="Read a short story and answer its question. You succeed if your number is right.",
            reply=(
                "Reply with the number; write one that is no whole number as a decimal or a fraction. "
                "If the question asks for a unit, give the number in this unit."
            ),
            example="98765",
        )

    def problem(self, rng: np.random.Generator) -> Problem | None:
        """Fill in a random template of the level; return None if the answer is not positive or is in the story."""
        template = one_of(rng, *LEVELS[self.level])
        story = template(rng)
        story_numbers = re.findall(r"[0-9][0-9./:]*", story.text)
        answer = format_number(story.answer)
        if (
            story.answer <= 0
            or answer in story_numbers
            or story.answer in [parse_number(one.strip(".")) for one in story_numbers]
        ):
            return None
        words = f"{story.text}\nEnd with #### <number>"
        identity = [template.__name__, *story_numbers]
        return Problem(story.text, words, answer, identity, story.unit, statement=story.text)

    def reply(self, action: Message) -> Outcome:
        """Compare the values in the unit that the story asks for, and end the episode."""
        reply_text = final_text(action)
        verdict = verify(reply_text, self.task.answer, symbolic=False)
        right, unit = verdict.correct, self.task.metadata.get("unit")
        value = number_in_phrase(verdict.extracted) if unit and verdict.extracted else None
        if value is not None:
            line = answer_line(reply_text)  # reasoning before it may have the number with another unit
            scope = line if str(verdict.extracted) in line else reply_text
            factor = conversion_factor(scope, str(verdict.extracted), str(unit))
            right = factor is not None and value * factor == parse_number(self.task.answer)
        valid = verdict.method not in ("none", "unclear")
        return Outcome(reward=float(right), terminated=True, success=right, valid=valid)

    def random(self, rng: np.random.Generator) -> Message:
        """Return a whole number from 1 to 99."""
        return assistant(str(between(rng, 1, 99)))
