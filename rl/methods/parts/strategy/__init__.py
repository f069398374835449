"""How a ticket becomes a group: `async (runner, ticket) -> Group`. A strategy decides which episodes are played.

A strategy is deterministic: what it draws is keyed by the ticket's seed, and what it decides rests on what its members
said and earned, never on which of them was faster. So a run that was interrupted can ask it again and play on.
"""

from rl.methods.parts.strategy.forks import chain_forks, entropy_forks, level_forks, random_forks
from rl.methods.parts.strategy.independent import independent
from rl.methods.parts.strategy.pivot import pivot
from rl.methods.parts.strategy.replay import replay
from rl.methods.parts.strategy.search import value_forks
from rl.methods.parts.strategy.semi_online import semi_online

__all__ = [
    "chain_forks",
    "entropy_forks",
    "independent",
    "level_forks",
    "pivot",
    "random_forks",
    "replay",
    "semi_online",
    "value_forks",
]
