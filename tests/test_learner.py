"""An update: what it measures, which way it moves, and that it can be stopped, saved and repeated."""

import asyncio
import io
import math
from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from toy_models import LEAN, OTHER, model, shaken, teacher_forced
from toy_play import invented_groups, sampled_groups

from rl import batch
from rl.diagnostics import warnings
from rl.learner import Learner
from rl.parts import baseline, penalty, ratio, reduce, score, surrogate
from rl.policy.hf import HFPolicy
from rl.recipe import Recipe
from rl.recipes.grpo import recipe as grpo
from rl.recipes.ppo import recipe as ppo

PLAIN = Recipe(baseline=baseline.none, ratio=ratio.on_policy, surrogate=surrogate.linear, reduce=reduce.token_mean)
SPECIAL = {
    "granite": {"logits_scaling": 3.0},
    "cohere": {"logit_scale": 0.3},
    "gemma2": {"final_logit_softcapping": 2.0},
}


def rows(recipe=grpo, groups=None, **more):
    return batch.build(groups or invented_groups(), recipe, **more)


def weights(net):
    return torch.cat([weight.detach().flatten() for weight in net.parameters()])


def trajectories(groups):
    return [trajectory for group in groups for trajectory in group.trajectories]


def flat(numbers):
    return [x for turns in numbers for turn in turns for x in turn]


def recorded(groups):
    return [x for t in trajectories(groups) for turn in t.turns for x in turn.completion.logprobs]


# What it measures


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("kind", [*LEAN, *OTHER, *SPECIAL])
def test_on_fresh_samples_the_learner_agrees_with_the_sampler(kind, temperature):
    net = model(kind, **SPECIAL.get(kind, {}))
    groups = sampled_groups(HFPolicy(net), groups=2, size=3, temperature=temperature)
    learner = Learner(net, lr=1e-3, temperature=temperature)
    np.testing.assert_allclose(flat(learner.logprobs(trajectories(groups))), recorded(groups), atol=1e-4)
    seen = learner.update(rows(grpo, groups, temperature=temperature), grpo)
    assert 0 <= seen["kl/sampler_trainer"] < 1e-8
    assert seen["ratio/mean"] == pytest.approx(1.0, abs=1e-4)
    assert seen["ratio/log_max"] < 1e-4
    assert seen["ratio/outside"] == 0
    assert seen["tokens/trained"] == sum(t.num_sampled for t in trajectories(groups))


def test_a_temperature_that_is_not_recorded_shows_as_a_mismatch():
    net = model()
    groups = sampled_groups(HFPolicy(net), temperature=0.7)
    seen = Learner(net, lr=0.0).update(rows(grpo, groups), grpo)
    assert seen["kl/sampler_trainer"] > 1e-3
    assert any("disagree" in line for line in warnings(seen, lag=0))


def test_entropy_is_that_of_the_sampled_distribution():
    net = model()
    groups = invented_groups()
    for temperature in (1.0, 0.5):
        seen = Learner(net, lr=0.0).update(rows(grpo, groups, temperature=temperature), grpo)
        entropies = []
        for trajectory in trajectories(groups):
            for history in trajectory.sequences():
                with torch.no_grad():
                    logits = net(input_ids=torch.tensor([history.ids])).logits[0] / temperature
                every = torch.distributions.Categorical(logits=logits).entropy()
                entropies += [float(every[i - 1]) for i, mine in enumerate(history.sampled) if mine]
        assert seen["entropy"] == pytest.approx(np.mean(entropies), rel=1e-4)


def test_the_mismatch_is_measured_before_the_first_weight_moves():
    net = model()
    groups = sampled_groups(HFPolicy(net))
    seen = Learner(net, lr=1e-2, epochs=4, minibatches=1).update(rows(grpo, groups), grpo)
    assert seen["kl/sampler_trainer"] < 1e-8
    assert seen["ratio/log_max"] > 0.01
    assert seen["tokens/trained"] == 4 * sum(t.num_sampled for t in trajectories(groups))


def test_micro_batches_change_no_measurement():
    found = [Learner(model(), lr=1e-3, microbatch_tokens=budget).update(rows(), grpo) for budget in (1, 30, 10**6)]
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-3, abs=1e-6)


# Which way it moves


@pytest.mark.parametrize("sign", [1, -1])
def test_an_advantage_moves_the_probability_of_its_tokens_its_way(sign):
    net = model()
    groups = invented_groups()[:1]
    groups[0].rewards = [sign, 0.0, 0.0]
    learner = Learner(net, lr=1e-3)
    before = learner.logprobs(trajectories(groups))
    learner.update(rows(PLAIN, groups), PLAIN)
    after = learner.logprobs(trajectories(groups))
    assert sign * (sum(flat(after[:1])) - sum(flat(before[:1]))) > 0.1


def test_tokens_that_were_not_sampled_are_not_trained():
    """The only token of a context is changed: had it been a target, the gradient would be that of another token."""
    groups = invented_groups()[2:]
    found = []
    for last in (3, 4):
        net = model()
        turns = [replace(turn, context=(*turn.context[:-1], 9)) for turn in groups[0].trajectories[0].turns]
        completion = turns[0].completion
        turns.append(replace(turns[0], context=(last,), completion=replace(completion, ids=(), logprobs=())))
        groups[0].trajectories = [replace(groups[0].trajectories[0], turns=turns)]
        Learner(net, lr=1e-3).update(rows(PLAIN, groups), PLAIN)
        found.append(weights(net))
        groups[0].trajectories[0].turns.pop()
    assert torch.equal(*found)


@pytest.mark.parametrize("recipe", [grpo, ppo], ids=["grpo", "ppo"])
def test_a_solvable_toy_is_solved(recipe):
    net = model()
    policy = HFPolicy(net)
    learner = Learner(net, lr=1e-2, critic=recipe is ppo, epochs=2, minibatches=2)
    rewards = []
    for update in range(25):
        groups = sampled_groups(policy, seed=update)
        rewards.append(np.mean([t.reward for t in trajectories(groups)]))
        for part in recipe.score:
            asyncio.run(part(learner, groups))
        seen = learner.update(rows(recipe, groups), recipe, seed=update)
        assert seen["kl/sampler_trainer"] < 1e-6
        policy.refresh()
    assert np.mean(rewards[:2]) < 0.2
    assert np.mean(rewards[-5:]) > 1.2  # of 2, one per turn


def test_the_learning_rate_is_scaled_and_zero_moves_nothing():
    net = model()
    learner = Learner(net, lr=1e-3)
    still = weights(net)
    learner.update(rows(), grpo, scale=0.0)
    assert torch.equal(weights(net), still)
    learner = Learner(net, lr=1e-3)
    learner.update(rows(), grpo, scale=0.5)
    assert float((weights(net) - still).abs().max()) == pytest.approx(5e-4, rel=1e-2)


def test_a_long_gradient_is_cut_to_its_largest_norm():
    net = model()
    learner = Learner(net, lr=1e-3, max_grad_norm=0.01)
    seen = learner.update(rows(), grpo)
    assert seen["grad_norm"] > 0.01
    norm = torch.cat([weight.grad.flatten() for weight in net.parameters()]).norm()
    assert float(norm) == pytest.approx(0.01, rel=1e-3)


def test_dropout_is_off_or_the_trainer_would_be_another_policy():
    net = model("gpt2", resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5).train()
    groups = sampled_groups(HFPolicy(net), groups=1, size=2)
    assert Learner(net, lr=0.0).update(rows(grpo, groups), grpo)["kl/sampler_trainer"] < 1e-8


# Steps


def steps_of(learner):
    return {int(state["step"]) for state in learner.optimizer.state.values()}


@pytest.mark.parametrize(("epochs", "minibatches", "steps"), [(1, 1, 1), (3, 1, 3), (2, 3, 6), (1, 8, 3)])
def test_an_update_makes_epochs_times_minibatches_steps(epochs, minibatches, steps):
    net = model()
    learner = Learner(net, lr=1e-4, epochs=epochs, minibatches=minibatches)
    seen = learner.update(rows(), grpo)
    assert steps_of(learner) == {steps}
    tokens = sum(t.num_sampled for t in trajectories(invented_groups()))
    assert seen["tokens/trained"] == epochs * tokens


def test_minibatches_hold_whole_groups_in_an_order_of_the_seed(monkeypatch):
    def order(seed):
        seen = []
        learner = Learner(model(), lr=0.0, minibatches=3)
        monkeypatch.setattr(
            learner, "_step", lambda part, recipe, diagnostics: seen.append([row.group for row in part])
        )
        learner.update(rows(), grpo, seed=seed)
        return seen

    orders = [order(seed) for seed in range(8)]
    for seen in orders:
        assert sorted(seen) == [[0] * 3, [1] * 5, [2]]
    assert order(0) == orders[0]
    assert len({str(seen) for seen in orders}) > 2


@pytest.mark.parametrize("minibatches", [1, 4])
def test_without_rows_nothing_is_done(minibatches):
    net = model()
    learner = Learner(net, lr=1e-3, minibatches=minibatches)
    still = weights(net)
    assert learner.update([], grpo) == {}
    assert torch.equal(weights(net), still)
    assert steps_of(learner) == set()
    assert learner.logprobs([]) == []


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_step_whose_gradient_is_not_finite_is_skipped_and_reported(poison):
    net = model()
    learner = Learner(net, lr=1e-3)
    learner.update(rows(), grpo)
    still = weights(net)
    sick = rows()
    sick[0].adv[0] = poison
    seen = learner.update(sick, grpo)
    assert not math.isfinite(seen["grad_norm"])
    assert any("not finite" in line for line in warnings(seen, lag=0))
    assert torch.equal(weights(net), still)
    assert steps_of(learner) == {1}
    well = learner.update(rows(), grpo)
    assert math.isfinite(well["grad_norm"])
    assert not torch.equal(weights(net), still)
    assert bool(weights(net).isfinite().all())


# Critic and reference


def test_a_new_critic_values_everything_at_zero_and_learns_what_was_returned():
    net = model()
    groups = sampled_groups(HFPolicy(net), size=4)
    for number, played in enumerate(groups):
        for trajectory in played.trajectories:
            trajectory.turns[-1].reward = number % 2
        played.rewards = [trajectory.reward for trajectory in played.trajectories]
    learner = Learner(net, lr=3e-3, critic=True)
    recipe = ppo.but(penalty=(partial(penalty.value_error, coef=0.5, clip=math.inf),))
    assert set(flat(learner.values(trajectories(groups)))) == {0.0}
    errors = []
    for _ in range(30):
        asyncio.run(score.value(learner, groups))
        errors.append(learner.update(rows(recipe, groups), recipe)["value/error"])
    assert errors[-1] < 0.3 * errors[0]


def test_values_belong_to_the_position_before_their_token():
    """A value may know the history and not the token that it is a baseline for."""
    learner = Learner(model(), lr=0.0, critic=True)
    torch.nn.init.normal_(learner.head.weight, generator=torch.Generator().manual_seed(0))
    (played,) = invented_groups()[2].trajectories
    last = played.turns[-1]
    values = flat(learner.values([played]))
    changed = (*last.completion.ids[:-1], (last.completion.ids[-1] + 1) % 40)
    played.turns[-1] = replace(last, completion=replace(last.completion, ids=changed))
    assert flat(learner.values([played])) == values
    before = (*last.context[:-1], (last.context[-1] + 1) % 40)
    played.turns[-1] = replace(last, context=before)
    assert flat(learner.values([played]))[0] != values[0]


def test_building_a_critic_leaves_the_global_luck_alone():
    net = model()
    state = torch.get_rng_state()
    Learner(net, lr=0.0, critic=True).update(rows(), grpo)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_reference_stays_where_it_was_frozen():
    net = model()
    first = deepcopy(net)
    learner = Learner(net, lr=1e-2, temperature=0.5)
    learner.freeze_reference()
    groups = invented_groups()
    for _ in range(3):
        learner.update(rows(grpo, groups), grpo)
    found = learner.reference(trajectories(groups))
    (played,) = groups[2].trajectories
    wanted = teacher_forced(first, played.turns[0].context, played.turns[0].completion.ids, 0.5)
    np.testing.assert_allclose(found[-1][0], wanted, atol=1e-5)
    assert max(abs(a - b) for a, b in zip(flat(found), flat(learner.logprobs(trajectories(groups))), strict=True)) > 0.1


def test_a_penalty_for_leaving_the_reference_holds_the_policy_back():
    moved = []
    for coef in (0.0, 5.0):
        net = model()
        recipe = grpo.but(penalty=(partial(penalty.kl_k2, coef=coef),))
        learner = Learner(net, lr=3e-3)
        learner.freeze_reference()
        for _ in range(20):
            groups = invented_groups()
            asyncio.run(score.reference(learner, groups))
            learner.update(rows(recipe, groups), recipe)
        found = zip(
            flat(learner.logprobs(trajectories(groups))), flat(learner.reference(trajectories(groups))), strict=True
        )
        moved.append(np.mean([(a - b) ** 2 for a, b in found]))
    assert moved[1] < 0.5 * moved[0]


def test_what_was_not_built_is_refused_in_words():
    learner = Learner(model(), lr=0.0)
    with pytest.raises(ValueError, match="without a critic"):
        learner.values(trajectories(invented_groups()))
    with pytest.raises(ValueError, match="none was frozen"):
        learner.reference(trajectories(invented_groups()))


# Saved and loaded


def test_a_learner_that_was_saved_goes_on_bit_by_bit():
    def learner_of(net):
        learner = Learner(net, lr=1e-2, weight_decay=0.1, critic=True, epochs=2, minibatches=2)
        learner.freeze_reference()
        return learner

    recipe = ppo.but(penalty=(*ppo.penalty, partial(penalty.kl_k3, coef=0.1)))

    def go_on(learner, first, last):
        seen = []
        for update in range(first, last):
            groups = invented_groups(update)
            for part in (score.value, score.reference):
                asyncio.run(part(learner, groups))
            seen.append(learner.update(rows(recipe, groups), recipe, seed=update))
        return seen

    whole = learner_of(model())
    go_on(whole, 0, 3)
    file = io.BytesIO()
    torch.save((whole.state_dict(), whole.model.state_dict()), file)
    wanted = go_on(whole, 3, 6)

    file.seek(0)
    state, saved = torch.load(file, weights_only=True)
    other = model(seed=1)
    other.load_state_dict(saved)
    shaken(other, 0, 0.0)
    again = learner_of(other)
    again.load_state_dict(state)
    assert go_on(again, 3, 6) == wanted
    assert torch.equal(weights(again.model), weights(whole.model))
    assert torch.equal(again.head.weight, whole.head.weight)
    assert torch.equal(weights(again.frozen), weights(whole.frozen))


def test_the_same_updates_give_the_same_bits():
    found = []
    for _ in range(2):
        net = model()
        policy = HFPolicy(net)
        learner = Learner(net, lr=1e-2, minibatches=2)
        for update in range(3):
            learner.update(rows(grpo, sampled_groups(policy, seed=update)), grpo, seed=update)
            policy.refresh()
        found.append(weights(net))
    assert torch.equal(*found)
