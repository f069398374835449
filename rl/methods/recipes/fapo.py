"""FAPO (arXiv:2510.22543): GRPO in which a success with a flaw on its way earns less than one without.

Deviations: the paper asks a judge for the first wrong step, which takes `--verdict first_error --judge SPEC`
(docs/judges.md); without one, a flaw is a reply that was not valid
(`shape=(partial(shape.flawed_successes, metric="NAME"),)` reads an environment's step checker). The loss is GRPO's. The
judge itself can be trained on `math/FirstError-v0` with `--env-arg rule=fapo`.
"""

from rl.methods.parts import shape
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(shape=(shape.flawed_successes,))
