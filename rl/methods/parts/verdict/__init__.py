"""What another model thinks of an episode: `async (judge, group) -> None`. A verdict part writes metrics of turns.

The run asks as soon as a group has ended, while other groups are played, and the group waits for its verdicts before
its rewards are shaped. What a part writes into `turn.metrics`, under a name that begins with `judge/`, is recorded with
the episode; shape and credit parts read it there. A verdict part changes nothing else: whether an episode is a success
is decided by the environment alone.

The policy is judged by its own words, so it may learn to write what persuades the judge. Let a verdict take away from
what the environment has paid rather than add to it, and look at episodes that the judge likes.
"""

from rl.methods.parts.verdict.first_error import first_error
from rl.methods.parts.verdict.questions import Judge
from rl.methods.parts.verdict.rating import rating

__all__ = ["Judge", "first_error", "rating"]
