"""`Learner.update`: its metrics, the direction in which it moves weights, and its number of steps."""

import asyncio
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from rl.learner.diagnostics import list_warnings
from rl.learner.learner import Learner
from rl.methods.parts import baseline, penalty, ratio, reduce, surrogate
from rl.methods.recipe import Recipe
from rl.methods.recipes.grpo import recipe as grpo
from rl.methods.recipes.ppo import recipe as ppo
from rl.policy.hf import HFPolicy
from tests.support.models import OTHER_FAMILIES, PACKED_FAMILIES, model
from tests.support.play import flat, random_groups, rows, sample_groups, sampler_logprobs, trajectories, weights

# Reads every token, whatever its advantage.
EVERY = grpo.but(penalty=(partial(penalty.entropy_bonus, coef=0.0),))  # computes every token, whatever its advantage
PLAIN = Recipe(baseline=baseline.none, ratio=ratio.on_policy, surrogate=surrogate.linear, reduce=reduce.token_mean)
SPECIAL = {
    "granite": {"logits_scaling": 3.0},
    "cohere": {"logit_scale": 0.3},
    "gemma2": {"final_logit_softcapping": 2.0},
}


# What it measures


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("kind", [*PACKED_FAMILIES, *OTHER_FAMILIES, *SPECIAL])
def test_on_fresh_samples_the_learner_agrees_with_the_sampler(kind, temperature):
    net = model(kind, **SPECIAL.get(kind, {}))
    groups = sample_groups(HFPolicy(net), groups=2, size=3, temperature=temperature)
    learner = Learner(net, lr=1e-3, temperature=temperature)
    np.testing.assert_allclose(flat(learner.logprobs(trajectories(groups))), sampler_logprobs(groups), atol=1e-4)
    metrics = learner.update(rows(grpo, groups, temperature=temperature), EVERY)
    assert abs(metrics["kl/sampler_trainer"]) < 1e-8
    assert metrics["ratio/mean"] == pytest.approx(1.0, abs=1e-4)
    assert metrics["ratio/log_max"] < 1e-4
    assert metrics["ratio/outside"] == 0
    assert metrics["tokens/trained"] == sum(t.num_sampled for t in trajectories(groups))


def test_a_temperature_that_is_not_recorded_shows_as_a_mismatch():
    net = model()
    groups = sample_groups(HFPolicy(net), temperature=0.7)
    metrics = Learner(net, lr=0.0).update(rows(grpo, groups), grpo)
    assert metrics["kl/sampler_trainer"] > 1e-3
    assert any("disagree" in line for line in list_warnings(metrics, lag=0))


def test_groups_that_teach_nothing_are_said_to_be_solved_or_too_hard():
    for success, reason in ((0.97, "most tasks are solved"), (0.02, "too hard"), (0.5, "alike")):
        [line] = list_warnings({"groups/zero_variance": 0.95, "success/mean": success, "grad_norm": 1.0}, lag=0)
        assert reason in line


def test_methods_that_compare_no_members_learn_from_equal_rewards():
    for success, lines in ((0.5, []), (0.0, ["success is 0%: the tasks are too hard as yet"])):
        metrics = {"groups/zero_variance": 1.0, "success/mean": success, "grad_norm": 1.0}
        assert list_warnings(metrics, lag=0, compares_members=False) == lines


def test_demonstrations_which_are_alike_and_right_teach_all_the_same():
    metrics = {"groups/zero_variance": 1.0, "success/mean": 1.0, "grad_norm": 1.0, "episodes/played": 4.0}
    assert list_warnings({**metrics, "episodes/demonstrated": 4.0}, lag=0) == []
    assert len(list_warnings({**metrics, "episodes/demonstrated": 1.0}, lag=0)) == 1


def test_entropy_is_that_of_the_sampled_distribution():
    net = model()
    groups = random_groups()
    for temperature in (1.0, 0.5):
        metrics = Learner(net, lr=0.0).update(rows(grpo, groups, temperature=temperature), EVERY)
        entropies = []
        for trajectory in trajectories(groups):
            for history in trajectory.sequences():
                with torch.no_grad():
                    logits = net(input_ids=torch.tensor([history.ids])).logits[0] / temperature
                every = torch.distributions.Categorical(logits=logits).entropy()
                entropies += [float(every[i - 1]) for i, mine in enumerate(history.sampled) if mine]
        assert metrics["entropy"] == pytest.approx(np.mean(entropies), rel=1e-4)


def test_the_mismatch_is_measured_before_the_first_weight_moves():
    net = model()
    groups = sample_groups(HFPolicy(net))
    metrics = Learner(net, lr=1e-2, epochs=4, minibatches=1).update(rows(grpo, groups), EVERY)
    assert metrics["kl/sampler_trainer"] < 1e-8
    assert metrics["ratio/log_max"] > 0.01
    assert metrics["tokens/trained"] == 4 * sum(t.num_sampled for t in trajectories(groups))


def test_micro_batches_change_no_measurement():
    metrics = [Learner(model(), lr=1e-3, microbatch_tokens=budget).update(rows(), grpo) for budget in (1, 30, 10**6)]
    for other in metrics[1:]:
        assert other == pytest.approx(metrics[0], rel=1e-3, abs=1e-6)


# Which way it moves


@pytest.mark.parametrize("sign", [1, -1])
def test_an_advantage_moves_the_probability_of_its_tokens_its_way(sign):
    net = model()
    groups = random_groups()[:1]
    groups[0].rewards = [sign, 0.0, 0.0]
    learner = Learner(net, lr=1e-3)
    before = learner.logprobs(trajectories(groups))
    learner.update(rows(PLAIN, groups), PLAIN)
    after = learner.logprobs(trajectories(groups))
    assert sign * (sum(flat(after[:1])) - sum(flat(before[:1]))) > 0.1


def test_tokens_that_were_not_sampled_are_not_trained():
    """Changing the only token of a context changes no gradient, as it is no target."""
    groups = random_groups()[2:]
    updated_weights = []
    for last in (3, 4):
        net = model()
        turns = [replace(turn, context=(*turn.context[:-1], 9)) for turn in groups[0].trajectories[0].turns]
        completion = turns[0].completion
        turns.append(replace(turns[0], context=(last,), completion=replace(completion, ids=(), logprobs=())))
        groups[0].trajectories = [replace(groups[0].trajectories[0], turns=turns)]
        Learner(net, lr=1e-3).update(rows(PLAIN, groups), PLAIN)
        updated_weights.append(weights(net))
        groups[0].trajectories[0].turns.pop()
    assert torch.equal(*updated_weights)


@pytest.mark.parametrize("recipe", [grpo, ppo], ids=["grpo", "ppo"])
def test_a_solvable_toy_is_solved(recipe):
    net = model()
    policy = HFPolicy(net)
    learner = Learner(net, lr=1e-2, critic=recipe is ppo, epochs=2, minibatches=2)
    rewards = []
    for update in range(25):
        groups = sample_groups(policy, seed=update)
        rewards.append(np.mean([t.reward for t in trajectories(groups)]))
        for part in recipe.score:
            asyncio.run(part(learner, groups))
        metrics = learner.update(rows(recipe, groups), recipe, seed=update)
        assert metrics["kl/sampler_trainer"] < 1e-6
        policy.sync_weights()
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
    metrics = learner.update(rows(), grpo)
    assert metrics["grad_norm"] > 0.01
    norm = torch.cat([weight.grad.flatten() for weight in net.parameters()]).norm()
    assert float(norm) == pytest.approx(0.01, rel=1e-3)


def test_dropout_is_off_or_the_trainer_would_be_another_policy():
    net = model("gpt2", resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5).train()
    groups = sample_groups(HFPolicy(net), groups=1, size=2)
    assert Learner(net, lr=0.0).update(rows(grpo, groups), grpo)["kl/sampler_trainer"] < 1e-8


def test_trajectories_without_advantage_are_not_computed_and_nothing_changes():
    lone = [replace(row, adv=np.zeros_like(row.adv)) if row.group == 0 else row for row in rows()]
    nets, metrics = [], []
    for recipe in (grpo, EVERY):
        nets.append(model())
        metrics.append(Learner(nets[-1], lr=1e-3).update(lone, recipe))
    assert metrics[0]["tokens/trained"] < metrics[1]["tokens/trained"] == sum(int(row.mask.sum()) for row in lone)
    assert metrics[0]["grad_norm"] == pytest.approx(metrics[1]["grad_norm"], rel=1e-5)
    for mine, theirs in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=2e-5)


def test_an_update_without_any_advantage_is_measured_and_moves_nothing():
    still = [replace(row, adv=np.zeros_like(row.adv)) for row in rows()]
    net = model()
    before = [weight.clone() for weight in net.parameters()]
    metrics = Learner(net, lr=1e-2).update(still, grpo)
    assert metrics["entropy"] > 0 and metrics["grad_norm"] == 0
    assert all(torch.equal(old, new) for old, new in zip(before, net.parameters(), strict=True))


# Steps


def steps_of(learner):
    return {int(state["step"]) for state in learner.optimizer.state.values()}


@pytest.mark.parametrize(("epochs", "minibatches", "steps"), [(1, 1, 1), (3, 1, 3), (2, 3, 6), (1, 8, 3)])
def test_an_update_makes_epochs_times_minibatches_steps(epochs, minibatches, steps):
    net = model()
    learner = Learner(net, lr=1e-4, epochs=epochs, minibatches=minibatches)
    metrics = learner.update(rows(), EVERY)
    assert steps_of(learner) == {steps}
    tokens = sum(t.num_sampled for t in trajectories(random_groups()))
    assert metrics["tokens/trained"] == epochs * tokens


def test_minibatches_hold_whole_groups_in_an_order_of_the_seed(monkeypatch):
    def order(seed):
        step_groups = []
        learner = Learner(model(), lr=0.0, minibatches=3)
        monkeypatch.setattr(
            learner, "_step", lambda part, recipe, diagnostics: step_groups.append([row.group for row in part])
        )
        learner.update(rows(), grpo, seed=seed)
        return step_groups

    orders = [order(seed) for seed in range(8)]
    for step_groups in orders:
        assert sorted(step_groups) == [[0] * 3, [1] * 5, [2]]
    assert order(0) == orders[0]
    assert len({str(step_groups) for step_groups in orders}) > 2


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
    metrics = learner.update(sick, grpo)
    assert not math.isfinite(metrics["grad_norm"])
    assert any("not finite" in line for line in list_warnings(metrics, lag=0))
    assert torch.equal(weights(net), still)
    assert steps_of(learner) == {1}
    well = learner.update(rows(), grpo)
    assert math.isfinite(well["grad_norm"])
    assert not torch.equal(weights(net), still)
    assert bool(weights(net).isfinite().all())


def test_the_value_head_has_a_learning_rate_of_its_own():
    def errors(critic_lr: float | None) -> list[float]:
        learner = Learner(model(), lr=1e-6, critic=True, critic_lr=critic_lr)
        groups, metrics = random_groups(), []
        for _ in range(40):
            for trajectory in trajectories(groups):
                for turn, values in zip(trajectory.turns, learner.values([trajectory])[0], strict=True):
                    turn.streams["value"] = values
            metrics.append(learner.update(rows(ppo, groups), ppo, scale=0.5)["value/error"])
        rates = [group["lr"] for group in learner.optimizer.param_groups]
        assert rates == [0.5e-6, (critic_lr or 1e-6) / 2]
        return metrics

    slow, fast = errors(None), errors(1e-2)
    assert slow[-1] > 0.99 * slow[0] and fast[-1] < 0.7 * fast[0] and slow[0] == fast[0]


def test_gradients_that_an_environment_has_switched_off_are_computed():
    net = model()
    groups, before = random_groups(), weights(net)
    with torch.no_grad():
        Learner(net, lr=1e-2).update(rows(grpo, groups), grpo)
    assert not torch.equal(before, weights(net))
