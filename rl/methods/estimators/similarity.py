"""How alike texts are, and what a text earns by being like those of others.

Legend: B texts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Floats, Ints

ORDER = 4  # words of the longest sequences that are compared


def bleu(text: str, reference: str) -> float:
    """BLEU of one text against another (Papineni et al. 2002), 0 to 1: 1 for equal ones, 0 where no word is shared.

    Sequences of one to four words, of as many as both texts have; a count of matches of none is taken for a half, but
    for single words.
    """
    words, others = text.split(), reference.split()
    order = min(ORDER, len(words), len(others))
    if not order or not (Counter(words) & Counter(others)):
        return float(words == others)
    logs = []
    for n in range(1, order + 1):
        own, given = (Counter(zip(*(x[i:] for i in range(n)), strict=False)) for x in (words, others))
        logs.append(math.log(max((own & given).total(), 0.5) / own.total()))
    brevity = min(0.0, 1 - len(others) / len(words))
    return math.exp(brevity + sum(logs) / order)


def consistency(similarity: Floats, group: Ints) -> Floats:
    """PS-GRPO's rewards (B,): the mean `similarity` (B, B) of each text to those of the other groups.

    Raises `ValueError` for a single group, which has no others.
    """
    expect_shapes(similarity=(similarity, "BB"), group=(group, "B"))
    others = group[:, None] != group
    if not others.any(1).all():
        raise ValueError("texts are compared with those of other groups, and there is only one")
    rewards: Floats = np.where(others, similarity, 0.0).sum(1) / others.sum(1)
    return rewards


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> float:
    """The fewest insertions, deletions and replacements that make one sequence the other, as a share of the longer one.

    0 for equal ones, 1 where nothing is shared (Levenshtein 1966).
    """
    row = [*range(len(other) + 1)]
    for i, item in enumerate(one, 1):
        diagonal, row[0] = row[0], i
        for j, another in enumerate(other, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (item != another))
    return row[-1] / max(len(one), len(other), 1)
