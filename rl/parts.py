"""Public names of the parts, `rl.parts.SLOT.NAME`. Their files are in `rl/methods/parts`."""

import sys
from importlib import import_module
from pkgutil import iter_modules

from rl.methods import parts as _package
from rl.methods.parts import needs

__all__ = ["needs"]
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
        unknown_message("slot", name, [key for key in globals() if f"{__name__}.{key}" in sys.modules])
    )
