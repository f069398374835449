"""The state of a learner: critic, reference model and optimiser."""

import asyncio
import math
from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from rl.learner.learner import Learner
from rl.methods.parts import penalty, score
from rl.methods.recipes.grpo import recipe as grpo
from rl.methods.recipes.ppo import recipe as ppo
from rl.policy.hf import HFPolicy
from tests.support.models import model, teacher_forced_logprobs
from tests.support.play import flat, random_groups, rows, sample_groups, saved_and_loaded, trajectories, weights


def test_a_new_critic_values_everything_at_zero_and_learns_what_was_returned():
    net = model()
    groups = sample_groups(HFPolicy(net), size=4)
    for number, group in enumerate(groups):
        for trajectory in group.trajectories:
            trajectory.turns[-1].reward = number % 2
        group.rewards = [trajectory.reward for trajectory in group.trajectories]
    learner = Learner(net, lr=3e-3, critic=True)
    recipe = ppo.but(penalty=(partial(penalty.value_error, coef=0.5, clip=math.inf),))
    assert set(flat(learner.values(trajectories(groups)))) == {0.0}
    errors = []
    for _ in range(30):
        asyncio.run(score.value(learner, groups))
        errors.append(learner.update(rows(recipe, groups), recipe)["value/error"])
    assert errors[-1] < 0.3 * errors[0]


def test_values_belong_to_the_position_before_their_token():
    """A value may depend on the history, but not on the token that it is a baseline for."""
    learner = Learner(model(), lr=0.0, critic=True)
    torch.nn.init.normal_(learner.value_head.weight, generator=torch.Generator().manual_seed(0))
    (trajectory,) = random_groups()[2].trajectories
    last = trajectory.turns[-1]
    values = flat(learner.values([trajectory]))
    other_ids = (*last.completion.ids[:-1], (last.completion.ids[-1] + 1) % 40)
    trajectory.turns[-1] = replace(last, completion=replace(last.completion, ids=other_ids))
    assert flat(learner.values([trajectory])) == values
    before = (*last.context[:-1], (last.context[-1] + 1) % 40)
    trajectory.turns[-1] = replace(last, context=before)
    assert flat(learner.values([trajectory]))[0] != values[0]


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
    groups = random_groups()
    for _ in range(3):
        learner.update(rows(grpo, groups), grpo)
    logprobs = learner.reference(trajectories(groups))
    (trajectory,) = groups[2].trajectories
    expected = teacher_forced_logprobs(first, trajectory.turns[0].context, trajectory.turns[0].completion.ids, 0.5)
    np.testing.assert_allclose(logprobs[-1][0], expected, atol=1e-5)
    assert (
        max(abs(a - b) for a, b in zip(flat(logprobs), flat(learner.logprobs(trajectories(groups))), strict=True)) > 0.1
    )


def test_a_penalty_for_leaving_the_reference_holds_the_policy_back():
    distances = []
    for coef in (0.0, 5.0):
        net = model()
        recipe = grpo.but(penalty=(partial(penalty.kl_k2, coef=coef),))
        learner = Learner(net, lr=3e-3)
        learner.freeze_reference()
        for _ in range(20):
            groups = random_groups()
            asyncio.run(score.reference(learner, groups))
            learner.update(rows(recipe, groups), recipe)
        pairs = zip(
            flat(learner.logprobs(trajectories(groups))), flat(learner.reference(trajectories(groups))), strict=True
        )
        distances.append(np.mean([(a - b) ** 2 for a, b in pairs]))
    assert distances[1] < 0.5 * distances[0]


def test_what_was_not_built_is_refused_in_words():
    learner = Learner(model(), lr=0.0)
    with pytest.raises(ValueError, match="without a critic"):
        learner.values(trajectories(random_groups()))
    with pytest.raises(ValueError, match="none was frozen"):
        learner.reference(trajectories(random_groups()))


def test_a_learner_that_was_saved_goes_on_bit_by_bit():
    def learner_of(net):
        learner = Learner(net, lr=1e-2, weight_decay=0.1, critic=True, epochs=2, minibatches=2)
        learner.freeze_reference()
        return learner

    recipe = ppo.but(penalty=(*ppo.penalty, partial(penalty.kl_k3, coef=0.1)))

    def go_on(learner, first, last):
        metrics = []
        for update in range(first, last):
            groups = random_groups(update)
            for part in (score.value, score.reference):
                asyncio.run(part(learner, groups))
            metrics.append(learner.update(rows(recipe, groups), recipe, seed=update))
        return metrics

    whole = learner_of(model())
    go_on(whole, 0, 3)
    state, saved_weights = saved_and_loaded(whole)
    expected = go_on(whole, 3, 6)

    other = model(seed=1)
    other.load_state_dict(saved_weights)
    again = learner_of(other)
    again.load_state_dict(state)
    assert go_on(again, 3, 6) == expected
    assert torch.equal(weights(again.model), weights(whole.model))
    assert torch.equal(again.value_head.weight, whole.value_head.weight)
    assert torch.equal(weights(again.reference_model), weights(whole.reference_model))


def test_the_same_updates_give_the_same_bits():
    updated_weights = []
    for _ in range(2):
        net = model()
        policy = HFPolicy(net)
        learner = Learner(net, lr=1e-2, minibatches=2)
        for update in range(3):
            learner.update(rows(grpo, sample_groups(policy, seed=update)), grpo, seed=update)
            policy.sync_weights()
        updated_weights.append(weights(net))
    assert torch.equal(*updated_weights)
