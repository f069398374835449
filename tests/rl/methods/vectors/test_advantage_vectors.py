"""Baselines, units and weights of advantages, against their authors' numbers or hand-made ones."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from envs.types import Outcome, Stop
from rl.learner.loss import step_streams
from rl.methods.estimators import priors
from rl.methods.parts import scale, strategy
from rl.methods.recipe import Recipe
from rl.records import Completion, Trajectory
from tests.support.batches import make_tokens
from tests.support.episodes import Count, make_runner, make_ticket
from tests.support.vector_cases import agrees, array, vectors
from tests.support.vector_groups import Records, part, paths, recipe_of, turn


def members(lengths: list[int], logp: list[float] | None = None, **fields: list[Any]) -> list[Trajectory]:
    """One trajectory of one turn for each of `lengths`; `logp` are the sampler's sums over its tokens."""
    trajectories = []
    for i, count in enumerate(lengths):
        one = turn(count)
        if logp is not None:
            one.completion = replace(one.completion, logprobs=(logp[i] / count,) * count)
        trajectories.append(Trajectory([one], Stop.TERMINATED, **{key: values[i] for key, values in fields.items()}))
    return trajectories


def reweighed(recipe: Recipe, records: Records, advantages: list[float]) -> np.ndarray:
    """What the recipe's reweigh parts make of one advantage per trajectory, all in one group."""
    credit = [[np.full(t.num_sampled, a) for t, a in zip(records.trajectories, advantages, strict=True)]]
    for reweigh in recipe.reweigh:
        credit = reweigh(records.groups, credit)
    return np.array([tokens[0] for tokens in credit[0]])


@vectors("mc_grpo_advantage")
def test_a_median_and_its_deviation_match(file: str, case: dict[str, Any]) -> None:
    rewards, size, expected = case["inputs"]["rewards"], case["params"]["num_rollouts_per_group"], case["expected"]
    records = Records(members([2] * len(rewards)), [i // size for i in range(len(rewards))], rewards)
    for key, rescale in (("math_variant", False), ("gsm_variant_nonzero_rescaled", True)):
        released = partial(scale.group_mad, floor=0.0, most=float("inf"), rescale=rescale)
        agrees(file, records.on_trajectories(recipe_of("mc_grpo").but(scale=released)), expected[f"advantages_{key}"])
    recipe = recipe_of("mc_grpo")
    normalization = recipe.normalization
    groups, ones = np.repeat(np.arange(len(rewards) // size), size), np.ones(len(rewards), dtype=np.int64)
    agrees(file, normalization.baseline(array(rewards), groups, ones), expected["baseline_per_sample"])
    assert (records.on_trajectories(recipe)[np.array(expected["pivot_mask"])] == 0).all()
    assert np.abs(records.on_trajectories(recipe)).max() <= 5


@vectors("mc_grpo_minabs_ablation")
def test_its_ablation_is_grpo(file: str, case: dict[str, Any]) -> None:
    rewards, size = case["inputs"]["rewards"], case["params"]["G"] + 1
    records = Records(members([2] * len(rewards)), [i // size for i in range(len(rewards))], rewards)
    recipe = recipe_of("grpo", scale="group_std:eps=0.0001")
    agrees(file, records.on_trajectories(recipe), case["expected"]["advantages"])


@vectors("ace_error_penalty")
def test_errors_that_became_likely_are_corrected_more(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    trajectories = members(inputs["length"], inputs["seq_logp"])
    for one, total in zip(trajectories, inputs["seq_ref_logp"], strict=True):
        one.turns[0].streams["ref"] = (total / one.num_sampled,) * one.num_sampled
    options = {key: params[key] for key in ("alpha", "temperature", "gate", "confidence")}
    recipe = recipe_of("ace", reweigh=part("overconfident_errors", **options, cap=params["cap"] or 1e9))
    records = Records(trajectories, [0] * len(trajectories))
    agrees(file, reweighed(recipe, records, inputs["advantage"]), case["expected"]["advantage"])


@vectors("uniqueness_weight")
def test_rare_successes_weigh_more(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    success = [bool(x) for x in inputs["correct"]]
    trajectories = members([2] * len(success), success=success)
    for one, label in zip(trajectories, inputs["cluster"], strict=True):
        one.turns[0].reply = {"role": "assistant", "content": f"plan {'abcdef'[label]} with {7 * label} steps"}
    scope = {"correct": "successes", "all": "all"}[params["scope"]]
    norm = {"mean1": "mean", "none": "none"}[params["normalise"]]
    recipe = recipe_of("uniqueness", reweigh=part("rare_successes", alpha=params["alpha"], scope=scope, norm=norm))
    records = Records(trajectories, [0] * len(success))
    agrees(file, reweighed(recipe, records, inputs["advantage"]), case["expected"]["advantage"])


@vectors("xrpo")
def test_unlikely_successes_gain(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    if params["kind"] != "novelty":
        return  # of the allocator, in `test_task_vectors.py`
    trajectories = members(inputs["length"], inputs["seq_logp"], success=[bool(x) for x in inputs["correct"]])
    text = part("novel_successes", bonus=params["lambda_nov"], cap=params["kappa_clip"])
    records = Records(trajectories, [0] * len(trajectories))
    agrees(
        file,
        reweighed(recipe_of("xrpo", reweigh=text), records, inputs["advantage"]),
        case["expected"]["advantage"],
    )


@vectors("d3s_selection")
def test_the_most_varied_trajectories_and_the_telling_tokens_are_kept(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    if params["kind"] == "max_variance_subset":
        advantages = inputs["advantages"]
        recipe = recipe_of("d3s", reweigh=part("most_spread", share=params["n"] / len(advantages)))
        records = Records(members([2] * len(advantages)), [0] * len(advantages))
        shifted = [a + 10 for a in advantages]  # so that what was left out can be told from an advantage of 0
        kept = reweighed(recipe, records, shifted)
        selected = np.sort(kept[kept != 0] - 10)
        agrees(file, selected, expected["selected_sorted"])
        agrees(file, selected.var(), expected["max_variance"])
        return
    mask = [[float(x is not None) for x in row] for row in inputs["entropy"]]
    entropy = [[x or 0.0 for x in row] for row in inputs["entropy"]]
    zeros = (0 * array(entropy)).tolist()
    batch = make_tokens(zeros, zeros, inputs["advantage"], mask, entropy=entropy)
    step = part("top_tokens", share=params["fraction"])
    streams, _ = step_streams(replace(batch, logp=batch.logp.detach()), recipe_of("d3s", step=step))
    agrees(file, (streams["weight"] > 0).double(), expected["mask"])


@vectors("mssr_mvsr")
def test_a_task_is_compared_with_its_own_past(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    if "recent_kl" in inputs:
        bounds = {"low": params["rho_min"], "high": params["rho_max"], "target": params["target_kl"]}
        agrees(file, priors.forgetting(inputs["recent_kl"], **bounds, released=True), expected["rho"])
        return
    names = sorted(set(inputs["prompt_ids"]) | set(inputs["tracker_init"]))
    recipe = recipe_of("mssr", reweigh=part("surprise", alpha=params["entropy_alpha"], kappa=params["entropy_kappa"]))
    if not params["entropy_shaping"]:
        recipe = recipe.but(reweigh=())
    start = {
        str(names.index(task)): [8.0 * np.mean(seen), 8 - 8.0 * np.mean(seen)]
        for task, seen in inputs["tracker_init"].items()
    }
    recipe.credit.load_state_dict({"counts": start, "divergences": []})
    trajectories = []
    for logp, mask in zip(inputs["logp"], inputs["response_mask"], strict=True):
        sampled = tuple(x for x, m in zip(logp, mask, strict=True) if m)
        zeros = (0,) * len(sampled)
        one = turn(len(sampled))
        one.completion = Completion(zeros, sampled, sampled, zeros)
        trajectories.append(Trajectory([one], Stop.TERMINATED))
    records = Records(trajectories, range(len(trajectories)), inputs["scores"])
    for group, task in zip(records.groups, inputs["prompt_ids"], strict=True):
        group.ticket = replace(group.ticket, index=names.index(task))
    credit = recipe.credit(records.groups, recipe.normalization)
    for reweigh in recipe.reweigh:
        credit = reweigh(records.groups, credit)
    table, mask = array(expected["advantages"]), array(inputs["response_mask"]) > 0
    agrees(file, np.concatenate([tokens for of_group in credit for tokens in of_group]), table[mask])
    after = recipe.credit.state_dict()["counts"]
    for task, pair in expected["alpha_beta_after"].items():
        agrees(file, after[str(names.index(task))], pair)


class Pays(Count):
    """One turn, worth always the same."""

    goal = 1

    def __init__(self, reward: float) -> None:
        super().__init__()
        self.worth = reward

    def reply(self, action):
        return Outcome((), self.worth, True, self.worth > 0)


@vectors("v05_fusion")
def test_a_mean_is_drawn_towards_what_was_expected(file: str, case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    if case["params"].get("kind") == "osla":
        stream, params, trace = inputs["reward_stream"], case["params"], []
        for count in range(params["k0"], params["k_max"]):
            errors = priors.fusion_errors(sum(stream[:count]) / count, inputs["prior"], count)
            if errors[0] - errors[1] <= params["c"]:
                break
            trace.append([count, *errors])
        agrees(file, np.array(trace).reshape(-1, 3), np.array(expected["trace"]).reshape(-1, 3))
        env = partial(Pays, (1 + stream[0]) / 2)
        part = strategy.until_settled(least=params["k0"], cost=params["c"])
        part.load_state_dict({"means": [[0, 1, inputs["prior"]]]})
        (group,) = asyncio.run(part(make_runner(env), replace(make_ticket(9, size=params["k_max"]), settled=9)))
        assert len(group.trajectories) == expected["k_stop"]
        return
    rewards = [(r + 1) / 2 for r in inputs["rewards"]]
    records = Records(members([2] * len(rewards)), ["task"] * len(rewards), rewards)
    recipe = recipe_of("v05")
    recipe.credit.load_state_dict({"means": {"0": [inputs["prior"]]}, "all": [inputs["prior"]]})
    agrees(file, records.on_trajectories(recipe), expected["advantages"])
    agrees(file, priors.fuse(expected["mean"], inputs["prior"], len(rewards)), expected["baseline"])


@vectors("fapo_advantage")
def test_flawed_successes_are_suppressed_once_they_are_outnumbered(file: str, case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    kinds = [kind for kind in ("full", "flawed", "wrong") for _ in range(inputs[kind])]
    trajectories = members([2] * len(kinds), success=[kind != "wrong" for kind in kinds])
    for one, kind in zip(trajectories, kinds, strict=True):
        one.turns[0].valid = kind != "flawed"
    recipe = recipe_of(
        "fapo", shape=part("flawed_successes", penalty=case["params"]["lam"]), scale="group_std:population=true"
    )
    records = Records(trajectories, [0] * len(kinds))
    for shape in recipe.shape:
        records.groups[0].rewards = shape(records.groups[0])
    credit = records.on_trajectories(recipe)
    agrees(file, np.mean(records.groups[0].rewards), expected["mean"])
    for kind in inputs:
        if kind in kinds:
            agrees(file, credit[kinds.index(kind)], expected[f"adv_{kind}"])


@vectors("fapo_policy_reward")
def test_a_flawed_success_earns_what_was_released(file: str, case: dict[str, Any]) -> None:
    """The judge's verdict on a reply stands for its validity; a judge that says nothing has found no flaw."""
    inputs, expected = case["inputs"], case["expected"]
    (one,) = members([2], success=[bool(inputs["rule_correct"])])
    one.turns[0].valid = not expected["judge"]
    records = Records([one], ["task"])
    (shape,) = recipe_of("fapo", shape=part("flawed_successes", penalty=case["params"]["lambda_"])).shape
    agrees(file, shape(records.groups[0]), [expected["score"]])


@vectors("stepwiser_labels")
def test_turns_are_labelled_by_what_they_lead_to(file: str, case: dict[str, Any]) -> None:
    """A tree of one path: at each node members leave, so that those who go on have the given success rate."""
    q, params = case["inputs"]["q"], case["params"]
    names, rewards = [], []
    path: list[str] = []
    for k in range(len(q) - 1):  # 16 members reach each node; those that leave make up for the next rate
        path.append(f"turn {k}")
    counts = [4 ** (len(q) - 1 - k) for k in range(len(q))]  # members that pass each node
    for k, count in enumerate(counts):
        following = counts[k + 1] if k + 1 < len(q) else 0
        successes = q[k] * count - (q[k + 1] * following if following else 0)
        leaving = count - following
        assert successes == round(successes) and 0 <= successes <= leaving
        names += [[*path[:k], f"exit {k}"]] * leaving
        rewards += [1.0] * round(successes) + [0.0] * round(leaving - successes)
    credit = part("chunk_labels", mode=params["mode"], threshold=params["threshold"], weight=1.0)
    records = paths(names, rewards)
    turns = records.per_turn(recipe_of("stepwiser", credit=credit))
    deepest = max(range(len(names)), key=lambda i: len(names[i]))
    own = records.on_trajectories(recipe_of("stepwiser", credit="outcome"))[deepest]
    labels = np.array(turns[deepest][: len(q) - 1]) - own
    expected = array(case["expected"]["labels"])
    agrees(file, labels - labels.max() + expected.max(), expected)


@vectors("verl_optimal_token_baseline", "mt_tir_optimal_token_baseline")
def test_a_baseline_per_token_matches(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    mask = array(inputs["response_mask"]) > 0
    old = array(inputs.get("old_logp", inputs.get("old_log_probs")))
    square, weights = array(inputs["sum_pi_squared"]), inputs.get("rollout_is_weights")
    rewards = inputs.get("token_level_rewards")
    trajectories = []
    for row, sampled in enumerate(mask):
        turns = []
        for t in np.flatnonzero(sampled):
            logp = float(old[row, t])
            reward = rewards[row][t] if rewards else inputs["rewards"][row] if t == np.flatnonzero(sampled)[-1] else 0.0
            one = turn(1, reward, gap=t > 0 and not sampled[t - 1])
            one.streams["square"] = (float(square[row, t]),)
            if weights is not None:
                one.streams["proximal"] = (logp,)
                logp -= float(np.log(weights[row][t]))
            one.completion = replace(one.completion, logprobs=(logp,))
            turns.append(one)
        if turns:
            trajectories.append(Trajectory(turns, Stop.TERMINATED))
    labels = [label for label, row in zip(inputs.get("group_id", inputs.get("index")), mask, strict=True) if row.any()]
    records = Records(trajectories, labels)
    tail = params.get("handle_zero_tail", params.get("variant") != "single")
    recipe = recipe_of("otb", credit=part("optimal_token", zero_tail=tail, singleton="raw"))
    expected = array(case["expected"]["advantages"])[mask]
    expected[np.abs(expected) < 1e-8] = (
        0.0  # 1e-8 is added to weights, which leaves as much of what is compared with itself
    )
    agrees(file, records.on_tokens(recipe), expected)


def weighed(norms: list[float], ratio: list[float], lengths: list[int], values: list[float]) -> Records:
    trajectories = members(lengths)
    for one, norm, weight in zip(trajectories, norms, ratio, strict=True):
        count = one.num_sampled
        one.turns[0].streams.update(gradient_norm=(norm,) * count, proximal=(float(np.log(weight)) / count,) * count)
    return Records(trajectories, [0] * len(lengths), values)


@vectors("vcpo_opob")
def test_the_baseline_of_least_variance_matches(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    minibatch = params.get("scope") == "minibatch"
    values = inputs["advantage" if minibatch else "reward"]
    credit = part(
        "minimum_variance",
        among="update" if minibatch else "group",
        per_token=bool(params.get("normalize_by_length")),
        standardised=False,
    )
    records = weighed(inputs["grad_norm"], inputs["seq_is"], inputs["length"], values)
    advantages = records.on_trajectories(recipe_of("vcpo", credit=credit))
    agrees(file, array(values) - advantages, [case["expected"]["baseline"]] * len(values))


@vectors("vcpo_gradient")
def test_the_gradient_of_least_variance_matches(file: str, case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    gradients, ratio = array(inputs["score_gradient"]), array(inputs["is_weight"])
    norms = np.linalg.norm(gradients, axis=1).tolist()
    records = weighed(norms, ratio.tolist(), [4] * len(norms), inputs["reward"])
    advantages = records.on_trajectories(recipe_of("vcpo", credit="minimum_variance:standardised=false"))
    agrees(file, array(inputs["reward"]) - advantages, [expected["baseline"]] * len(norms))
    agrees(file, (ratio * advantages) @ gradients / len(norms), expected["gradient"])
    zeros = np.zeros((len(norms), 1)).tolist()
    batch = make_tokens(zeros, np.log(ratio)[:, None].tolist(), zeros, behaviour=zeros)
    for key, rule in (("ess_ratio", "linear"), ("lr_multiplier", "sqrt")):
        recipe = recipe_of("vcpo", step=part("effective_size", base=1.0, rule=rule))
        assert step_streams(batch, recipe)[1] == pytest.approx(expected[key], rel=1e-5)
    assert torch.is_tensor(batch.old)
