"""What a comparison of methods is, and which `benchmarks.credit` makes."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Comparison:
    """Methods on one task, in pairs (method, parent): recipes, maybe with flags such as `grpo --scale none`.

    With `start`, flags of a run without updates, imitation is done once, and all seeds go on from its model. With
    `is_judged_apart`, runs have `--eval-every`, and an arm that changes the environment is judged in that of the others
    too, as `shared_held_out`. With `samples`, pass@k of so many sampled episodes per test task is measured at the end,
    and with `target` how many episodes and updates it took until training success was there. `measure` is the one that
    the claim speaks of, "gain" held-out success over the cold start; a claim that a method loses nothing is shown where
    the interval lies above `-margin`. With `rates` every arm has the learning rate of these with the largest area on
    seeds of its own (`benchmarks.compare.rates`). `runs_of` names another comparison of the same environment, flags and
    tokens, so that arms of both are run once, and begin with one model.
    """

    about: str
    env: str
    flags: tuple[str, ...]
    tokens: int
    pairs: tuple[tuple[str, str], ...]
    start: tuple[str, ...] = ()
    is_judged_apart: bool = False
    samples: int = 0
    target: float = 0.0
    measure: str = "area"
    margin: float = 0.0
    rates: tuple[float, ...] = ()
    runs_of: str = ""

    @property
    def env_args(self) -> list[str]:
        """The flags of the environment itself."""
        pairs = zip(self.flags, self.flags[1:], strict=False)
        return [word for flag, value in pairs if flag == "--env-arg" for word in (flag, value)]

    @property
    def arms(self) -> list[str]:
        """Every method once, the first parent first."""
        return list(dict.fromkeys([self.pairs[0][1], *(arm for pair in self.pairs for arm in pair)]))


PAGE = ("--env-arg", "kind=tick", "--env-arg", "max_turns=6", "--turn-tokens", "32", "--max-tokens", "768")
CLONING = "grpo --strategy recorded --surrogate nll"

COMPARISONS: dict[str, Comparison] = {
    "guess": Comparison(
        "information is worth something",
        "games/GuessNumber-v0",
        ("--turn-tokens", "8"),
        160_000,
        tuple((arm, "grpo") for arm in ("igpo", "infopo", "gigpo", "arpo", "portool")),
    ),
    "lake": Comparison(
        "states that repeat",
        "games/FrozenLake-v0",
        ("--turn-tokens", "8", "--cold-start", "400", "--cold-start-until", "0.2"),
        220_000,
        (("gigpo", "grpo"), ("hgpo", "grpo")),
    ),
    "revise": Comparison(
        "several tries with hints",
        "math/Revise-v0",
        ("--turn-tokens", "8", "--cold-start", "600", "--cold-start-until", "0.3"),
        200_000,
        (("trloo", "grpo"), ("trloo", "grpo --scale none"), ("turn_ppo", "grpo")),
    ),
    "pair": Comparison(
        "two rewards of unlike units",
        "benchmarks/support/pair.py:Pair",
        ("--turn-tokens", "12", "--cold-start-until", "0.2"),
        400_000,
        (("gdpo", "grpo"),),
    ),
    "search": Comparison(
        "information must be fetched",
        "tools/Search-v0",
        ("--turn-tokens", "16", "--lr", "2.7e-4"),
        100_000,
        (("igpo", "grpo"), ("infopo", "grpo"), ("step_search", "ppo")),
        start=("--turn-tokens", "16", "--cold-start", "4000", "--cold-start-until", "0.3"),
    ),
    "clarify": Comparison(
        "only the user knows",
        "tools/Clarify-v0",
        ("--turn-tokens", "24"),
        300_000,
        tuple((arm, "grpo") for arm in ("igpo", "infopo", "gdpo")),
    ),
    "clarify-weak-start": Comparison(
        "a start that asks for one detail",
        "tools/Clarify-v0",
        ("--turn-tokens", "24", "--lr", "1.3e-4"),
        150_000,
        tuple((arm, "grpo") for arm in ("igpo", "infopo")),
        start=(
            *("--env-arg", "missing=1", "--env-arg", "fewest=1"),
            *("--turn-tokens", "24", "--cold-start", "4000", "--cold-start-until", "0.3"),
        ),
    ),
    "desk": Comparison(
        "state, facts and policy of a customer's case",
        "tools/Support-v0",
        ("--env-arg", "case=track", "--turn-tokens", "64", "--lr", "1.3e-4"),
        600_000,
        (("gdpo", "grpo"),),
        start=("--env-arg", "case=track", "--turn-tokens", "64", "--cold-start", "8000", "--cold-start-until", "0.55"),
    ),
    # Curves are not comparable here: each arm's episodes are of another kind. Held-out success is.
    "page": Comparison(
        "recorded trajectories of a page: several boxes, after a start that ticks one",
        "web/Widgets-v0",
        (*PAGE, "--groups", "8", "--lr", "1.3e-4", "--eval-episodes", "80", "--minibatches", "1"),
        32_000,
        (("ui_s1", "grpo"), (CLONING, "grpo"), ("ui_s1", CLONING)),
        start=(*PAGE, "--env-arg", "level=0", "--cold-start", "4000", "--cold-start-until", "0.3"),
        measure="held_out",
    ),
}
COMPARISONS["clarify-weak-start-longer"] = replace(
    COMPARISONS["clarify-weak-start"],
    tokens=450_000,
    pairs=(("igpo", "grpo"),),
    about="a start that asks for one detail, longer",
)
TEAM = ("--env-arg", "size=4", "--turn-tokens", "8", "--max-tokens", "512")
COMPARISONS["plan"] = Comparison(
    "a planner and an executor",
    "multi/PlanPath-v0",
    (
        *(*TEAM, "--lr", "1.2e-4", "--schedule", "constant:warmup=3", "--minibatches", "1", "--groups", "4"),
        *("--eval-every", "8", "--eval-episodes", "100"),
    ),
    40_000,
    (
        ("at_grpo", "grpo"),
        ("at_grpo", "grpo --env-arg seat=planner"),  # one agent: the oracle in the other seat walks what it is sent
        ("at_grpo", "at_grpo --strategy turn_tree:compare=agent --credit outcome"),
        ("at_grpo", "at_grpo --strategy turn_tree:compare=all --credit outcome"),
    ),
    start=(*TEAM, "--size", "3", "--cold-start", "8000", "--cold-start-until", "0.2", "--eval-episodes", "0"),
    is_judged_apart=True,
)
COMPARISONS["plan-longer"] = replace(
    COMPARISONS["plan"], tokens=80_000, pairs=(("at_grpo", "grpo"),), about="a planner and an executor, longer"
)

SMALL_TEAM = ("--turn-tokens", "34", "--max-tokens", "512")  # the longest reply of the oracle has 17 tokens
COMPARISONS["plan-small"] = Comparison(
    "a planner and an executor on 3 x 3 cells, where training lasts",
    "multi/PlanPath-v0",
    (
        *(*SMALL_TEAM, "--lr", "1.2e-4", "--schedule", "constant:warmup=3", "--minibatches", "2", "--groups", "16"),
        *("--eval-every", "8", "--eval-episodes", "100"),
    ),
    80_000,
    (("at_grpo", "grpo"),),
    start=(*SMALL_TEAM, "--cold-start", "4000", "--cold-start-until", "0.3", "--eval-episodes", "0"),
    is_judged_apart=True,
)
COMPARISONS["plan-small-longer"] = replace(
    COMPARISONS["plan-small"],
    tokens=160_000,  # so that groups of turns train on as many as whole episodes do in half of them
    about="a planner and an executor on 3 x 3 cells, twice as long",
)
COMPARISONS["plan-small-varied"] = replace(
    COMPARISONS["plan-small"],
    pairs=(
        ("at_grpo --strategy turn_tree:select=sample", "at_grpo"),  # its states are those of plain play
        ("at_grpo --strategy turn_tree:compare=agent --credit outcome", "at_grpo"),
        ("at_grpo --strategy turn_tree:compare=all --credit outcome", "at_grpo"),
        ("at_grpo", "grpo --env-arg seat=planner"),
    ),
    about="a planner and an executor on 3 x 3 cells, one thing varied at a time",
)


def hall(about: str, *dials: str, arms: tuple[str, ...], decisive: int = 3, tokens: int = 24_000) -> Comparison:
    """A comparison on `games/Doors-v0` with these dials: 8 doors, `decisive` of which decide."""
    dials = ("turns=8", f"decisive={decisive}", "symbols=8", *dials)
    args = [word for dial in dials for word in ("--env-arg", dial)]
    shared = (*args, "--turn-tokens", "4", "--groups", "4", "--eval-episodes", "50")
    return Comparison(
        about,
        "games/Doors-v0",
        (*shared, "--lr", "3e-4", "--minibatches", "1"),
        tokens,
        tuple((arm, "grpo") for arm in arms),
        start=(*shared, "--size", "8", "--cold-start", "3000", "--cold-start-until", "0.08"),
    )


CRITIC = "turn_ppo --credit turn_gae:lam=0.5"
TWO_LEVELS = "bilevel_ppo --credit bilevel_gae:lam=0.5"
AT_ONCE = "turn_grpo --credit turn_returns:gamma=0"

COMPARISONS |= {
    "doors-late": hall(
        "the last 3 of 8 doors decide",
        "placement=late",
        arms=("gigpo", "hgpo", "graph", "arpo", "tree_grpo", CRITIC),
    ),
    "doors-late-more": hall(
        "the last 3 of 8 doors decide: two levels of advantages, and trees that fork at every turn",
        "placement=late",
        arms=(TWO_LEVELS, "portool"),
    ),
    "doors-early": hall("the first 3 of 8 doors decide", "placement=early", arms=("gigpo", "hgpo", "graph", CRITIC)),
    **{
        f"doors-early-{decisive}": hall(
            f"the first {decisive} of 8 doors decide", "placement=early", arms=("gigpo",), decisive=decisive
        )
        for decisive in (5, 8)
    },
    **{
        f"doors-unique-{percent}": hall(
            f"the first 3 of 8 doors decide, {percent} % of the states have a nonce of the replies so far",
            *("placement=early", f"unique={percent / 100}"),
            arms=arms,
        )
        for percent, arms in ((40, ("graph",)), (80, ("hgpo", "graph")))
    },
    "doors-share": hall(
        "success is drawn with the share of 3 rights", "rule=share", "placement=spread", arms=("graph",)
    ),
    "doors-pay": hall(
        "each of 3 rights is paid at once",
        *("rule=pay", "placement=spread"),
        arms=("turn_grpo", AT_ONCE, "trloo --reduce sequence_mean", "graph"),
    ),
    "doors-slip": hall(
        "a wrong letter at one of the last 3 of 8 doors ends the episode",
        *("rule=slip", "placement=late"),
        arms=("arpo", "tree_grpo", "graph"),
    ),
}
RATES = (3e-4, 6e-4, 1.2e-3)
COMPARISONS |= {
    f"doors-{place}-rates": replace(
        COMPARISONS[f"doors-{place}"],
        about=f"{COMPARISONS[f'doors-{place}'].about}: each method at the best of three rates",
        pairs=tuple((arm, "grpo") for arm in arms),
        rates=RATES,
        runs_of=f"doors-{place}",
    )
    for place, arms in (("early", ("gigpo", "graph")), ("late", ("graph", "tree_grpo", CRITIC)))
}
BY_BITS = "igpo --score none --credit information_gain:gain=bits"  # by the environment's posterior, not the policy's
SECRET = ("--turn-tokens", "4", "--groups", "4", "--eval-episodes", "50")
COMPARISONS["doors-ask"] = Comparison(
    "tests reveal a secret; the start reads evidence and asks at random",
    "benchmarks/compare/guesser.py:Guesser",
    (*SECRET, "--lr", "3e-4", "--minibatches", "1"),
    24_000,
    tuple((arm, "grpo") for arm in ("igpo", BY_BITS, "infopo")),
    start=(*SECRET, "--size", "8", "--cold-start", "3000", "--cold-start-until", "0.2"),
)
