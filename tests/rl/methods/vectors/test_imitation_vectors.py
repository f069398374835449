"""Learning from a teacher and from recorded answers, against other trainers' numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from rl.learner.logprobs import score_draws
from rl.learner.loss import policy_loss
from rl.methods import recipe as recipes
from rl.methods.estimators import critic_targets
from rl.methods.parts import credit, surrogate
from rl.records import Group, Trajectory
from tests.support.batches import make_group, make_tokens, make_trajectory
from tests.support.vector_cases import agrees, array, vectors


def weighed(
    groups: list[Group], part: partial[Any], student: list[Trajectory], teacher: list[Trajectory]
) -> tuple[list[float], list[float]]:
    """The weights of `student`'s trajectories on the path of successes, and of `teacher`'s on that of failures."""
    recipe = recipes.load("scope_opd").but(credit=part)
    by_member = {}
    for group, of_group in zip(groups, recipe.credit(groups, recipe.normalization), strict=True):
        for member, tokens in zip(group.trajectories, of_group, strict=True):
            assert len(set(tokens.tolist())) == 1
            by_member[id(member)] = float(tokens[0])
    return [max(by_member[id(m)], 0.0) for m in student], [max(-by_member[id(m)], 0.0) for m in teacher]


def one_reply(own: list[float], others: list[float], reward: float) -> Trajectory:
    """A trajectory whose tokens have these log-probabilities under the policy and under the teacher."""
    member = make_trajectory((len(own), reward))
    member.turns[0].completion = replace(member.turns[0].completion, logprobs=tuple(own))
    member.turns[0].streams["teacher"] = tuple(others)
    return member


@vectors("scope_opd_weights")
def test_the_paths_are_weighed_as_released(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    lengths = array(inputs["response_mask"]).sum(1).astype(int)
    rows = zip(inputs["student_logp"], inputs["teacher_logp"], inputs["reward"], lengths, strict=True)
    members = [one_reply(own[:length], others[:length], reward) for own, others, reward, length in rows]
    ids = inputs["group_id"]
    groups = [
        make_group(*(member for member, one in zip(members, ids, strict=True) if one == number), number=number)
        for number in dict.fromkeys(ids)
    ]
    part = partial(
        credit.calibrated_paths,
        tau=params["tau"] if params.get("use_seq_weights", True) else float("inf"),
        student="sure" if params["student_path_ppl_positive"] else "unsure",
        teacher="sure" if params["teacher_path_ppl_positive"] else "unsure",
    )
    student, teacher = weighed(groups, part, members, members)
    agrees(file, student, expected["student_weights"])
    agrees(file, teacher, expected["teacher_weights"])


@vectors("scope_opd_paper")
def test_successes_are_imitated_and_failures_corrected_by_the_teacher(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    if params.get("kind") != "loss":
        own = [-np.log(inputs["student_ppl_of_correct"]).item(k) for k in range(len(inputs["student_ppl_of_correct"]))]
        others = (-np.log(inputs["teacher_ppl_of_wrong"])).tolist()
        successes = [one_reply([logp, logp], [-9.0, -1.0], 1.0) for logp in own]
        failures = [one_reply([-1.0], [logp], 0.0) for logp in others]
        part = partial(credit.calibrated_paths, tau=params["tau"], total="one")
        student, teacher = weighed([make_group(*failures, *successes)], part, successes, failures)
        agrees(file, student, expected["student_weights"])
        agrees(file, teacher, expected["teacher_weights"])
        return
    weights = [
        own if is_right else -other
        for own, other, is_right in zip(inputs["w_student"], inputs["w_teacher"], inputs["correct"], strict=True)
    ]
    teacher_logp = torch.tensor(inputs["teacher_logp"], dtype=torch.float64)
    batch = make_tokens(inputs["logp"], inputs["old_logp"], weights, streams={"teacher": teacher_logp})
    loss = policy_loss(replace(batch, share=batch.mask.double()), recipes.load("scope_opd"))
    loss.backward()
    agrees(file, loss, expected["loss"])
    agrees(file, batch.logp.grad, expected["grad_logp"])


@vectors("otr_loss")
def test_a_position_is_an_episode_of_one_token(file: str, case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    logits = torch.tensor(inputs["logits"], dtype=torch.float64, requires_grad=True)
    logprobs, target = logits.log_softmax(-1), torch.tensor(inputs["ground_truth"])
    drawn, hits = score_draws(logprobs, torch.tensor(inputs["samples"]), target)
    recipe = recipes.load("otr")
    recipe = recipe.but(surrogate=partial(surrogate.one_token, **case["params"]))
    zeros = [[0.0] * len(target)]
    batch = make_tokens(zeros, zeros, zeros, streams={"drawn": drawn[None], "hits": hits[None]})
    batch = replace(batch, logp=logprobs.gather(1, target[:, None]).T)
    share = recipe.reduce(batch.mask.double(), batch.labels)
    loss = policy_loss(replace(batch, share=share), recipe)
    loss.backward()
    agrees(file, loss, expected["loss"])
    agrees(file, logits.grad, expected["grad_logits"])


@vectors("digiq_extraction")
def test_the_best_reply_to_a_state_is_imitated_if_it_is_good_enough(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    if params.get("kind") == "targets":
        done, reward = np.array([float(inputs["done"])]), np.array([inputs["reward"]])
        target = critic_targets.action_target(reward, done, np.array([inputs["v_next_target"]]), gamma=params["gamma"])
        agrees(file, target, [expected["q_regression_target"]])
        assert inputs["q_pi_target"] == expected["v_regression_target"]  # which `reply_advantage` regresses V on
        return
    (q1, q2), (v1, v2) = (tuple(array(inputs[f"{name}{k}"]) for k in (1, 2)) for name in "qv")
    advantages = critic_targets.advantage((q1, q2), (v1, v2), greater=True)
    members = [make_trajectory((2, 0.0)) for _ in advantages]
    for member, number, valid in zip(members, advantages, inputs["valid"], strict=True):
        member.turns[0].valid = bool(valid)
        member.turns[0].streams["reply_advantage"] = (float(number),) * 2
    recipe = recipes.load("digiq").but(credit=partial(credit.best_replies, threshold=params["threshold"]))
    (result,) = recipe.credit([make_group(*members)], recipe.normalization)
    weights = [0.0] * len(members)
    weights[expected["index"]] = expected["weight"]
    assert [tokens.tolist() for tokens in result] == [[weight] * 2 for weight in weights]
    values = np.where(array(inputs["valid"]) > 0, advantages, 0.0)
    agrees(file, values[expected["index"]].clip(0, 1), expected["advantage"])


def test_replies_to_other_states_and_groups_are_not_compared() -> None:
    one, other = make_trajectory((1, 0.0), (2, 0.0)), make_trajectory((1, 0.0), (1, 1.0))
    other.turns[1].state = "elsewhere"
    alone = make_trajectory((1, 0.0))
    for member, numbers in ((one, (0.3, 0.1)), (other, (0.2, 0.9)), (alone, (0.06,))):
        for turn, number in zip(member.turns, numbers, strict=True):
            turn.streams["reply_advantage"] = (number,) * len(turn.completion.ids)
    recipe = recipes.load("digiq")
    groups = [make_group(one, other), make_group(alone, number=1)]
    result = recipe.credit(groups, recipe.normalization)
    assert [[tokens.tolist() for tokens in of_group] for of_group in result] == [[[1, 1, 1], [0, 1]], [[1]]]
