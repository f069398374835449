"""Every file in `rl/methods/recipes`: it loads, says what it is, is a method of its own, and obeys the laws of a loss."""

from __future__ import annotations

import asyncio
import importlib
import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import combinations
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

from rl.learner.loss import policy_loss
from rl.methods import recipe as recipes
from rl.methods import streams
from rl.methods.inputs import Tokens
from rl.methods.parts import credit, score
from rl.methods.recipe import Recipe
from rl.records import Group
from tests.support.batches import ToyScorer, make_group, make_trajectory, off_policy, toy_groups

NAMES = [name for name, _ in recipes.catalogue()]
# Pairs whose gradients on the fixed batch are meant to be equal, with the reason.
# Recipes whose loss is GRPO's on this batch: they differ in which tasks and episodes there are, or in what these lack.
AS_GRPO = {
    "adhint": "none was given a hint",
    "arrol": "differs in which members are played to the end",
    "brorl": "differs in how many episodes are played",
    "dots": "differs in which tasks are drawn and groups replayed",
    "gdro_prompts": "no bin has a score",
    "gdro_rollouts": "differs in how many episodes are played",
    "greso": "differs in which tasks are drawn and groups kept",
    "infopo": "no group's outcomes agree",
    "latr": "no token was chosen",
    "m_grpo": "no agent has roles",
    "pivotrl": "differs in which groups are kept",
    "pope": "differs in how episodes begin",
    "props": "differs in how episodes begin",
    "scope_prm": "differs in what becomes of failures",
    "spec_rl": "differs in what was sampled for its replies",
    "sfpo": "differs in how often and from where its rows are learned",
    "swarm": "differs in where episodes come from",
    "tree_grpo": "no member is a fork",
    "ttrl": "differs in where rewards come from",
    "uniqueness": "no three successes of a group are not all alike",
    "vade": "differs in which tasks are drawn",
    "vcrl": "differs in which tasks are drawn and groups kept",
}
EQUAL: dict[frozenset[str], str] = {
    **{
        frozenset(pair): "each is DAPO here: the balanced interval is DAPO's"
        for pair in combinations(("bapo", "dapo", "rlep"), 2)
    },
    frozenset(("cispo", "cispo_sampler")): "differ where ratios are decoupled from the sampler's record",
    frozenset(("seeupo", "seeupo_agents")): "differ in the phases of an update",
    **{frozenset(("grpo", name)): reason for name, reason in AS_GRPO.items()},
    **{frozenset(pair): "each is GRPO here" for pair in combinations(AS_GRPO, 2)},
}
CRITICS = ["bilevel_ppo", "decoupled_ppo", "jade", "ppo", "step_search", "turn_ppo"]
UNCOMPARED = [
    "archer",
    "mssr",
    "v05",
    "reinforce",
    "reinforce_pp",
    "digiq",
    "pa_rl",
    "otr",
    "scope_opd",
    "spiral",
    *CRITICS,
]  # no reward is compared in its group alone
# Credit in which a constant added to returns is one, for those whose own choice discounts it or scales with it.
UNDISCOUNTED = {
    "gigpo": partial(credit.anchored, gamma=1.0),
    "hgpo": partial(credit.hierarchical, gamma=1.0),
    "igpo": partial(credit.information_gain, among="separate"),
    "portool": partial(credit.forked, gamma=1.0),
    "ui_s1": partial(credit.matched_returns, gamma=1.0),
}
# The constant lies on the last turn only; it turns failures into successes; averages begin at 0; rewards are divided by
# their mean; they are rates of success.
ABSOLUTE = ["at_grpo", "grpo_roc", "spiral", "maxrl", "stepwiser"]
IN_ORDER = ["digiq", "pa_rl", "grpo_roc", "spiral"]  # they take the first of equal ones; average the members one by one
TABLES = ("old", "adv", "entropy", "ref", "value", "old_value", "returns", "behaviour")
every_recipe = pytest.mark.parametrize("name", NAMES)


def module(name: str) -> ModuleType:
    return importlib.import_module(f"rl.methods.recipes.{name}")


def parent(name: str) -> str | None:
    """The recipe that a recipe's file imports and states its difference from."""
    imported = [
        getattr(value, "__name__", "") for value in vars(module(name)).values() if isinstance(value, ModuleType)
    ]
    result = [full.removeprefix("rl.methods.recipes.") for full in imported if full.startswith("rl.methods.recipes.")]
    assert len(result) <= 1, f"{name} has several parents: {result}"
    return result[0] if result else None


@cache
def gradient(name: str) -> Tensor:
    batch = off_policy(toy_groups(), recipes.load(name))
    policy_loss(batch, recipes.load(name)).backward()
    assert batch.logp.grad is not None
    return batch.logp.grad


def fill_streams(recipe: Recipe, groups: list[Group]) -> None:
    """Fill the streams that an update would compute for the recipe's credit, but for a critic's."""
    for fill in streams.score_parts(recipe):
        if fill in (score.square, score.proximal, score.gradient_norm, score.staleness, score.teacher):
            asyncio.run(fill(ToyScorer(), groups))


def same_choice(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes hold the same functions with the same options."""

    def content(recipe: Recipe) -> list[tuple]:
        return [(place, getattr(p, "func", p), getattr(p, "keywords", {})) for place, p in recipe.parts()]

    return content(one) == content(other)


@every_recipe
def test_a_recipe_survives_being_written_as_words(name: str) -> None:
    recipe = recipes.load(name)
    assert same_choice(Recipe().but(**recipes.parse(recipes.words(recipe))), recipe)


@every_recipe
def test_a_recipe_names_its_source_and_its_deviations(name: str) -> None:
    text = module(name).__doc__ or ""
    first = text.partition("\n")[0]
    assert re.search(r"arXiv:\d{4}\.\d{5}|\b(19|20)\d\d\b", first)
    assert "\nDeviations: " in text
    assert dict(recipes.catalogue())[name] == first


@every_recipe
def test_a_recipe_has_a_finite_gradient_on_sampled_tokens_only(name: str) -> None:
    batch = off_policy(toy_groups(), recipes.load(name))
    result = gradient(name)
    assert torch.isfinite(result).all()
    assert result.abs().sum() > 0
    assert (result[~batch.mask] == 0).all()


@pytest.mark.parametrize("name", [name for name in NAMES if parent(name)])
def test_a_recipe_differs_from_its_parent(name: str) -> None:
    other = parent(name)
    assert other is not None
    assert not same_choice(recipes.load(name), recipes.load(other))
    if frozenset((name, other)) not in EQUAL:
        assert gradient(name).shape != gradient(other).shape or not torch.allclose(
            gradient(name), gradient(other), atol=1e-6
        )


def test_no_two_recipes_have_the_same_gradient_unless_declared() -> None:
    equal = {
        frozenset((a, b))
        for a, b in combinations(NAMES, 2)
        if gradient(a).shape == gradient(b).shape and torch.allclose(gradient(a), gradient(b), atol=1e-6)
    }
    assert equal == EQUAL.keys()


S = 0.5 / (math.sqrt(0.5) + 1e-6)  # the standardised reward of the better of two
T = 0.99 * 0.3 - 0.99 * 0.9 * 0.3  # the return of a lost first turn, with a value of 0.3 before the second
U = (lambda earned: (earned - earned.mean()) / earned.std(ddof=1))(np.array([0.9, T - 0.1, T - 0.1, -0.3]))


@pytest.mark.parametrize(
    "name, loss",
    [
        ("reinforce", lambda logp: -1 / 2),
        ("rloo", lambda logp: (-1 + 3) / 2),
        ("opo", lambda logp: (-0.75 + 3 * 0.25) / 2),
        ("grpo", lambda logp: S * (-1.2 + (0.8 + 1 + 1) / 3) / 2),
        ("dr_grpo", lambda logp: 0.5 * (-1.2 + 0.8 + 1 + 1) / (2 * 1024)),
        ("dapo", lambda logp: S * (-1.28 + 0.8 + 1 + 1) / 4),
        ("gspo", lambda logp: S * (-1.0004 + 0.9997) / 2),
        ("cispo", lambda logp: S * (-1.5 * logp[0] + 0.5 * logp[1] + logp[2] + logp[3]) / 4),
        ("reinforce_pp", lambda logp: (-1.2 * 0.75 + (0.8 + 1 + 1) * 0.25) / (4 * 0.5)),
        ("reinforce_pp_baseline", lambda logp: (-1.2 * 0.75 + (0.8 + 1 + 1) * 0.25) / (4 * 0.5)),
        ("turn_grpo", lambda logp: S * (-1.2 + (0.8 + 1 + 1) / 3) / 2),
        ("trloo", lambda logp: (-1.28 + 0.8 + 1 + 1) / 2),
        ("erloo", lambda logp: (-1.28 + (0.8 + 1 + 1) * 0.5) / 2),
        ("at_grpo", lambda logp: S * (-1.2 + (0.8 + 1) / 3) / 2),
        ("flow_grpo", lambda logp: S * (-1.3 + (0.8 + 1) / 2 + 1) / 3),
        ("gigpo", lambda logp: (-1.2 + (0.8 + 1 + 0.5) / 3) / 2),
        ("hgpo", lambda logp: 0.475 / (0.475 + 1e-6) * 2 / (2 + 1e-6) * (-1.2 + (0.8 + 1) / 3) / 2),
        ("gdpo", lambda logp: S / (math.sqrt(2) * S + 1e-6) * (-1.2 + (0.8 + 1 + 1) / 3) / 2),
        (
            "turn_ppo",  # turns' first values 0.1 | 0.1 0.3; the ratio of two tokens is the root of 0.5, outside the clip
            lambda logp: (
                (-1.2 * U[0] - max(0.8, math.sqrt(0.5)) * (U[1] + U[2]) - U[3]) / 4
                + 0.5 * 0.5 * (0.9**2 + (T - 0.1) ** 2 + (T - 0.2) ** 2 + 0.3**2) / 4
            ),
        ),
        (
            "ppo",  # values 0.1 | 0.1 0.2 0.3, returns 1 | 0 0 0
            lambda logp: (
                (-1.2 * 0.825 + 0.8 * 0.175 + 0.275 + 0.375) / (4 * np.std([0.9, -0.1, -0.2, -0.3], ddof=1))
                + 0.5 * 0.5 * (0.9**2 + 0.1**2 + 0.2**2 + 0.3**2) / 4
            ),
        ),
    ],
)
def test_a_recipe_gives_the_loss_worked_out_by_hand(name: str, loss: Callable[[list[float]], float]) -> None:
    """One token won and moved to ratio 1.5; three tokens lost, the first of them at ratio 0.5."""
    group = make_group(make_trajectory((1, 1.0)), make_trajectory((2, 0.0), (1, 0.0)))
    for turn, values in zip(group.trajectories[1].turns, [(0, 1), (2,)], strict=True):
        turn.completion = replace(turn.completion, ids=values)  # where the toy critic sees 0.1, 0.2 and 0.3
    batch = off_policy([group], recipes.load(name), moved=[math.log(1.5), math.log(0.5), 0.0, 0.0])
    result = policy_loss(batch, recipes.load(name))
    assert result.item() == pytest.approx(loss(batch.logp[batch.mask].tolist()), rel=1e-6, abs=1e-9)


def rows_of(batch: Tokens, rows: slice) -> Tokens:
    """A micro-batch: some rows, with their shares of the whole step."""
    cut = {
        field: value[rows]
        for field in (*TABLES, "mask", "share", "logp")
        if isinstance(value := getattr(batch, field), Tensor)
    }
    marks = batch.labels
    cut["logp"] = cut["logp"].detach().requires_grad_()
    return replace(
        batch,
        **cut,
        streams={name: table[rows] for name, table in batch.streams.items()},
        labels=replace(marks, trajectory=marks.trajectory[rows], group=marks.group[rows], turn=marks.turn[rows]),
    )


@every_recipe
def test_micro_batches_add_up_to_the_whole_step(name: str) -> None:
    recipe = recipes.load(name)
    batch = off_policy(toy_groups(), recipe)
    parts = [rows_of(batch, rows) for rows in (slice(0, 1), slice(1, 6), slice(6, None))]
    losses = [policy_loss(part, recipe) for part in parts]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(torch.stack(losses).sum(), policy_loss(batch, recipe))
    torch.testing.assert_close(torch.cat([part.logp.grad for part in parts]), gradient(name))


@every_recipe
def test_what_was_not_sampled_is_never_read(name: str) -> None:
    recipe = recipes.load(name)
    batch = off_policy(toy_groups(), recipe)
    junk = torch.where(batch.mask, 0.0, 7.0)
    changes = {field: getattr(batch, field) + junk for field in TABLES if getattr(batch, field) is not None}
    streams = {name: table + junk for name, table in batch.streams.items() if not name.startswith("step ")}
    changed = replace(batch, **changes, streams=streams, logp=(batch.logp.detach() - junk).requires_grad_())
    policy_loss(changed, recipe).backward()
    torch.testing.assert_close(changed.logp.grad, gradient(name))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in IN_ORDER])
def test_permuting_the_members_of_groups_permutes_their_credit(name: str) -> None:
    def credited(order: list[int]) -> list[list[np.ndarray]]:
        groups, recipe = toy_groups(), recipes.load(name)
        for group in groups:
            group.trajectories = [group.trajectories[i] for i in order]
            group.rewards = [group.rewards[i] for i in order]
            for turn in (turn for member in group.trajectories for turn in member.turns):
                turn.streams["value"] = turn.streams["reply_advantage"] = (0.5,) * len(turn.completion.ids)
            fill_streams(recipe, groups)
        return recipe.credit(groups, recipe.normalization)

    order = [2, 0, 3, 1]
    for straight, permuted in zip(credited([0, 1, 2, 3]), credited(order), strict=True):
        for place, i in enumerate(order):
            np.testing.assert_allclose(permuted[place], straight[i], atol=1e-12)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in UNCOMPARED])
def test_a_group_without_variance_and_a_group_of_one_earn_exactly_nothing(name: str) -> None:
    recipe = recipes.load(name)
    same = [make_group(*(make_trajectory((2, 0.0), (n, 0.1)) for n in (1, 2, 3)), number=k) for k in range(3)]
    alone = make_group(make_trajectory((2, 0.7)), number=3)
    fill_streams(recipe, [*same, alone])
    for credits in recipe.credit([*same, alone], recipe.normalization):
        assert all((tokens == 0).all() for tokens in credits)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (*UNCOMPARED, *ABSOLUTE)])
def test_a_constant_added_to_all_returns_changes_no_advantage(name: str) -> None:
    recipe = recipes.load(name)
    recipe = recipe.but(credit=UNDISCOUNTED.get(name, recipe.credit))
    plain, raised = toy_groups(), toy_groups()
    for played in raised:
        played.rewards = [reward + 5.0 for reward in played.rewards]
    fill_streams(recipe, plain)
    fill_streams(recipe, raised)
    for one, other in zip(
        recipe.credit(plain, recipe.normalization), recipe.credit(raised, recipe.normalization), strict=True
    ):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


def test_only_some_recipes_ask_for_a_critic_or_a_reference() -> None:
    assert [name for name in NAMES if streams.needs(recipes.load(name), "value")] == CRITICS
    assert [name for name in NAMES if streams.needs(recipes.load(name), "ref")] == ["ace", "remix"]
