"""BroRL (arXiv:2510.01180): GRPO with many more episodes of each task; use as many fewer `--groups`.

Deviations: the factor is 4 (`allot=broad:times=N`), where the paper goes to 512 episodes; its loss has further terms.
"""

from rl.methods.parts import allot
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(allot=allot.broad)
