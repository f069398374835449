"""A critic of whole replies: what it reads, how it learns, and what the policy is told."""

from __future__ import annotations

import asyncio
import pickle
import signal
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from rl.learner import batch, hidden_states
from rl.learner.learner import Learner
from rl.learner.loss import policy_loss
from rl.methods.estimators import critic_targets, turn_table
from rl.methods.inputs import Labels
from rl.methods.parts import reduce, score
from rl.methods.recipe import load, part
from rl.records import Group, Trajectory
from tests.support.batches import ToyScorer, make_group, make_trajectory, off_policy, toy_groups
from tests.support.models import model
from tests.support.play import random_groups, trajectories, weights
from tests.support.runs import Child, assert_same_run, flags, metrics, train, train_run
from tests.support.vector_cases import array, checked


class Scorer(ToyScorer):
    """Tells the features that a test has chosen."""

    def __init__(self, *features: Sequence[Sequence[Sequence[float]]]) -> None:
        self.told = [np.array(of_one, dtype=float) for of_one in features]

    def features(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        return self.told


def run(critic: score.reply_advantage, groups: Sequence[Group], scorer: ToyScorer) -> np.ndarray:
    """The advantage of every turn."""
    asyncio.run(critic(scorer, groups))
    for turn in turn_table.turns_of(groups):
        assert set(turn.streams["reply_advantage"]) == {turn.streams["reply_advantage"][0]}
        assert len(turn.streams["reply_advantage"]) == len(turn.completion.ids)
    return np.array([turn.streams["reply_advantage"][0] for turn in turn_table.turns_of(groups)])


@pytest.mark.parametrize("budget", [16384, 10])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_states_around_a_reply_are_those_of_the_models_own_forward(kind: str, budget: int) -> None:
    """With histories begun anew, prefixes in common, and last replies that nothing follows."""
    net = model(kind)
    played = trajectories(random_groups())
    result = hidden_states.around_replies(Learner(net, lr=0.0, microbatch_tokens=budget).hidden_states, played)
    for record, states in zip(played, result, strict=True):
        assert states.shape == (len(record.turns), 2, 32)
        for history in record.sequences():
            with torch.no_grad():
                out = net(input_ids=torch.tensor([history.ids]), output_hidden_states=True).hidden_states[-1][0]
            for turn in set(history.turn) - {-1}:
                places = [i for i, of in enumerate(history.turn) if of == turn]
                expected = out[[places[0] - 1, places[-1]]]
                np.testing.assert_allclose(states[turn], expected, atol=1e-4)


def test_asking_for_states_changes_nothing() -> None:
    net = model()
    before = weights(net)
    hidden_states.around_replies(Learner(net, lr=0.0).hidden_states, trajectories(random_groups()))
    assert torch.equal(weights(net), before)
    assert all(weight.grad is None for weight in net.parameters())


def test_the_critic_learns_as_the_four_losses_say() -> None:
    """Three steps against Adam and automatic differentiation, with slow copies that follow by a tenth."""
    groups = toy_groups()
    table = turn_table.from_groups(groups)
    states = torch.tensor(np.concatenate(ToyScorer().features(list(turn_table.trajectories(groups)))))
    before, after = (torch.cat([states[:, side], torch.ones(len(states), 1).double()], 1) for side in (0, 1))
    critic = score.reply_advantage(epochs=3, gamma=0.9, rate=0.05)
    once = score.reply_advantage(epochs=1, rate=1e-30)
    run(once, groups, ToyScorer())
    slow = torch.tensor(once.state_dict()["heads"])
    v, q = slow[:2].clone().requires_grad_(), slow[2:].clone().requires_grad_()
    rates = [0.05 / float(x.abs().sum(1).mean()) for x in (before, after)]
    adam = torch.optim.Adam([{"params": [v], "lr": rates[0]}, {"params": [q], "lr": rates[1]}])
    done = torch.tensor(table.index == table.num_turns[table.trajectory] - 1)
    for _ in range(3):
        loss = torch.zeros(()).double()
        for j in (0, 1):
            following = torch.cat([(before @ slow[j])[1:], torch.zeros(1).double()])
            expected = torch.tensor(table.rewards) + 0.9 * torch.where(done, 0.0, following)
            loss = loss + (after @ q[j] - expected).square().mean()
            loss = loss + (before @ v[j] - after @ slow[2 + j]).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        slow = slow + 0.1 * (torch.cat([v, q]).detach() - slow)
    credits = run(critic, groups, ToyScorer())
    np.testing.assert_allclose(critic.state_dict()["heads"], torch.cat([v, q]).detach(), atol=1e-9)
    np.testing.assert_allclose(critic.state_dict()["slow"], slow, atol=1e-9)
    worth, value = after @ q.T, before @ v.T
    np.testing.assert_allclose(credits, (worth.min(1).values - value.min(1).values).detach(), atol=1e-9)


def bandit(*rewards: float) -> list[Group]:
    return [make_group(*(make_trajectory((2, reward)) for reward in rewards))]


def test_a_reply_is_worth_what_it_earns_more_than_others_in_its_place() -> None:
    """One state, two replies: a good one half of the time."""
    state, good, bad = [0.5, 0.0, 0.0], [0.5, 1.0, 0.0], [0.5, 0.0, 1.0]
    critic = score.reply_advantage(epochs=4000, rate=0.02)
    credits = run(critic, bandit(1.0, 0.0), Scorer([[state, good]], [[state, bad]]))
    np.testing.assert_allclose(credits, [0.5, -0.5], atol=0.02)


def test_an_early_turn_is_worth_the_discounted_value_of_what_it_leads_to() -> None:
    """Its own reward is 0; one reply leads to where 1 is earned, the other to where nothing is."""
    one = np.eye(7)
    start, left, right, rich, poor, end = one[:6]
    groups = [make_group(make_trajectory((1, 0.0), (1, 1.0)), make_trajectory((1, 0.0), (1, 0.0)))]
    scorer = Scorer([[start, left], [rich, end]], [[start, right], [poor, one[6]]])  # type: ignore[arg-type]
    critic = score.reply_advantage(epochs=6000, rate=0.02, gamma=0.8)
    credits = run(critic, groups, scorer)
    np.testing.assert_allclose(credits, [0.4, 0.0, -0.4, 0.0], atol=0.03)


def test_the_critic_goes_on_where_it_was_and_starts_the_same_everywhere() -> None:
    groups = toy_groups()
    critic, twin = score.reply_advantage(), score.reply_advantage()
    np.testing.assert_array_equal(run(critic, groups, ToyScorer()), run(twin, groups, ToyScorer()))
    restored = score.reply_advantage()
    restored.load_state_dict(pickle.loads(pickle.dumps(critic.state_dict())))
    saved = critic.state_dict()["heads"].copy()
    np.testing.assert_array_equal(run(restored, groups, ToyScorer()), run(critic, groups, ToyScorer()))
    assert (critic.state_dict()["heads"] != saved).any()
    assert critic.state_dict()["count"] == 400


def test_what_is_told_is_the_credit() -> None:
    recipe = load("archer")
    groups = toy_groups()
    expected = run(recipe.score[0], groups, ToyScorer())  # type: ignore[arg-type]
    result = [x for of_group in recipe.credit(groups, recipe.normalization) for tokens in of_group for x in tokens]
    assert result == np.repeat(expected, [len(turn.completion.ids) for turn in turn_table.turns_of(groups)]).tolist()
    with pytest.raises(ValueError, match=r"the stream 'reply_advantage', which \d+ of \d+ turns lack"):
        recipe.credit(toy_groups(), recipe.normalization)


def test_a_reply_is_taught_by_its_advantage_times_the_gradient_of_all_its_tokens() -> None:
    """`-mean A sum of log p`, off policy too, as there is no ratio."""
    recipe, groups = load("archer"), toy_groups()
    tokens = off_policy(groups, recipe)
    policy_loss(tokens, recipe).backward()
    count = len(turn_table.turns_of(groups))
    torch.testing.assert_close(tokens.logp.grad, torch.where(tokens.mask, -tokens.adv / count, 0.0))


@pytest.mark.parametrize("case", checked("mt_archer_targets"), ids=lambda case: case["name"])
def test_the_recipe_s_loss_has_the_gradient_of_the_vectors(case: dict) -> None:
    inputs = {key: array(value) for key, value in case["inputs"].items()}
    mask = torch.tensor(inputs["action_mask"]) > 0
    rows = torch.arange(len(mask))
    labels = Labels(rows, torch.zeros_like(rows), torch.where(mask, 0, -1))
    share = reduce.turn_sum(mask.double(), labels)
    logp = torch.tensor(inputs["action_logp"], requires_grad=True)
    credits = critic_targets.advantage((inputs["q1"], inputs["q2"]), (inputs["v1"], inputs["v2"]))
    loss = (-torch.tensor(credits)[:, None] * logp * share).sum()
    assert loss.item() == pytest.approx(case["expected"]["actor_loss"], rel=1e-6)


def test_a_turn_weighs_by_its_tokens_and_all_turns_stand_in_the_mean() -> None:
    mask = torch.tensor([[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    turn = torch.tensor([[0, 0, -1, 1], [0, -1, -1, -1]])
    share = reduce.turn_sum(mask, Labels(torch.arange(2), torch.zeros(2).long(), turn))
    torch.testing.assert_close(share, mask / 3)


def test_it_has_words() -> None:
    assert part("score", "reply_advantage:gamma=0.9,epochs=5") == score.reply_advantage(gamma=0.9, epochs=5)
    assert batch.STREAMS.count("reply_advantage") == 0  # the loss reads advantages, not what they were made of


@pytest.mark.parametrize("lag", [0, 2])
def test_a_killed_run_goes_on_bit_for_bit(lag: int, tmp_path: Path) -> None:
    how = {"algo": "archer", "updates": 6, "lag": lag, "turn_tokens": 8}
    whole = train_run(*flags("Talk", **how), out=tmp_path / "whole")
    assert len(metrics(whole)) == 6
    out = tmp_path / "run"
    words = flags("Talk", **how, save_every=2)
    die = ("rl.train.run_folder:RunFolder", "write_rollouts", 5)
    assert Child(*words, "--out", str(out), log=tmp_path / "log", die=die).wait().code == -signal.SIGKILL
    ended = train("--resume", "--out", str(out))
    assert ended.code == 0, ended.err
    assert_same_run(out, whole)
