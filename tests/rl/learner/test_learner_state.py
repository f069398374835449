"""What a learner keeps: a critic, a reference, the state of its optimiser."""

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
from tests.support.models import model, teacher_forced
from tests.support.play import flat, invented_groups, kept, rows, sampled_groups, trajectories, weights


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
    state, saved = kept(whole)
    wanted = go_on(whole, 3, 6)

    other = model(seed=1)
    other.load_state_dict(saved)
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
