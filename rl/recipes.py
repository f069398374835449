"""Public names of the recipes, `rl.recipes.NAME.recipe`. Their files are in `rl/methods/recipes`."""

import sys
from importlib import import_module
from pkgutil import iter_modules

from rl.methods import recipes as _package

__path__: list[str] = []  # makes this module a package, whose modules are the ones imported below

for _module in iter_modules(_package.__path__):
    globals()[_module.name] = sys.modules[f"{__name__}.{_module.name}"] = import_module(
        f"{_package.__name__}.{_module.name}"
    )


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    from envs.suggestions import unknown_message

    raise AttributeError(
        unknown_message("recipe", name, [key for key in globals() if f"{__name__}.{key}" in sys.modules])
    )
