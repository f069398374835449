"""The sentence that tells a seat of a team how its score is made of the team's success and of its own part."""

from __future__ import annotations


def score_rule(local: float, own: str) -> str:
    """Return the rule as a sentence.

    Args:
        local: Weight of the seat's own part, from 0 to 1.
        own: What that part is, to complete "0.5 ...": `times the share of right verdicts`, `if it is right`.
    """
    if local == 0:
        return "Your score is 1 if you both succeed, and 0 otherwise."
    if local == 1:
        return f"Your score is 1 {own}; the success of the team adds nothing to it."
    return f"Your score is {1 - local:g} if you both succeed; to that is added, in any case, {local:g} {own}."
