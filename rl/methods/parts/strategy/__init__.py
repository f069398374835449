"""How a ticket becomes groups: `async (runner, ticket) -> list[Group]`. A strategy decides which episodes are played.

It returns one group for an environment of one agent, and for several seats one for each of them. A strategy that can
play several seats says so with `rl.methods.parts.plays_seats`.

A strategy is deterministic: its random draws are keyed by the ticket's seed, and its decisions depend on what its
members replied and were rewarded, never on which of them was faster. So a resumed run can call it again and continue.
"""

from rl.methods.parts.strategy.forks import chain_forks, entropy_forks, level_forks, random_forks, scheduled_forks
from rl.methods.parts.strategy.guided import guided, hinted
from rl.methods.parts.strategy.independent import independent
from rl.methods.parts.strategy.paraphrased import paraphrased
from rl.methods.parts.strategy.pivot import pivot
from rl.methods.parts.strategy.recorded import recorded
from rl.methods.parts.strategy.recycled import recycled
from rl.methods.parts.strategy.redundant import redundant
from rl.methods.parts.strategy.replay import bounded_replay, replay
from rl.methods.parts.strategy.replies.look_ahead import look_ahead
from rl.methods.parts.strategy.replies.pruned import pruned
from rl.methods.parts.strategy.replies.quota import quota
from rl.methods.parts.strategy.replies.recalled import recalled
from rl.methods.parts.strategy.replies.token_forks import token_forks
from rl.methods.parts.strategy.roles import by_role, main_and_calls
from rl.methods.parts.strategy.search import value_forks
from rl.methods.parts.strategy.semi_online import semi_online
from rl.methods.parts.strategy.stages import by_priority, more_for_hard, until_settled
from rl.methods.parts.strategy.stored import replay_groups
from rl.methods.parts.strategy.swarm import swarm
from rl.methods.parts.strategy.turn_tree import turn_tree
from rl.methods.parts.strategy.voted import majority_labels

__all__ = [
    "bounded_replay",
    "by_priority",
    "by_role",
    "chain_forks",
    "entropy_forks",
    "guided",
    "hinted",
    "independent",
    "level_forks",
    "look_ahead",
    "main_and_calls",
    "majority_labels",
    "more_for_hard",
    "paraphrased",
    "pivot",
    "pruned",
    "quota",
    "random_forks",
    "recalled",
    "recorded",
    "recycled",
    "redundant",
    "replay",
    "replay_groups",
    "scheduled_forks",
    "semi_online",
    "swarm",
    "token_forks",
    "turn_tree",
    "until_settled",
    "value_forks",
]
