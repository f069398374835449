"""How much each sampled token earns: `(groups, norm) -> credit`.

Credit nests group > trajectory > (T,) float64 array over the sampled tokens of all turns, in order. Statistics run over
all groups of the optimiser step.
"""

from rl.methods.estimators.turn_table import Credit
from rl.methods.parts.credit.critic import bilevel_gae, gae, gae_with_gain, turn_gae
from rl.methods.parts.credit.gain import gated_gain, information_gain
from rl.methods.parts.credit.reward import by_role, decoupled, most_varied, resampled_on_correct
from rl.methods.parts.credit.scored import scored
from rl.methods.parts.credit.state import anchored, hierarchical
from rl.methods.parts.credit.trajectory import outcome, reward_to_go
from rl.methods.parts.credit.tree import forked, shared_prefix, staged, value_steps, within_trees
from rl.methods.parts.credit.turn import matched_returns, turn_returns

__all__ = [
    "Credit",
    "anchored",
    "bilevel_gae",
    "by_role",
    "decoupled",
    "forked",
    "gae",
    "gae_with_gain",
    "gated_gain",
    "hierarchical",
    "information_gain",
    "matched_returns",
    "most_varied",
    "outcome",
    "resampled_on_correct",
    "reward_to_go",
    "scored",
    "shared_prefix",
    "staged",
    "turn_gae",
    "turn_returns",
    "value_steps",
    "within_trees",
]
