"""SCOPE (signal-calibrated on-policy distillation, 2026): imitates successes; failures learn from a teacher.

The teacher is a model with the policy's vocabulary: `--score teacher:model=FOLDER`, or `model=NAME@http://HOST:PORT/v1`
for a vLLM server. Without one it is the policy as it was when the run began. It costs a forward pass of the teacher.

Deviations: weights have mean 1 within each path of a group, where the paper's add up to 1, and tokens are averaged,
where it adds them up; so the step does not grow with replies. The authors' release prefers successes that the policy
finds likely (`credit=calibrated_paths:student=sure`), and the paper those that it finds unlikely, as here.
"""

from rl.methods.parts import credit, reduce, score, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    score=(score.teacher,), credit=credit.calibrated_paths, surrogate=surrogate.dual_path, reduce=reduce.token_mean
)
