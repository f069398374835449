"""The advantage of each sampled token: `(groups, norm) -> credit`.

`groups` are all groups of the optimiser step; `norm` holds the recipe's `baseline` and `scale`. Credit nests
group > trajectory > (T,) float64 array over the trajectory's T sampled tokens, of all turns in order.

| module | credit from |
|---|---|
| `trajectory` | returns of whole trajectories, or rewards token by token |
| `turn` | returns of single turns |
| `state` | returns of turns that began in the same state |
| `graph` | what the states that turns led to were worth to all members |
| `gain` | information that turns gave the policy |
| `reward` | several named rewards, roles, and some of the trajectories only |
| `role` | returns of a seat, against a moving average |
| `tracker` | returns, against what a task has been worth so far |
| `tree` | turns that members of a group share |
| `critic` | a critic's values |
| `variance` | returns, against baselines of least variance |
| `distil` | how much a success is to be imitated, and a failure to be corrected by a teacher |
| `scored` | advantages that a score part has computed, or the best replies by them |
"""

from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.parts.credit.critic import bilevel_gae, gae, gae_with_gain, turn_gae
from rl.methods.parts.credit.distil import calibrated_paths
from rl.methods.parts.credit.gain import gated_gain, information_gain
from rl.methods.parts.credit.graph import graph_values
from rl.methods.parts.credit.reward import by_role, decoupled, most_varied, resampled_on_correct
from rl.methods.parts.credit.role import role_average
from rl.methods.parts.credit.scored import best_replies, improved_policy, scored
from rl.methods.parts.credit.state import anchored, hierarchical
from rl.methods.parts.credit.tracker import beta_value, fused_prior
from rl.methods.parts.credit.trajectory import outcome, reward_to_go
from rl.methods.parts.credit.tree import (
    chunk_labels,
    depth_wise,
    forked,
    shared_prefix,
    staged,
    value_steps,
    within_trees,
)
from rl.methods.parts.credit.turn import matched_returns, turn_returns
from rl.methods.parts.credit.variance import minimum_variance, optimal_token

__all__ = [
    "TokenAdvantages",
    "anchored",
    "best_replies",
    "beta_value",
    "bilevel_gae",
    "by_role",
    "calibrated_paths",
    "chunk_labels",
    "decoupled",
    "depth_wise",
    "forked",
    "fused_prior",
    "gae",
    "gae_with_gain",
    "gated_gain",
    "graph_values",
    "hierarchical",
    "improved_policy",
    "information_gain",
    "matched_returns",
    "minimum_variance",
    "most_varied",
    "optimal_token",
    "outcome",
    "resampled_on_correct",
    "reward_to_go",
    "role_average",
    "scored",
    "shared_prefix",
    "staged",
    "turn_gae",
    "turn_returns",
    "value_steps",
    "within_trees",
]
