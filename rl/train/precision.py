"""In which precision a run computes and samples, and what that means for its ratios."""

from __future__ import annotations

import torch

from rl.cli import UserError
from rl.methods import conflicts
from rl.methods.parts import MISMATCH, SAMPLER_RATIO, phases, ratio, score, select
from rl.methods.recipe import Recipe
from rl.methods.streams import needs
from rl.policy.registry import FAKE_FP8, computing_dtype, default_dtype
from rl.settings import Settings

FLOAT32 = "float32"


def with_precisions(settings: Settings, device: torch.device) -> Settings:
    """Return `settings` with the precisions of trainer and sampler that are not asked for.

    On CUDA a model that has been trained before computes in bfloat16, with float32 copies of its weights for the
    optimiser; the bundled model, and any model on a CPU, in float32. Log-probabilities of bfloat16 differ by about 0.01
    between any two ways to compute them, also between two in bfloat16, so ratios are decoupled unless both sides
    compute in float32. On CUDA float32 matrices are multiplied in TF32 from then on, with 10 bits of mantissa and
    float32 sums.
    """
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    dtype = settings.dtype or computing_dtype(device.type, is_tiny=settings.is_tiny)
    settings = settings.with_derived(dtype=dtype)
    settings = settings.with_derived(engine_dtype=default_dtype(settings.engine, device.type, dtype))
    if dtype == FAKE_FP8:
        _check_emulation(settings)
    return settings.with_derived(decoupled={dtype, settings.engine_dtype} not in ({FLOAT32}, {FAKE_FP8}))


def _check_emulation(settings: Settings) -> None:
    """Raise `UserError` for settings that a trainer that rounds to FP8 does not go with."""
    others = {"--trainers": settings.trainers > 1, "--lora": settings.lora > 0}
    if other := next((flag for flag, is_set in others.items() if is_set), None):
        raise UserError(f"--dtype {FAKE_FP8} does not go with {other}; leave one of them out")
    if settings.engine_dtype != FAKE_FP8:
        raise UserError(f"--dtype {FAKE_FP8}: the sampler must round too; leave out --engine-dtype")


def description(settings: Settings) -> str:
    """Return one line about ratios that are decoupled without having been asked for; else ""."""
    if not settings.decoupled or "decoupled" not in settings.derived:
        return ""
    return (
        f"trained in {settings.dtype}, sampled in {settings.engine_dtype}: ratios compare with the trainer's own "
        "log-probabilities, one forward pass more per update (--no-decoupled: with the sampler's)"
    )


def trained_recipe(settings: Settings, recipe: Recipe) -> Recipe:
    """Return the recipe that updates follow: `recipe`, decoupled where the settings say so."""
    return decouple(recipe) if settings.decoupled else recipe


def decouple(recipe: Recipe) -> Recipe:
    """Return `recipe` with ratios against the trainer's own log-probabilities before the update.

    How far the sampler's differ from them is weighed by `mismatch_tis` where the recipe gives all tokens the weight 1.
    A recipe that has these log-probabilities already, that compares with the sampler's on purpose, or that has no ratio
    against the sampling policy, is returned as it is.
    """
    has_ratio_of_its_own = recipe.ratio is ratio.on_policy or conflicts.has(recipe, SAMPLER_RATIO)
    if needs(recipe, "proximal") or has_ratio_of_its_own or recipe.phases is not phases.joint:
        return recipe
    if recipe.select in ((), (select.every_token,)) and not conflicts.excludes(recipe, MISMATCH):
        return recipe.but(select=(select.mismatch_tis,))
    return recipe.but(score=(*recipe.score, score.proximal))
