"""MedS3 (arXiv:2501.12051): GRPO on a tree searched by UCT; a turn's advantage is what it adds to its node's value.

`--size` is the size of the whole group: two members are played from the start, the others fork where returns were high.

Deviations: the paper fine-tunes on the results of its search and trains a process reward model on the values, where
here the values are the credit of the policy that searches. They are means over a tree that was searched longer where
returns were high, and so too high there. Members that are no forks share the value of the turns they have in common by
chance.
"""

from rl.methods.parts import credit, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=strategy.value_forks,
    credit=credit.value_steps,
)
