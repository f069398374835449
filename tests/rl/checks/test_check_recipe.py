"""The dry call of a recipe: it passes what is bundled, and names what is wrong with a broken part in one line."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from envs.types import user
from rl.checks import RecipeFault, Sample, check_recipe, learns_from_single_episodes
from rl.methods import recipe as recipes
from rl.methods.parts import baseline, credit, keep, needs, phases, scale, shape, strategy, surrogate
from rl.methods.recipe import MANY, SLOTS, Recipe
from rl.records import Group
from tests.support.paths import ROOT
from tests.support.runs import train, training_error

NAMES = [name for name, _ in recipes.catalogue()]
PARTS = [
    (slot, name) for slot in SLOTS for name in recipes.parts_of(importlib.import_module(f"rl.methods.parts.{slot}"))
]
OPTIONS = {("reduce", "constant"): ":length=32", ("sampler", "in_reach"): ":kinds=2"}  # which have no default
READERS = {
    "gae_with_gain": "step_search",
    "value_error": "ppo",
    "scored": "archer",
    "beta_value": "mssr",
    "minimum_variance": "vcpo",
    "optimal_token": "otb",
    "group_median": "mc_grpo",
    "adaptive_clip": "bapo",
    "covariance": "kl_cov",
    "interpolated_tis": "areal",
    "best_replies": "digiq",
    "improved_policy": "pa_rl",
}  # parts that need others beside them
SIZES = {"mssr": 1}  # of a group, where a recipe asks for one


@pytest.mark.parametrize("name", NAMES)
def test_every_bundled_recipe_passes(name: str) -> None:
    check_recipe(recipes.load(name), size=SIZES.get(name, 4))


@pytest.mark.parametrize("slot, name", PARTS)
def test_every_bundled_part_passes_in_a_plain_recipe(slot: str, name: str) -> None:
    text = name + OPTIONS.get((slot, name), "")
    reader = READERS.get(name, "grpo")
    check_recipe(recipes.load(reader).but(**recipes.parse({slot: text})), size=SIZES.get(reader, 4))


@pytest.mark.parametrize("size", [1, 2, 16])
@pytest.mark.parametrize("name", ["arpo", "mcts", "pivotrl", "rlep", "seeupo", "tree_opo", "ui_s1"])
def test_recipes_that_play_in_their_own_way_pass_at_any_size(name: str, size: int) -> None:
    check_recipe(recipes.load(name), size=size)


def test_toy_groups_differ_in_every_way_that_a_part_could_read() -> None:
    seen: list[Group] = []

    def look(groups, norm):
        seen.extend(groups)
        return credit.outcome(groups, norm)

    for name in ("grpo", "pivotrl", "ui_s1", "mcts", "rlep"):
        seen.clear()
        check_recipe(recipes.load(name).but(credit=look))
        assert len(seen) == 4 and all(len(set(group.rewards)) > 1 for group in seen), name
        members = [trajectory for group in seen for trajectory in group.trajectories]
        turns = [turn for trajectory in members for turn in trajectory.turns]
        assert len({len(turn.completion.ids) for turn in turns}) > 1
        assert len({turn.state for turn in turns}) > 1 or name == "pivotrl"
        assert {turn.valid for turn in turns} == {True, False} or name == "pivotrl"
        assert all(trajectory.answer == "7" for trajectory in members)
        if name == "grpo":
            assert len({len(trajectory.turns) for trajectory in members}) > 1
            assert any(turn.fresh for turn in turns)
        assert any(trajectory.replayed for trajectory in members) == (name == "rlep")
        assert any(trajectory.fork for trajectory in members) == (name == "mcts")


def test_the_toy_shows_what_the_run_s_environment_shows() -> None:
    sample = Sample((user("which?"),), "level=3", {"key": "right"})

    def own(groups, norm):
        for turn in (turn for group in groups for t in group.trajectories for turn in t.turns):
            assert turn.state.split("=")[1] == "3"
            assert turn.metrics["speed of light"] >= 0 and turn.rewards.get("style") is not None
        assert groups[0].trajectories[0].answer["key"] == "right"
        assert groups[0].trajectories[0].turns[0].observation[0]["content"] == "which?"
        return credit.outcome(groups, norm)

    check_recipe(Recipe(credit=own), sample=sample)
    check_recipe(Recipe(credit=partial(credit.information_gain, gain="speed of light")), sample=sample)
    check_recipe(Recipe(credit=partial(credit.decoupled, weights="style:2")), sample=sample)
    with pytest.raises(RecipeFault, match=r"credit anchored: .*must give info\['state'\]"):
        check_recipe(Recipe(credit=credit.anchored), sample=Sample(state=""))


# Broken parts. Each is a function of the slot named before it.


def short(groups, norm):
    return [[array[1:] for array in of_group] for of_group in credit.outcome(groups, norm)]


def per_trajectory(groups, norm):
    return [[1.0 for _ in group.trajectories] for group in groups]


def one_group(groups, norm):
    return credit.outcome(groups, norm)[:1]


def nan_credit(groups, norm):
    return [[array * np.nan for array in of_group] for of_group in credit.outcome(groups, norm)]


def reads_values(groups, norm):
    return [[np.concatenate([turn.streams["value"] for turn in t.turns]) for t in g.trajectories] for g in groups]


def rewrites_rewards(groups, norm):
    for group in groups:
        group.rewards[0] = 9.0
    return credit.outcome(groups, norm)


def scalar_loss(log_ratio, tokens):
    return (-log_ratio.exp() * tokens.adv).mean()


def per_row(log_ratio, tokens):
    return (-log_ratio.exp() * tokens.adv).sum(-1, keepdim=True)


def detached(log_ratio, tokens):
    return -log_ratio.detach().exp() * tokens.adv


def nan_loss(log_ratio, tokens):
    return -log_ratio.exp() * tokens.adv + (tokens.adv - 100).sqrt()


def integer_loss(log_ratio, tokens):
    return (log_ratio * tokens.adv).long()


def in_place(log_ratio, tokens):
    tokens.adv.clamp_(min=0.0)
    return -log_ratio.exp() * tokens.adv


def numpy_loss(log_ratio, tokens):
    return -tokens.adv.numpy()


def infinite_gradient(log_ratio, tokens):
    return -(tokens.logp - tokens.logp.detach()).abs().sqrt() * tokens.adv


def no_tokens(log_ratio):
    return -log_ratio


def kl_without_needs(tokens):
    return 0.1 * (tokens.logp - tokens.ref)


def entropy_without_needs(tokens):
    return -0.1 * tokens.entropy


@needs("value")
def misspelt(tokens):
    return tokens.vaule


def constant_penalty(tokens):
    return torch.ones_like(tokens.logp)


def with_gradient(tokens):
    return (tokens.logp - tokens.old).exp()


def floats(task_history, rng):
    return 0.5


def out_of_range(history, rng):
    return history.num_tasks


def draws_itself(history, rng):
    history.draws[0] += 1
    return 0


def silent(group):
    sum(group.rewards)


def mean_reward(group):
    return sum(group.rewards) / len(group.rewards)


def doubled(group):
    return group.rewards * 2


def mean_baseline(rewards, group, lengths):
    return rewards.mean()


def centres(rewards, group, lengths):
    rewards -= rewards.mean()
    return np.zeros_like(rewards)


def divides(advantages, rewards, group):
    with np.errstate(all="ignore"):
        return advantages / np.zeros_like(rewards)


def texts(advantages, rewards, group):
    return advantages.astype(str)


async def no_group(runner, ticket):
    return (await strategy.independent(runner, ticket))[0]


async def other_ticket(runner, ticket):
    return await strategy.independent(runner, replace(ticket, number=99))


async def sleeps(runner, ticket):
    await asyncio.sleep(1000)


async def crashes(runner, ticket):
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(runner.no_such_method())


async def half_a_stream(scorer, groups):
    for turn in (turn for group in groups for t in group.trajectories for turn in t.turns):
        turn.streams["mine"] = (0.5,)


def not_async(scorer, groups):
    return None


def returns_rows(rows, logprobs):
    return [rows]


def yields_rows(rows, logprobs):
    yield from rows


def no_rows(rows, logprobs):
    yield []


def unmasked(mask, labels):
    return torch.full_like(mask, 1 / mask.numel())


def number(mask, labels):
    return 1 / mask.sum()


def negative(update, total):
    return -1.0 if update else 1.0


def nothing(update, total):
    pass


BROKEN: list[tuple[str, Callable[..., Any], str]] = [
    ("credit", short, r"returned an array of shape \(\d+,\).*, expected an array of shape \(\d+,\), one number per sampled"),
    ("credit", per_trajectory, r"returned float 1.0, expected an array of shape"),
    ("credit", one_group, r"returned a list of length 1, expected a list with an entry for each of 4 groups"),
    ("credit", nan_credit, r"returned nan among its numbers"),
    ("credit", reads_values, r"""reads the stream 'value', which .* @needs\("value"\)"""),
    ("credit", rewrites_rewards, r"changes the groups that it is given"),
    ("credit", credit.scored, r"reads the stream 'reply_advantage', which \d+ of \d+ turns lack"),
    ("surrogate", scalar_loss, r"returned a tensor of shape \(\) and type float32, expected .*one number per token"),
    ("surrogate", per_row, r"returned a tensor of shape \(\d+, 1\)"),
    ("surrogate", detached, r"the loss has no gradient on any token"),
    ("surrogate", nan_loss, r"returned nan among its numbers"),
    ("surrogate", integer_loss, r"type int64, expected floating-point numbers"),
    ("surrogate", in_place, r"changes tokens\.adv that it is given"),
    ("surrogate", numpy_loss, r"returned an array of shape .*, expected a tensor"),
    ("surrogate", infinite_gradient, r"a gradient that is not finite"),
    ("surrogate", no_tokens, r"is called with \(log_ratio, tokens\): too many positional arguments"),
    ("penalty", kl_without_needs, r"""reads tokens\.ref, which .* @needs\("ref"\)"""),
    ("penalty", entropy_without_needs, r"""gradient of tokens\.entropy.* @needs\("entropy"\)"""),
    ("penalty", misspelt, r"raised AttributeError: .*vaule.* \(.*test_check_recipe\.py, line \d+\) on toy episodes"),
    ("penalty", constant_penalty, r"returned losses without a gradient"),
    ("ratio", lambda tokens: tokens.logp.sum(-1), r"ratio <lambda>: returned a tensor of shape \(\d+,\)"),
    ("select", with_gradient, r"end with `\.detach\(\)`"),
    ("sampler", floats, r"returned float 0\.5, expected the index of a task"),
    ("sampler", out_of_range, r"returned int 5, expected the index"),
    ("sampler", draws_itself, r"changes the history"),
    ("shape", silent, r"returned None, expected a list of 4 numbers, one per trajectory"),
    ("shape", mean_reward, r"returned float .*, expected a list of 4 numbers"),
    ("shape", doubled, r"returned a list of length 8"),
    ("keep", silent, r"returned None, expected True or False"),
    ("baseline", mean_baseline, r"returned the number 0\.5625, expected an array of shape \(8,\)"),
    ("baseline", centres, r"changes the arrays"),
    ("scale", divides, r"returned -?(inf|nan) among its numbers"),
    ("scale", texts, r"expected real numbers"),
    ("strategy", no_group, r"returned a Group, expected a list with the Group of its ticket"),
    ("strategy", other_ticket, r"returned the Group of another ticket"),
    ("strategy", crashes, r"raised AttributeError: .*no_such_method"),
    ("score", half_a_stream, r"filled the stream 'mine' of a turn with 1 numbers for \d tokens"),
    ("score", not_async, r"define the part with `async def`"),
    ("phases", returns_rows, r"returned a list of length 1, expected an iterator"),
    ("phases", yields_rows, r"yielded a Row, expected a list of rows"),
    ("phases", no_rows, r"yielded no rows"),
    ("reduce", unmasked, r"gives a share to tokens that were not sampled"),
    ("reduce", number, r"returned a tensor of shape \(\)"),
    ("schedule", negative, r"returned float -1\.0 for update 1 of 10"),
    ("schedule", nothing, r"returned None for update 0"),
]  # fmt: skip


@pytest.mark.parametrize("slot, part, message", BROKEN, ids=[f"{slot}-{part.__name__}" for slot, part, _ in BROKEN])
def test_a_broken_part_is_named_with_what_it_did_and_what_is_expected(slot: str, part: Callable, message: str) -> None:
    recipe = Recipe().but(**{slot: (part,) if slot in MANY else part})
    with pytest.raises(RecipeFault, match=message) as fault:
        check_recipe(recipe)
    assert str(fault.value).startswith(f"{slot} {part.__name__}: ")
    assert "\n" not in str(fault.value)


def test_a_strategy_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl.checks.records.DEADLINE_S", 0.05)
    with pytest.raises(RecipeFault, match="strategy sleeps: did not end within"):
        check_recipe(Recipe(strategy=sleeps))


def test_parts_that_do_not_fit_each_other_are_found() -> None:
    with pytest.raises(RecipeFault, match=r"credit turn_returns: .*group_std"):
        check_recipe(recipes.load("turn_grpo").but(scale=scale.bounded_std))
    with pytest.raises(RecipeFault, match=r"penalty value_error: .*returns, which this batch lacks"):
        check_recipe(recipes.load("grpo").but(**recipes.parse({"penalty": "value_error"})))


@dataclass
class counting:
    """A baseline with state."""

    calls: list[int] = field(default_factory=list)

    def __call__(self, rewards, group, lengths):
        """Count the call."""
        self.calls.append(len(rewards))
        return baseline.group_mean(rewards, group, lengths)

    def state_dict(self) -> dict[str, Any]:
        """Return the calls."""
        return {"calls": self.calls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the calls."""
        self.calls = list(state["calls"])


def test_the_check_leaves_the_recipe_and_the_global_generator_as_they_were() -> None:
    part = counting()
    before = torch.random.get_rng_state()
    check_recipe(Recipe(baseline=part))
    assert not part.calls
    assert torch.equal(torch.random.get_rng_state(), before)


def harmless() -> list[Recipe]:
    """Recipes that are unusual, and right."""
    late = Recipe(select=(lambda tokens: tokens.mask & (tokens.entropy > 99),))  # a Boolean weight, 0 on all tokens
    none = Recipe(credit=lambda groups, norm: [[0 * array for array in of] for of in credit.outcome(groups, norm)])
    return [
        late,
        none,
        Recipe(keep=lambda group: False),
        Recipe(surrogate=surrogate.nll, credit=none.credit),
        Recipe(surrogate=lambda log_ratio, tokens: torch.zeros_like(log_ratio)).but(
            **recipes.parse({"penalty": "kl_k2"})
        ),
        Recipe().but(**recipes.parse({"penalty": "kl_k2:coef=0.0"})),
        Recipe(shape=(lambda group: np.array(group.rewards),)),
        Recipe(phases=partial(phases.by_turn, order="forward"), shape=(shape.invalid_turns,), keep=keep.varied),
    ]


@pytest.mark.parametrize("number", range(8))
def test_a_recipe_that_is_only_unusual_passes(number: int) -> None:
    check_recipe(harmless()[number])


def test_methods_that_compare_members_do_not_learn_from_single_episodes() -> None:
    singles = {name for name in NAMES if learns_from_single_episodes(recipes.load(name))}
    critics = {"archer", "bilevel_ppo", "digiq", "decoupled_ppo", "jade", "ppo", "step_search", "turn_ppo"}
    assert singles == critics | {"mssr", "otr", "reinforce", "reinforce_pp", "scope_opd", "spiral"}


def test_the_check_on_records_needs_no_torch() -> None:
    code = (
        "import sys; from rl.checks import learns_from_single_episodes as f; from rl.methods import recipe as r; "
        "f(r.load('ppo')); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


METHOD = '''"""A method of one's own."""

from rl.recipes import grpo


def scalar(log_ratio, tokens):
    """A loss that would broadcast."""
    return -(log_ratio.exp() * tokens.adv).mean()


recipe = grpo.recipe.but(surrogate=scalar)
'''


@pytest.mark.parametrize("words", ["", "--dry-run"])
def test_a_run_ends_in_that_line_before_there_is_anything_to_lose(words: str, tmp_path: Path) -> None:
    method, out = tmp_path / "mine.py", tmp_path / "run"
    method.write_text(METHOD)
    command = ["--env", "math/Arithmetic-v0", "--algo", str(method), "--out", str(out), *words.split()]
    message = training_error(*command)
    assert message.startswith("surrogate scalar: returned a tensor of shape ()")
    assert not out.exists()
    mended = tmp_path / "mended.py"
    mended.write_text(METHOD.replace(".mean()", ""))
    assert train("--env", "math/Arithmetic-v0", "--algo", str(mended), "--dry-run").code == 0


def test_what_is_no_recipe_is_refused_with_the_way_to_load_one():
    for value in (None, "grpo"):
        with pytest.raises(RecipeFault, match=f"{value!r} is no Recipe; rl.methods.recipe.load"):
            check_recipe(value)


def test_a_misspelt_public_name_is_told_the_nearest():
    import rl.parts
    import rl.recipes

    with pytest.raises(AttributeError, match=r"unknown recipe 'grop'; did you mean '[a-z_]*grpo'"):
        rl.recipes.grop  # noqa: B018
    with pytest.raises(AttributeError, match=r"unknown slot 'penaltys'; did you mean 'penalty'"):
        rl.parts.penaltys  # noqa: B018
