"""Unions, intersections and differences of small sets of whole numbers."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np

from envs.episodes.guide import Guide
from envs.grading.choice import last_line
from envs.grading.exact import member_numbers
from envs.grading.lines import only_braces, only_line
from envs.math.generated import GeneratedProblems, Problem, between, one_of
from envs.types import Message, Outcome, assistant, final_text

SIGNS = {"|": "union", "&": "intersection", "-": "difference", "^": "symmetric difference"}
_LIST = re.compile(r"(?<![\\\w\])}])\[\s*([0-9]{1,9}(?:\s*,\s*(?:and\s+)?[0-9]{1,9}){0,99})\s*\]")
_SET = r"\\?\{[0-9,\s]{0,400}\\?\}"
_OPERATOR = r"[∪∩∖△Δ⊕|&^−-]|\\(?:cup|cap|setminus|backslash|triangle|Delta|oplus)(?![a-z])"
_EQUATION = re.compile(rf"(?P<left>(?:{_SET}|[A-Z]|[()\s=]|{_OPERATOR}){{3,200}})=\s*(?P<right>{_SET})")
_RESULT = re.compile(
    rf"(?:(?P<operator>(?:{_OPERATOR})\s*)?(?P<left>{_SET})|(?:{_OPERATOR})\s*[A-Z])[)\s]*=\s*"
    rf"(?=(?P<right>{_SET})(?!\s*(?:{_OPERATOR})))"
)
_UNEQUAL = re.compile(r"≠|!=|\\neq?(?![a-z])")


class Sets(GeneratedProblems):
    r"""Compute a set from two or three sets.

    Observation: `{1,3} | {3,5}`, one user message: `|` union, `&` intersection, `-` difference, `^` symmetric
    difference. In full style the instructions and `What is the union of {1, 3} and {3, 5}?`, another operation in
    brackets.
    Action: the set, `{1,3,5}`, in any order; a list `1, 3, 5`, `[1, 3, 5]`, an equation `A ∪ B = {1,3,5}`, `\emptyset`
    and `{}` are accepted, and boxes and sentences are read as `envs.grading.math.verify` says.
    Reward: 1 if the set is right, else 0.
    Episode end: after the first reply.
    Levels: 0 two sets of up to 3 digits; 1, the default, two sets of up to 5 numbers below 20; 2 three sets,
    `({1,2} | {3}) & {2,3}`; 3 three sets of up to 7 numbers below 100, and `^`. The result is none of the sets shown.
    Source and licence: generated. Version history: v0.
    """

    levels: ClassVar = range(4)

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        return self.answer_guide(
            goal="Compute a set of whole numbers from other sets. You succeed if your set has just the right members.",
            rules=(
                "The union of two sets has the numbers that are in either of them, the intersection those that are in "
                "both, the difference those of the first set that are not in the second, and the symmetric difference "
                "those that are in exactly one of them."
            ),
            reply="Reply with the set in braces, its members separated by commas, in any order.",
            example="{104, 117, 250}",
        )

    def problem(self, rng: np.random.Generator) -> Problem | None:
        """Draw two or three sets that overlap; return None if the result is empty or one of them."""
        most, below = ((3, 10), (5, 20), (5, 20), (7, 100))[self.level]
        pool = rng.permutation(below)[: most + 2].tolist()
        sets = [frozenset(rng.permutation(pool)[: between(rng, 2, most)].tolist()) for _ in range(2 + (self.level > 1))]
        signs = [one_of(rng, *(SIGNS if self.level == 3 else "|&-")) for _ in sets[1:]]
        result, text, words = sets[0], _format_set(sets[0]), _format_set(sets[0], ", ")
        for number, (sign, other) in enumerate(zip(signs, sets[1:], strict=True)):
            text = f"({text})" if number else text
            text = f"{text} {sign} {_format_set(other)}"
            words = f"the {SIGNS[sign]} of {f'({words})' if number else words} and {_format_set(other, ', ')}"
            result = _apply(sign, result, other)
        if not result or result in sets:
            return None
        return Problem(text, f"What is {words}?", _format_set(result), text)

    def reply(self, action: Message) -> Outcome:
        """Grade the reply. A set on its last line is valid whatever the right set is, which may have one member."""
        reply_text = self.answer_in(final_text(action))
        braces = only_braces(only_line(reply_text))
        outcome = super().reply(assistant(braces or reply_text))
        outcome.valid = outcome.valid or bool(member_numbers(last_line(reply_text)))
        return outcome

    def answer_in(self, reply: str) -> str:
        """Return a reply with a list `[2, 3]` as a set; of an equation `A ∪ B = {2, 3}`, its right side.

        "" where the line that answers has equations with different results.
        """
        reply = _LIST.sub(r"{\1}", reply)
        line = only_line(reply)
        return "" if _has_several_results(line) else _right_side(line) or reply

    def random(self, rng: np.random.Generator) -> Message:
        """Return a set of up to four numbers below 20."""
        return assistant(_format_set(frozenset(rng.integers(20, size=between(rng, 1, 4)).tolist())))

    def wrong_answer(self) -> str:
        """Return the right set with one more number."""
        return _format_set(frozenset([*map(int, member_numbers(self.task.answer) or []), 123]))


def _format_set(numbers: frozenset[int], comma: str = ",") -> str:
    return "{" + comma.join(map(str, sorted(numbers))) + "}"


def _has_several_results(line: str) -> bool:
    """Whether equations on a line give operations different results, or it has an inequation."""
    results = set()
    for match in _RESULT.finditer(line):
        sides = [match["right"]] if match["operator"] or not match["left"] else [match["left"], match["right"]]
        results |= {frozenset(re.findall(r"[0-9]+", side)) for side in sides}
    return len(results) > 1 or _UNEQUAL.search(line) is not None


def _right_side(line: str) -> str:
    """The set on the right of an equation whose other sides are operations on sets or the same set; else ""."""
    match = _EQUATION.fullmatch(line.strip("$*`_. "))
    if match is None:
        return ""
    right = match["right"].replace("\\", "")
    first, *others = [side.strip() for side in match["left"].split("=")]
    sides = [first, *others] if len(first) > 1 else others
    return right if sides and all(re.search(_OPERATOR, re.sub(_SET, "", side)) for side in sides) else ""


def _apply(sign: str, left: frozenset[int], right: frozenset[int]) -> frozenset[int]:
    results: dict[str, Any] = {"|": left | right, "&": left & right, "-": left - right, "^": left ^ right}
    return results[sign]
