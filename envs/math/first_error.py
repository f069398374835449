"""Judge a calculation: name the first wrong step, or say that there is none."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from envs.episodes.guide import Guide
from envs.grading.integer import BOX_WINDOW, last_boxed_integer
from envs.grading.lines import last_line
from envs.math.generated import GeneratedProblems, Problem, between, one_of
from envs.types import Message, Outcome, assistant, final_text

Rule = Literal["exact", "fapo"]
STEPS = (3, 6, 10)  # of a level
NONE = -1  # the answer where no step is wrong
FAPO_RULES = (
    f" The last box with a whole number in the last {BOX_WINDOW} characters of your reply counts. Its score is 1 for "
    "the right number. If it names a step and so does the right answer, it is 1 less their distance divided by the "
    "number of steps. For any other number, and without a box, it is -1."
)
_NUMBER = r"(?P<number>[-\u2212]?\d{1,9})"
# What the last line, or a box on it, may be: the number, also announced as an answer, or in words that speak of a step.
_LINES = (
    re.compile(
        rf"(?:(?:(?:so|thus|therefore|hence),? )?(?:the |my )?(?:final )?answer(?: is|:)? ?:? ?)?{_NUMBER} ?[.!]?",
        re.IGNORECASE,
    ),
    re.compile(
        rf"[a-z ,:;'()-]{{0,80}}\bsteps?\b(?:[a-z ,:;'()#]{{0,60}}[a-z ,:;'(#])?{_NUMBER}\b[a-z ,.:;!')]{{0,80}}", re.I
    ),
)
_WORDS = {"minus one": NONE, "negative one": NONE} | {
    word: number
    for number, word in enumerate(("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"))
}
# A number in words, where it is all of the answer; a step with what is right in it.
_WORD_LINE = re.compile(
    rf"(?:(?:the |my )?(?:final )?answer(?: is|:) ?)?(?:the first (?:wrong step|error|mistake) is )?(?:step )?"
    rf"(?P<word>{'|'.join(_WORDS)})[.!]?",
    re.IGNORECASE,
)
_TERM = r"[-\u2212]?\d{1,9}"
_CALCULATION = rf"{_TERM}(?: ?[-+*/\u2212\u00d7\u00b7x] ?{_TERM}){{1,2}}"
_CORRECTED_LINE = re.compile(
    rf"(?:the first (?:wrong step|error|mistake) is )?step (?P<number>\d{{1,2}})(?: is (?:wrong|incorrect))? ?"
    rf"[:,;.\u2014\u2013-] ?(?:because |since |as )?{_CALCULATION} ?(?:should be {_TERM}(?:,? (?:and )?not {_TERM})?|"
    rf"(?:is|equals|=) ?{_TERM},? (?:and )?not {_TERM})[.!]?",
    re.IGNORECASE,
)
# A step with the calculation that it holds, which names it where that is wrong as it stands.
_QUOTED_LINE = re.compile(
    rf"(?:the first (?:wrong step|error|mistake) is )?step (?P<number>\d{{1,2}}) ?[:,] ?"
    rf"(?P<left>{_TERM}) ?(?P<sign>[-+*\u2212\u00d7\u00b7x]) ?(?P<right>{_TERM}) ?= ?(?P<result>{_TERM})[.!]?",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"[*_`$]|</?[a-z]{1,9}>|\\text|[{}]|^[-*] (?!1\b)")
_EMPHASIS = re.compile(r"[*_`$]{2}|[_`$]")
_ANY_BOX = re.compile(r"\\boxed\{((?:[^{}]|\\text\{[^{}]*\}){0,40})\}")
_STEP = re.compile(r"\bsteps?\b|^\W*\d{1,2} ?[:.)] ", re.I)  # named, or a line of a numbered list
_DOUBT = re.compile(r"\b(?:not|never|neither|either|or)\b|n['’]t\b", re.I)
_SIGNS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}


class FirstError(GeneratedProblems):
    """Find the first wrong step of a calculation, as a judge of solutions does.

    Observation: `0: 12+7=19; 1: 19*3=56; 2: 56-4=52`, one user message; in full style after the instructions, with a
    step on each line.
    Action: the number of the first wrong step, `1` or `one`, or `-1` if all are right; alone on the last line of the
    reply, or the only number of a sentence or box there, which may also say what is right in the step (`named_step`).
    Reward: by `rule`: exact, 1 for the right number, else 0. fapo, what FAPO (arXiv:2510.22543) trains its judge with:
    the last box with a whole number in the last 300 characters counts; 1 if it is right that there is no error, 1 less
    the distance over the number of steps where both numbers name a step, else -1. That rule pays for a near miss, so a
    judge that always names a step in the middle earns 0.4 on average of six steps without reading.
    Success: the number is right.
    Episode end: after the first reply.
    Levels: 0 three sums and differences of digits, with digits as results, 1, the default, six steps, 2 ten. After a
    wrong step the others follow from its result. Every answer is equally likely, at level 0 nearly so.
    Arguments: `rule`; `level`.
    Source and licence: generated. Version history: v0.
    """

    levels: ClassVar = range(len(STEPS))

    def __init__(self, *, rule: Rule = "exact", level: int = 1, **limits: Any) -> None:
        if rule not in get_args(Rule):
            raise ValueError(f"rule {rule!r} is not one of {', '.join(get_args(Rule))}")
        super().__init__(level=level, **limits)
        self.rule = rule

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        return self.answer_guide(
            goal=(
                "Check a calculation and find its first wrong step. You succeed if you name this step, or say rightly "
                "that there is none."
            ),
            rules="Each step is numbered, from 0. A step that goes on with a wrong number is right in itself."
            + (FAPO_RULES if self.rule == "fapo" else ""),
            reply=(
                "Reply with the number of the first wrong step, or with -1 if every step is right"
                + (", in a box such as \\boxed{-1}." if self.rule == "fapo" else ".")
            ),
            example="\\boxed{98765}" if self.rule == "fapo" else "98765",
        )

    def problem(self, rng: np.random.Generator) -> Problem | None:
        """Draw a calculation and where it goes wrong; return None if its numbers have more digits than the level's."""
        is_gentle, count = self.level == 0, STEPS[self.level]
        signs, most, errors = ("+-", 9, (-2, -1, 1, 2)) if is_gentle else (_SIGNS, 99, (-10, -2, -1, 1, 2, 10))
        error, value, steps = between(rng, NONE, count - 1), between(rng, 2, most), []
        for number in range(count):
            sign = one_of(rng, *signs)
            other = between(rng, 2, 9) if sign == "*" else between(rng, 2, most)
            result = _SIGNS[sign](value, other)
            if number == error:
                result += one_of(rng, *errors)
            if abs(result) > 9999 or (is_gentle and not 0 <= result <= 9):
                return None
            steps.append(f"{value}{sign}{other}={result}")
            value = result
        lines = [f"{number}: {step}" for number, step in enumerate(steps)]
        return Problem(
            "; ".join(lines),
            "Which is the first wrong step, -1 for none?\n" + "\n".join(lines),
            str(error),
            steps,
            statement="\n".join(lines),
        )

    def reply(self, action: Message) -> Outcome:
        """Grade the number and end the episode. A reply that names no step, or several, is invalid."""
        count, right = STEPS[self.level], int(self.task.answer)
        guess = self._guess(action)
        earned = judge_reward(guess, right, count) if self.rule == "fapo" else float(guess == right)
        return Outcome(reward=earned, terminated=True, success=guess == right, valid=guess is not None)

    def vote(self, action: Message) -> Hashable | None:
        """Return the number that the reply names; None if it names none."""
        return self._guess(action)

    def _guess(self, action: Message) -> int | None:
        reply = final_text(action)
        return last_boxed_integer(reply) if self.rule == "fapo" else named_step(reply)

    def oracle(self) -> Iterator[Message]:
        """Yield the answer, at level 0 after a line with the right result of each step, so that it can be imitated."""
        if self.level == 0 and self.rule == "exact":
            terms = [re.fullmatch(r"(\d+)([-+])(\d+)=\d+", step) for step in self.task.metadata["same"]]
            results = [_SIGNS[term[2]](int(term[1]), int(term[3])) for term in terms if term]
            yield assistant(f"{' '.join(map(str, results))}\n{self.task.answer}")
            return
        yield from super().oracle()

    def random(self, rng: np.random.Generator) -> Message:
        """Return the number of a step, or -1."""
        return assistant(str(between(rng, NONE, STEPS[self.level] - 1)))


def named_step(reply: str) -> int | None:
    """Return the number that the last line of a reply names: alone, in a box, as an answer or as that of a step.

    None for no number or several, also where a line before is another number of one digit alone, and for words that
    deny or offer it. Any other work may stand on the lines before.
    """
    line = last_line(reply)
    texts = _ANY_BOX.findall(line) or [line]
    plain_line = " ".join(_EMPHASIS.sub("", line).split())
    match = _CORRECTED_LINE.fullmatch(plain_line) or _wrong_quote(plain_line, reply)
    numbers = {int(match["number"])} if match else {_only_number(text) for text in texts}
    rivals = {_only_number(other) for other in reply.splitlines() if len(other.strip("*_` .")) <= 2} - {None}
    if len(numbers) != 1 or (not match and _DOUBT.search(line)):
        return None
    return numbers.pop() if rivals <= numbers else None


def _wrong_quote(line: str, reply: str) -> re.Match[str] | None:
    """Match a line such as `Step 3: 1-42=-39` if its result is wrong and no other line of `reply` is about a step."""
    match = _QUOTED_LINE.fullmatch(line)
    if match is None or sum(_STEP.search(other) is not None for other in reply.splitlines()) > 1:
        return None
    left, right, result = (int(match[name].replace("\u2212", "-")) for name in ("left", "right", "result"))
    sign = {"\u2212": "-", "\u00d7": "*", "\u00b7": "*", "x": "*", "X": "*"}.get(match["sign"], match["sign"])
    return match if _SIGNS[sign](left, right) != result else None


def _only_number(text: str) -> int | None:
    text = " ".join(_MARKUP.sub(" ", text).split())
    if word := _WORD_LINE.fullmatch(text):
        return _WORDS[word["word"].lower()]
    match = next(filter(None, (line.fullmatch(text) for line in _LINES)), None)
    return int(match["number"].replace("\u2212", "-")) if match and text.isascii() | ("\u2212" in text) else None


def judge_reward(guess: int | None, right: int, steps: int) -> float:
    """Return FAPO's reward of a judge that names the step `guess`, where `right` is the first wrong one."""
    if guess is None or not NONE <= guess < steps or (guess == NONE) != (right == NONE):
        return -1.0
    return 1.0 - abs(guess - right) / steps
