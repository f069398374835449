"""Published claims about methods in miniature, which `benchmarks.methods` puts to the test: arms, tasks, measures.

A preset names a claim, the arms that it is about, each against its parent, and what is measured. Each runs on two cores
within hours at five seeds. Where arms train on different tasks or with
help, they are judged by greedy play on validation tasks, never by their training episodes.
"""

from __future__ import annotations

from benchmarks.compare.comparisons import Comparison

JUDGED = ("--eval-every", "5", "--eval-episodes", "200")  # on all tasks, where arms are trained on different ones
SUMS = ("--turn-tokens", "8", "--cold-start-until", "0.15")
TRIES = ("--turn-tokens", "8", "--cold-start", "600", "--cold-start-until", "0.3")
RETURNING = ("--train-tasks", "800")  # about five groups of each in 130 updates, against one or two of all 3,185
DOORS = ("--env-arg", "symbols=32", "--turn-tokens", "8")
TWELVE_DOORS = (*DOORS, "--env-arg", "turns=12", "--env-arg", "decisive=12")  # all must be right
HALF_OF_THE_LETTERS = (*DOORS, "--env-arg", "rule=share", "--cold-start", "1000", "--cold-start-until", "0.25")
ARITHMETIC = "math/Arithmetic-v0"
BEHIND = (
    "--in-flight",
    "drain",
    "--no-overlap",
)  # after --lag updates all tokens are so old, however few are sampled at once
STALE = tuple(f"--lag {lag}" for lag in (0, 2, 8, 16))
LOSSES = ("grpo", "decoupled_ppo", "tis", "m2po", "vcpo")


def against(parent: str, *arms: str) -> tuple[tuple[str, str], ...]:
    """Each arm in a pair with the same parent."""
    return tuple((arm, parent) for arm in arms)


PRESETS: dict[str, Comparison] = {
    "selectors": Comparison(
        "choosing tasks needs fewer episodes to the same success",
        ARITHMETIC,
        (*SUMS, *JUDGED),
        120_000,
        against(
            "grpo",
            *("grpo --keep varied", "greso", "vcrl", "vade", "dots --strategy independent"),
            "grpo --sampler difficulty_pool",
        ),
        target=0.5,
        is_judged_apart=True,
        measure="episodes_to_target",
    ),
    "returning-tasks": Comparison(
        "choosing tasks by what is known of them needs fewer episodes where tasks come back",
        ARITHMETIC,
        (*SUMS, *JUDGED, *RETURNING),
        120_000,
        against("grpo", "greso", "vcrl", "vade", "dots --strategy independent", "grpo --sampler difficulty_pool"),
        target=0.5,
        is_judged_apart=True,
        measure="episodes_to_target",
    ),
    "hard-tasks": Comparison(
        "more episodes for hard tasks raise pass@8 at equal tokens",
        ARITHMETIC,
        (*SUMS, *JUDGED),
        120_000,
        (
            *against("dr_grpo", "dars", "dars --strategy more_for_hard:weigh=hardness", "dr_grpo --size 16"),
            *against("dr_grpo --size 16", "dars"),
        ),
        samples=8,
        is_judged_apart=True,
        measure="pass_at",
    ),
    "allotment": Comparison(
        "dividing a budget of episodes by difficulty helps the hard tasks",
        ARITHMETIC,
        (*SUMS, *JUDGED, *RETURNING),
        120_000,
        against("grpo", "xrpo", "gdro_prompts", "gdro_rollouts", "grpo --allot square_root"),
        samples=8,
        is_judged_apart=True,
        measure="pass_at",
    ),
    "breadth": Comparison(
        "many episodes of few tasks learn further than few of many",
        ARITHMETIC,
        (*SUMS, *JUDGED),
        120_000,
        against("grpo --groups 16", "brorl --groups 4", "brorl --groups 2 --allot broad:times=8"),
        is_judged_apart=True,
        measure="held_out",
    ),
    "pairs": Comparison(
        "training on the pairs that differ most gains at equal updates",
        ARITHMETIC,
        SUMS,
        120_000,
        against("grpo", "shuffle_r1", "d3s"),
    ),
    "replay": Comparison(
        "replay reaches the same success with fewer sampled tokens",
        ARITHMETIC,
        (*SUMS, *JUDGED),
        80_000,
        (
            ("rlep", "dapo"),
            *against("grpo", "grpo --strategy replay_groups", "grpo --strategy replay_groups:fresh=0.25", "remix"),
        ),
        target=0.5,
        is_judged_apart=True,
        measure="episodes_to_target",
    ),
    "prior": Comparison(
        "a prior of a task's value makes small groups enough",
        ARITHMETIC,
        (*SUMS, "--size", "4"),
        80_000,
        (*against("dr_grpo", "v05"), *against("grpo", "mc_grpo")),
    ),
    "single-episodes": Comparison(
        "one episode per task learns as well as groups",
        ARITHMETIC,
        SUMS,
        120_000,
        against("grpo", "mssr --size 1 --groups 128", "mssr --size 1 --groups 256"),
        measure="held_out",
        margin=0.05,
    ),
    "staleness": Comparison(
        "corrected losses lose no success up to 16 updates behind",
        ARITHMETIC,
        (*SUMS, *BEHIND),
        120_000,
        tuple((f"{loss} {lag}", f"{loss} {STALE[0]}") for loss in LOSSES for lag in STALE[1:]),
        measure="held_out",
        margin=0.05,
    ),
    "stale-16": Comparison(
        "corrected losses keep more success than GRPO 16 updates behind",
        ARITHMETIC,
        (*SUMS, *BEHIND),
        120_000,
        against(f"grpo {STALE[-1]}", *(f"{loss} {STALE[-1]}" for loss in (*LOSSES[1:], "minpro", "bapo"))),
        measure="held_out",
        runs_of="staleness",
    ),
    "diversity": Comparison(
        "pass@8 rises at equal pass@1",
        ARITHMETIC,
        SUMS,
        120_000,
        against("grpo", "ace", "uniqueness"),
        samples=8,
        measure="pass_at",
    ),
    "no-labels": Comparison(
        "votes of a group's own members teach where most of them are right",
        ARITHMETIC,
        ("--turn-tokens", "8", "--cold-start-until", "0.4", *JUDGED),
        120_000,
        (
            *against("grpo", "ttrl"),
            *against("ttrl", "ettrl", "ttrl --strategy majority_labels:least=0.75"),
        ),
        is_judged_apart=True,
        measure="gain",
    ),
    "hints": Comparison(
        "help on tasks that are never solved makes some of them solvable unaided",
        "games/Doors-v0",
        (*TWELVE_DOORS, "--lr", "3e-4", "--minibatches", "4", *JUDGED),
        160_000,
        against("grpo", "adhint", "adhint --strategy hinted:most=0.95"),
        start=HALF_OF_THE_LETTERS,
        samples=8,
        is_judged_apart=True,
        measure="pass_at",
    ),
    "several-turns": Comparison(
        "what is claimed of one turn holds for several",
        "math/Revise-v0",
        (*TRIES, *JUDGED, *RETURNING),
        120_000,
        against("grpo", "vade", "greso", "xrpo", "grpo --strategy replay_groups"),
        target=0.6,
        is_judged_apart=True,
    ),
}
