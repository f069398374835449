"""Credit of members that share turns: each recipe's own credit against numbers derived by hand from the papers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl.methods.estimators import trees
from tests.support.vector_cases import agrees, array, vectors
from tests.support.vector_groups import completions, part, paths, recipe_of


@vectors("mt_arpo_advantage_attribution")
def test_shared_steps_earn_the_mean_of_their_trajectories(file: str, case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    records = paths(inputs["segments"], inputs["reward"])
    scale = part("group_std", eps=case["params"]["epsilon"])
    hard = recipe_of("arpo", credit="shared_prefix", scale=scale)
    agrees(file, records.on_turns(hard), np.concatenate(expected["hard_segment_advantage"]))
    soft = recipe_of("arpo", credit="outcome", scale=scale)
    agrees(file, records.on_turns(soft), np.concatenate(expected["soft_segment_advantage"]))
    agrees(file, records.on_trajectories(soft), expected["trajectory_advantage"])


@vectors("mt_arpo_entropy_branching")
def test_the_more_uncertain_a_reply_the_likelier_a_fork(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    score = trees.fork_score(
        inputs["u"], inputs["entropy_init"], inputs["entropy_now"], weight=params["entropy_weight"]
    )
    agrees(file, score, expected["score"])
    assert (score <= params["branch_probability"]) is expected["branch"]


@vectors("mt_portool_tree_advantage")
def test_forks_and_trajectories_are_compared_apart(file: str, case: dict[str, Any]) -> None:
    """A format reward is paid as its difference from the best: only differences between siblings count."""
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    parent = {child: name for name, children in inputs["children"].items() for child in children}
    leaves = list(inputs["leaf_outcome"])
    names = []
    for leaf in leaves:
        names.append([leaf])
        while parent[names[-1][0]] != "root":
            names[-1].insert(0, parent[names[-1][0]])
    formats = {name: inputs["format_reward"].get(name, 0.0) for path in names for name in path}
    best, worst = max(formats.values()), min(formats.values())
    assert set(formats.values()) <= {best, worst}
    invalid = [name for name, reward in formats.items() if reward < best]
    records = paths(names, [inputs["leaf_outcome"][leaf] for leaf in leaves], invalid)
    scale = part("group_std", eps=params["epsilon"])
    assert params["epsilon"] == 1e-6

    def credit(fork: float, trajectory: float) -> list[list[float]]:
        options = {"gamma": params["gamma"], "fork": fork, "trajectory": trajectory, "valid": best - worst}
        return records.per_turn(recipe_of("portool", credit=part("forked", **options), scale=scale))

    both = credit(params["w_fork"], params["w_traj"])
    agrees(file, np.concatenate(both), np.concatenate([expected["step_advantage_by_leaf"][leaf] for leaf in leaves]))
    forks = [expected["fork_advantage"][name] for path in names for name in path]
    agrees(file, np.concatenate(credit(1.0, 0.0)), forks)
    own = [path[-1] for path in credit(0.0, 1.0)]
    agrees(file, own, [expected["trajectory_advantage"][leaf] for leaf in leaves])


KINDS = {"mean": "expectation", "max": "optimistic", "min": "pessimistic"}


@vectors("mt_tree_opo_advantage")
def test_staged_advantages_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    rewards = array(inputs["reward"])
    records = completions(inputs["parent"], rewards)
    below = trees.prefix_subtrees(records.groups[0])
    for kind, name in KINDS.items():
        agrees(file, trees.subtree_values(rewards, below, kind=kind), expected[f"V_{name}"])  # type: ignore[arg-type]
        recipe = recipe_of("tree_opo", credit=part("staged", alpha=params["alpha"], value=kind))
        result = [tokens[-1] for tokens in records.credit(recipe)]
        agrees(file, result, expected["advantage_heuristic"][name])
        assert not any(tokens[:-1].any() for tokens in records.credit(recipe))
    agrees(file, trees.staged_in_order(rewards, inputs["order_pairs"], margin=params["delta"]), expected["sae_soft"])
    if sorted(trees.order(rewards > 0, below)) == sorted(map(tuple, inputs["order_pairs"])):
        ordered = recipe_of("tree_opo", credit=part("staged", ordered=True, margin=params["delta"]))
        agrees(file, [tokens[-1] for tokens in records.credit(ordered)], expected["sae_soft"])


def test_an_order_that_cannot_be_kept_has_no_advantages() -> None:
    assert trees.staged_in_order(np.array([1.0, 0.0]), [(0, 1), (1, 0)], margin=0.5) is None
