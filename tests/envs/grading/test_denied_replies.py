"""A choice, guess or number that a reply denies is not taken, in any environment whose reply is one; its reasons may deny."""

from __future__ import annotations

from typing import Any

import pytest

import envs
from envs.catalogue import entries
from envs.data import MissingData
from envs.grading.doubts import denies_mark
from envs.types import text

DENIALS = (
    *("not {}", "I would not choose {}.", "Anything but {}.", "never {}", "Avoid {}.", "Definitely not {}."),
    *("Everything except {}", "{} is wrong.", "{} would be a mistake.", "I reject {}."),
)
STATEMENTS = (
    *("<answer>\n{}\n</answer>", "I thought about it.\n<answer>\n{}\n</answer>", "I choose {}.", "Answer: {}"),
    *(
        "Let me think about it.\n\n{}",
        "I choose {} because it is not worse.",
        "My answer is {}, since nothing else works.",
    ),
)
NAMED = (
    "games/2048-v0 games/Sokoban-v0 multi/Negotiation-v0 multi/PlanPath-v0 multi/Sokoban-v0"  # several moves, or offers
)
FREE = "multi/OddWord-v0 multi/CoderTester-v0 math/Python-v0"  # any text is a reply
IDS = [
    row.id
    for row in entries()
    if row.id.split("/")[0] in ("games", "multi", "math") and row.id not in f"{NAMED} {FREE}" and not row.data
]


def play(id: str, form: str) -> tuple[Any, Any]:
    """The result of the oracle's first reply, and of this reply in a sentence; no info where the oracle calls tools."""
    try:
        env = envs.make(id).unwrapped
        results = []
        for wording in ("{}", form):
            env.reset(seed=5, options={"split": "test", "index": 0})
            reply = text(next(iter(env.oracle())))  # type: ignore[attr-defined]
            _, reward, terminated, _, info = env.step(wording.replace("{}", reply))
            results.append((float(reward), terminated, info["valid"], info.get("success")))
        env.close()
    except (MissingData, ImportError) as missing:
        pytest.skip(str(missing))
    return results[0], results[1]


@pytest.mark.parametrize("id", IDS)
def test_a_denied_reply_is_not_taken(id: str) -> None:
    for form in DENIALS:
        right, denied = play(id, form)
        assert right[2] and denied[0] == 0.0 and not denied[2], form


@pytest.mark.parametrize("id", [id for id in IDS if id.startswith(("games/", "multi/")) and "SolverVerifier" not in id])
def test_a_reply_with_a_reason_is_taken(id: str) -> None:
    for form in STATEMENTS:
        right, stated = play(id, form)
        assert right == stated, form


@pytest.mark.parametrize(
    "sentence",
    ["{}, not 7", "The answer is {} and not 7.", "{} is not hard to find.", "Not 7 but {}", "It cannot be 7, so {}"],
)
def test_a_marked_answer_beside_one_that_is_denied_is_taken(sentence: str) -> None:
    assert not denies_mark(*sentence.split("{}"))
    assert all(denies_mark(*form.split("{}")) for form in DENIALS)
