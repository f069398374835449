"""Cards: licence, source, official scoring rule and pitfalls of an environment's tasks."""

from __future__ import annotations

from typing import NamedTuple


class Card(NamedTuple):
    """What to know of an environment's tasks before quoting a score; every field is text for people.

    Attributes:
        licence: Licence of the tasks: "MIT".
        source: Where they come from: "openai/gsm8k, config main (Cobbe et al. 2021, arXiv:2110.14168)".
        rule: The official scoring rule.
        pitfalls: What goes wrong when scores are compared; "" for nothing.
    """

    licence: str
    source: str
    rule: str
    pitfalls: str = ""


GENERATED = Card(
    "none needed: no third-party data",
    "generated from fixed seeds; train, val and test share no problem",
    "the environment's own reward; success is its own verdict",
)


def generated_card(pitfalls: str) -> Card:
    """Make the card of tasks that this project generates, with these `pitfalls` of comparing scores."""
    return GENERATED._replace(pitfalls=pitfalls)


def adapted_card(source: str, pitfalls: str) -> Card:
    """Make the card of tasks around a game from another project, `source`, under the MIT licence."""
    return GENERATED._replace(licence="MIT", source=f"{source}; {GENERATED.source}", pitfalls=pitfalls)


TOY_TEXT = "gymnasium's toy_text, as text"
PAGES = (
    "pages need no script, so they are simpler than most of the web; reporting every goal as impossible succeeds in "
    "some hundredths of the tasks; compare scores of one engine and one view only"
)

CARDS = {
    "math/Arithmetic-v0": generated_card("only a declared integer counts: several numbers and no mark is wrong"),
    "math/Algebra-v0": generated_card("both roots are asked for at level 4, as a set: one of them is wrong"),
    "math/WordProblems-v0": generated_card(
        "few templates: a model trained on them knows their forms, not word problems"
    ),
    "math/Countdown-v0": generated_card(
        "the target without a way to it is wrong; any way that uses the numbers counts"
    ),
    "math/Fractions-v0": generated_card("decimals that stand for no exact fraction are wrong"),
    "math/Sets-v0": generated_card("order and repetition do not count, brackets of a tuple do"),
    "math/Revise-v0": generated_card("hints give the answer away in the end: quote `first` beside success"),
    "games/GuessNumber-v0": generated_card("intervals are small, so a random player often wins: compare with `random`"),
    "games/FrozenLake-v0": adapted_card(TOY_TEXT, "on small maps one walk learnt by heart crosses several"),
    "games/Taxi-v0": adapted_card(TOY_TEXT, "one map only: a policy may learn it by heart"),
    "games/CliffWalking-v0": adapted_card(TOY_TEXT, "one map only, in eight positions: a policy may learn it by heart"),
    "games/Blackjack-v0": adapted_card(TOY_TEXT, "only hands are dealt that good play wins: no casino's odds"),
    "games/2048-v0": generated_card("a small board and a small target: no result on the usual game"),
    "games/Wordle-v0": generated_card("an own, short word list: no result on the newspaper's game"),
    "games/Minesweeper-v0": generated_card("every field can be solved without guessing, unlike the usual game's"),
    "games/Rooms-v0": generated_card(
        "the commands that work are listed, which makes it far easier than `commands=false`"
    ),
    "math/GSM8K-v0": Card(
        "MIT",
        "openai/gsm8k, config main (Cobbe et al. 2021, arXiv:2110.14168)",
        "the first `#### <number>` of the reply, commas removed, equal as a string (rule=strict, metric `strict`)",
        "prompt and extraction alone move scores by ten points: quote `strict` beside `flexible`; `10` and `10.0` "
        "differ officially; old and public, so contaminated",
    ),
    "tools/Tau2-v0": Card(
        "MIT",
        "sierra-research/tau2-bench (Barres et al. 2025, arXiv:2506.07982), after tau-bench (Yao et al. 2024)",
        "the product of the task's reward bases; pass^k, C(c, k) / C(n, k) averaged over the tasks",
        "NL_ASSERTION needs a judge and is left out (metric `unjudged`), so scores are those of the records alone; the "
        "customer is a script, not a language model, and scores with one customer do not compare with those with "
        "another; six of the 57 even tasks need no change, and doing nothing passes them",
    ),
    "tools/BFCL-v0": Card(
        "Apache-2.0",
        "gorilla-llm/Berkeley-Function-Calling-Leaderboard, v4 (Patil et al. 2025)",
        "all calls and no other, in any order; required arguments, types, and one of the listed values",
        "native calls and calls as text differ; names lose their dots; the gold answers of three parallel rows are "
        "faulty in the files; in irrelevance any reply without a call is right",
    ),
    "tools/Search-v0": generated_card(
        "a small wiki with few kinds of questions: no result on search in the open web or in large corpora"
    ),
    "tools/Support-v0": generated_card(
        "the customer follows rules and understands few words: a model that asks in another way gets no answer"
    ),
    "web/Widgets-v0": generated_card(PAGES),
    "web/Shop-v0": generated_card(f"prices and names are invented; {PAGES}"),
    "web/Mail-v0": generated_card(PAGES),
    "web/CRM-v0": generated_card(f"a goal may ask for ten changes, each of which must be right; {PAGES}"),
    "web/Calendar-v0": generated_card(PAGES),
    "web/Wiki-v0": generated_card(f"the wiki is invented: nothing in it can be known; {PAGES}"),
    "web/Board-v0": generated_card(PAGES),
    "web/Access-v0": generated_card(PAGES),
    "tools/Travel-v0": generated_card(
        "the employee follows rules and understands few words: a model that asks in another way gets no answer; "
        "offices have fixed distances from UTC, without daylight saving time"
    ),
    "math/MATH500-v0": Card(
        "MIT",
        "HuggingFaceH4/MATH-500, 500 problems of MATH (Hendrycks et al. 2021; Lightman et al. 2023)",
        "equality after normalisation, then symbolically (prm800k's grader or math-verify)",
        "intervals and tuples look alike, units and percent signs are judged differently by different graders, two "
        "boxes in one reply; a row whose gold answer cannot be read must not vanish from the count",
    ),
    "math/AIME-v0": Card(
        "problems by the Mathematical Association of America; see the files' own terms",
        "HuggingFaceH4/aime_2024, MathArena/aime_2025, MathArena/aime_2026",
        "the integer from 0 to 999, equal",
        "30 problems a year: give avg@16 or more with its interval; leading zeros (`073`); old years are contaminated",
    ),
    "code/Functions-v0": generated_card(
        "families of functions: test problems differ from training ones in constants, so a model trained on them knows "
        "the families; results are compared in type too, so `1.0` for `1` is wrong"
    ),
    "code/MBPP-v0": Card(
        "CC-BY-4.0",
        "google-research-datasets/mbpp (Austin et al. 2021, arXiv:2108.07732)",
        "the program passes all of the problem's assertions; pass@k by the unbiased estimate",
        "the sentence alone does not name the function, so the first assertion is shown; three assertions each, so "
        "wrong programs pass; published scores differ in the prompt and in full or sanitized rows; contaminated",
    ),
    "code/HumanEval-v0": Card(
        "MIT",
        "openai/openai_humaneval, 164 problems (Chen et al. 2021, arXiv:2107.03374)",
        "the function passes all of the problem's tests; pass@k by the unbiased estimate",
        "chat models return whole programs in fences; tests are few, so wrong programs pass; contaminated",
    ),
}


def card(env: str) -> Card:
    """Return the card of an environment's tasks by its id; a general one for an environment without its own."""
    return CARDS.get(env, GENERATED)
