"""Checks of a recipe before it is given any work: every part is called once, on toy episodes that need no model."""

from rl.checks.parts import RecipeFault
from rl.checks.recipe import Sample, check_recipe, learns_from_single_episodes

__all__ = ["RecipeFault", "Sample", "check_recipe", "learns_from_single_episodes"]
