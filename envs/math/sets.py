"""Unions, intersections and differences of small sets of whole numbers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from envs.episodes.guide import Guide
from envs.grading.choice import last_line
from envs.grading.exact import member_numbers
from envs.grading.lines import only_braces, only_line
from envs.math.generated import GeneratedProblems, Problem, between, one_of
from envs.types import Message, Outcome, assistant, final_text

SIGNS = {"|": "union", "&": "intersection", "-": "difference", "^": "symmetric difference"}


class Sets(GeneratedProblems):
    r"""Compute a set from two or three sets.

    Observation: `{1,3} | {3,5}`, one user message: `|` union, `&` intersection, `-` difference, `^` symmetric
    difference. In full style the instructions and `What is the union of {1, 3} and {3, 5}?`, another operation in
    brackets.
    Action: the set, `{1,3,5}`, in any order; a bare list `1, 3, 5`, `\emptyset` and `{}` are accepted, and boxes and
    sentences are read as `envs.grading.math.verify` says.
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
        reply_text = final_text(action)
        braces = only_braces(only_line(reply_text))
        outcome = super().reply(assistant(braces) if braces else action)
        outcome.valid = outcome.valid or bool(member_numbers(last_line(reply_text)))
        return outcome

    def random(self, rng: np.random.Generator) -> Message:
        """Return a set of up to four numbers below 20."""
        return assistant(_format_set(frozenset(rng.integers(20, size=between(rng, 1, 4)).tolist())))

    def wrong_answer(self) -> str:
        """Return the right set with one more number."""
        return _format_set(frozenset([*map(int, member_numbers(self.task.answer) or []), 123]))


def _format_set(numbers: frozenset[int], comma: str = ",") -> str:
    return "{" + comma.join(map(str, sorted(numbers))) + "}"


def _apply(sign: str, left: frozenset[int], right: frozenset[int]) -> frozenset[int]:
    results: dict[str, Any] = {"|": left | right, "&": left & right, "-": left - right, "^": left ^ right}
    return results[sign]
