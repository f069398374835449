"""Which tasks are played, how often, with what help and by whose labels, against other trainers' numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rl.methods import recipe as recipes
from rl.methods.estimators import similarity
from rl.methods.estimators.tasks import allocation, difficulty, hints, labels
from rl.methods.parts import reweigh, strategy
from rl.methods.parts.strategy.stored import takes_stored
from tests.support.batches import make_group, make_trajectory
from tests.support.vector_cases import agrees, array, vectors


@vectors("dars_schedule")
def test_dars_adds_as_many_episodes(file: str, case: dict[str, Any]) -> None:
    params = case["params"]
    for name, is_weighed in (("extra_ET", False), ("extra_HW", True)):
        how = {"most": params["N_max"], "weigh_hardness": is_weighed, "is_scaled": params["std"]}
        extra = [allocation.more_for_hard(a, params["N"], **how) for a in case["inputs"]["accuracy"]]
        assert extra == case["expected"][name]


@vectors("props_quota")
def test_props_draws_what_its_data_lack(file: str, case: dict[str, Any]) -> None:
    chances, counts, expected = case["inputs"]["p"], case["inputs"]["counts"], case["expected"]
    assert recipes.load("props").strategy is strategy.quota
    agrees(file, allocation.quota(chances, counts), expected["q"])
    if sum(counts):
        agrees(file, allocation.sampling_error(chances, counts), expected["sampling_error"])


@vectors("recycle_first_error")
def test_a_failure_is_kept_up_to_its_first_wrong_step(file: str, case: dict[str, Any]) -> None:
    scores, expected = case["inputs"]["step_scores"], case["expected"]
    assert recipes.load("scope_prm").strategy is strategy.recycled
    error = hints.first_error(scores, case["params"]["threshold"])
    assert error == expected["first_error"]
    assert (len(scores) if error is None else error) == expected["kept_steps"]
    assert bool(error) == expected["eligible"]


@vectors("ps_grpo_reward")
def test_members_earn_by_agreeing_with_those_who_read_other_words(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    labels = np.repeat(np.arange(params["n"]), params["g"])
    rewards = similarity.consistency(array(inputs["similarity"]), labels)
    agrees(file, rewards.reshape(params["n"], params["g"]), expected["reward"])
    if inputs["accuracy"] is not None:
        rewards = rewards + params["lambda_acc"] * array(inputs["accuracy"]).ravel()
    recipe = recipes.load("ps_grpo")
    groups = [
        make_group(*(make_trajectory((1, reward)) for reward in rewards[labels == number]), number=number)
        for number in range(params["n"])
    ]
    credit = recipe.credit(groups, recipe.normalization)
    agrees(file, [[float(tokens[0]) for tokens in of_group] for of_group in credit], expected["advantage"])


@vectors("gdro_sqrt_rule")
def test_the_square_root_rule_divides_the_budget(file: str, case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    best = allocation.square_root(inputs["variance_proxy"], inputs["share"], case["params"]["n_bar"])
    agrees(file, best.episodes, expected["n_star"])
    agrees(file, [best.price, best.objective], [expected["shadow_price"], expected["objective"]])
    assert best.objective <= expected["uniform_objective"]


@vectors("gdro_rollout_arms")
def test_the_arms_of_rollout_gdro_match_the_budget(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    arms = params["arms"]
    scores = {kind: np.zeros(len(arms)) for kind in expected["scores"]}
    for choice, bins, losses, mean, price in inputs["updates"]:
        for kind, loss in difficulty.bin_losses(bins, losses).items():
            arm, surplus = arms.index(choice[kind]), choice[kind] - mean
            scores[kind] = allocation.update_arm(scores[kind], arm, loss, surplus=surplus, price=price)
    how = {"eta": params.get("eta_q", 0.1), "gamma": params.get("gamma", 0.15)}
    chances = {kind: allocation.arm_probabilities(scores[kind], **how) for kind in scores}
    for kind in scores:
        agrees(file, scores[kind], expected["scores"][kind])
        agrees(file, chances[kind], expected["probs"][kind])
    choice = allocation.match_budget(chances, inputs["class_counts"], arms, inputs["total_budget"])
    assert choice == expected["choice"]
    assert sum(inputs["class_counts"][kind] * arm for kind, arm in choice.items()) == expected["total"]


@vectors("gdro_online_bins")
def test_the_bins_of_gdro_follow_the_outcomes(file: str, case: dict[str, Any]) -> None:
    outcomes, params = [bool(one) for one in case["inputs"]["any_correct"]], case["params"]
    edges = [float(edge) for edge in params.get("passk_edges", "").split(",") if edge]
    window, excludes = params.get("passk_history_len", 1000), params.get("passk_exclude_extremes", False)
    for seen, expected in enumerate(case["expected"]["bins"]):
        own = difficulty.bin_of(outcomes[:seen][-window:], edges, excludes_extremes=excludes)
        assert f"accbin_{own}".replace("excluded", "excl") == expected


def test_a_bin_is_left_in_either_direction_once_its_edge_is_past_by_the_margin() -> None:
    """The released rule compares with the wrong edge on the way down, where no task ever leaves its bin."""

    def rate(share: float) -> list[bool]:
        return [k < round(100 * share) for k in range(100)]

    held = lambda before, share: difficulty.held_bin(before, rate(share), (), margin=0.03)  # noqa: E731
    assert [held("5", 0.61), held("5", 0.64)] == ["5", "6"]
    assert [held("5", 0.48), held("5", 0.46), held("5", 0.0), held("5", 1.0)] == ["5", "4", "0", "9"]
    assert held("5", 0.55) == "5"


@vectors("gdro_prompt_weights")
def test_prompt_gdro_weighs_bins_by_their_scores(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    averages: dict[str, float] = {}
    sums = dict.fromkeys(expected["cumulative"], 0.0)
    for bins, losses in inputs["steps"]:
        means = difficulty.bin_losses(bins, losses, over_share=params.get("loss_norm_by_class", False))
        averages = difficulty.update_scores(averages, means, beta=params.get("ema_beta", 0.1))
        sums = difficulty.update_scores(sums, means, beta=0)
    is_average = params.get("debias_scores_ema", False)
    scores = averages if is_average else sums
    assert sums == pytest.approx(expected["cumulative"], rel=1e-5, abs=1e-6)
    assert (averages if is_average else {}) == pytest.approx(expected["ema"], rel=1e-5, abs=1e-6)
    how = {"eta": params.get("eta_q", 0.1), "gamma": params.get("gamma", 0.15)}
    weights = difficulty.mixture(inputs["query"], scores, standardises=params.get("use_zscore", False), **how)
    assert weights == pytest.approx(expected["mixture"], rel=1e-5, abs=1e-6)
    own = difficulty.mean_one(array([weights[one] for one in inputs["query"]]), cap=params.get("max_class_weight", 10))
    agrees(file, own, expected["sample_weights_mean1"])


@vectors("xrpo")
def test_xrpo_gives_episodes_where_they_tell_most(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    if params["kind"] != "allocator":
        return  # of the advantages, in `test_advantage_vectors.py`
    deviations, counts, bonus = inputs["reward_std"], inputs["n_start"], params["lam"]
    first = [allocation.priority(s, n, params["T_start"], bonus=bonus) for s, n in zip(deviations, counts, strict=True)]
    np.testing.assert_allclose(first, expected["first_priorities"], rtol=2e-3)  # the file rounds its quantiles
    order = allocation.spend(deviations, counts, params["budget"], bonus=bonus)
    assert order == expected["order"]
    assert [n + order.count(place) for place, n in enumerate(counts)] == expected["n_final"]


@vectors("prefix_and_replay")
def test_prefixes_and_stored_groups_are_chosen_by_the_rules(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    if params["kind"] == "pope_prefix":
        place = hints.shortest_prefix(inputs["successes_per_checkpoint"])
        assert (place if place is not None else "fallback first quarter") == expected["checkpoint"]
    elif params["kind"] == "replay":
        fresh = round(params["sigma"] * params["batch"])
        assert sum(takes_stored(number, params["sigma"]) for number in range(params["batch"])) == fresh
        newest = list(dict.fromkeys(prompt for prompt, _ in inputs["buffer"][::-1]))[::-1]
        assert newest == expected["deduplicated"]
        assert min(params["batch"] - fresh, len(newest)) == expected["n_replayed"]
    else:
        rewards = [*inputs["fresh"], *inputs["replayed"]]
        group, recipe = make_group(*(make_trajectory((1, reward)) for reward in rewards)), recipes.load("rlep")
        (credit,) = recipe.credit([group], recipe.normalization)
        advantages = [float(tokens[0]) for tokens in credit]
        agrees(file, advantages, [*expected["adv_fresh"], *expected["adv_replayed"]])


@vectors("remix")
def test_a_share_of_the_groups_is_new(file: str, case: dict[str, Any]) -> None:
    if case["params"]["kind"] == "mix":
        batch, fresh = case["inputs"]["batch"], 1 - case["params"]["replay_fraction"]
        stored = sum(takes_stored(number, fresh) for number in range(batch))
        assert {"on_policy": batch - stored, "history": stored} == case["expected"]


@vectors("swarm_sharing")
def test_shared_groups_without_variance_are_left_out(file: str, case: dict[str, Any]) -> None:
    groups, params, expected = case["inputs"]["external_groups"], case["params"], case["expected"]
    assert difficulty.eligible(groups) == expected["eligible"]
    assert min(params["J"], len(difficulty.eligible(groups))) == expected["n_external"]
    assert params["I"] == expected["n_local"]


@vectors("adhint")
def test_hints_grow_with_difficulty_and_weigh_what_they_helped(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    naive, hint = array(inputs["reward_naive"]), array(inputs["reward_hint"])
    failures = 1 - naive.mean()
    agrees(file, failures, expected["difficulty"])
    agrees(file, hints.hint_share(failures, least=params["w_min"], most=params["w_max"]), expected["hint_ratio"])
    rewards, is_guided = np.concatenate([naive, hint]), np.arange(len(naive) + len(hint)) >= len(naive)
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
    factors = hints.posterior_factors(advantages, rewards, is_guided)
    agrees(file, advantages * factors, [*expected["adv_naive"], *expected["adv_hint"]])


@vectors("ttrl_majority")
def test_the_majority_labels_its_group(file: str, case: dict[str, Any]) -> None:
    answers = [answer.rpartition("=")[2] for answer in case["inputs"]["answers"]]
    majority = labels.majority(answers)
    agrees(file, majority.rewards, case["expected"]["rewards"])
    agrees(file, majority.ratio, case["expected"]["majority_ratio"])
    assert float(majority.label == case["inputs"]["ground_truth"]) == case["expected"]["label_accuracy"]


def test_no_answer_never_wins_the_vote() -> None:
    assert labels.majority([None, None, "1"]).rewards == [0.0, 0.0, 1.0]
    assert labels.majority([None, None]) == (None, 0.0, [0.0, 0.0])


@vectors("mt_dart_high_entropy_steps")
def test_the_most_uncertain_turns_of_a_task_are_kept(file: str, case: dict[str, Any]) -> None:
    """Turn `k` of the file is a turn of one token whose negative log-probability is its entropy."""
    inputs, params = case["inputs"], case["params"]
    groups = []
    for number, task in enumerate(dict.fromkeys(inputs["task"])):
        own = [h for h, one in zip(inputs["step_entropy"], inputs["task"], strict=True) if one == task]
        trajectory = make_trajectory(*((1, 0.0) for _ in own))
        for turn, entropy in zip(trajectory.turns, own, strict=True):
            turn.completion = replace(turn.completion, logprobs=(-entropy,))
        groups.append(make_group(trajectory, number=number))
    ones = [[np.ones(member.num_sampled) for member in group.trajectories] for group in groups]
    result = reweigh.uncertain_turns(groups, ones, share=params["keep_fraction"])
    assert [float(x) for of_group in result for tokens in of_group for x in tokens] == case["expected"]["keep"]


@vectors("ettrl_ear")
def test_sure_members_weigh_more(file: str, case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    factors = labels.calmness(array(inputs["mean_entropy"]))
    agrees(file, factors, expected["scale"])
    agrees(file, array(inputs["advantage"]) * factors, expected["adv_res"])
