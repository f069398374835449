"""LATR (arXiv:2510.24302): GRPO on trees whose members fork where another token is about as likely and leads elsewhere.

Deviations: the release decodes greedily between forks, so that ratios have no meaning there; here all tokens but those
that a fork begins with are sampled, and these are not learned from. Members fork one after the other, each from what it
has said to its end. A fork that ends within the look-ahead stays if it differs. Limits are those of the release for
Countdown, and the shrinking share of groups that are trees is its schedule for mathematics; no similarity of suffixes,
and no list of tokens without meaning.
"""

from rl.methods.parts import reweigh, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.look_ahead, reweigh=(reweigh.unforced,))
