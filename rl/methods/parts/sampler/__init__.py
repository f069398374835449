"""Which task is played next: `(history, rng) -> index`. The training loop calls a sampler through `History.draw`.

A sampler with memory is a dataclass that is saved with the run. It takes over what `History.since` has to report, in
whatever order groups end, and never relies on a task that it has drawn coming back.
"""

from rl.methods.parts.sampler.bandits import variance_bandit
from rl.methods.parts.sampler.banks import variance_bank
from rl.methods.parts.sampler.history import History, Result
from rl.methods.parts.sampler.plain import difficulty_pool, in_reach, shuffled, skip_solved, uniform
from rl.methods.parts.sampler.runs import skip_settled
from rl.methods.parts.sampler.target import near_target

__all__ = [
    "History",
    "Result",
    "difficulty_pool",
    "in_reach",
    "near_target",
    "shuffled",
    "skip_settled",
    "skip_solved",
    "uniform",
    "variance_bandit",
    "variance_bank",
]
