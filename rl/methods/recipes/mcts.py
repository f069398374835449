"""MedS3 (arXiv:2501.12051): GRPO on a tree searched by UCT; each turn earns what it adds to the value of its place.

Give the `--size` of the whole group: two members are played from the start, the others fork where returns were high.

Deviations: the paper fine-tunes on what its search found and trains a process reward model on the values, where here
the values are the credit of the policy that searches; they are means over a tree that has looked longer where it was
good, and so too high there; members that are no forks have the values of what they share by chance.
"""

from rl.methods.parts import credit, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=strategy.value_forks,
    credit=credit.value_steps,
)
