"""Opens the world model that a text names.

A text is NAME or NAME:OPTIONS. NAME is, in this order:

1. `counts`: `envs.simulated.counts.Counts`; its options are `key=value,key=value`;
2. a name that an installed package registers in the entry point group `turnwise.simulators`, such as `model`; what it
   stands for is called with the text after the colon;
3. `path/to/file.py:Class` or `module:Class`, which is called without arguments, or with the text after the next colon.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from envs.adapters.named_function import load_function
from envs.arguments import arguments
from envs.env import Env
from envs.simulated.counts import Counts
from envs.simulated.prediction import Simulator
from envs.suggestions import unknown_message

GROUP = "turnwise.simulators"
COUNTS = "counts"


def open_simulator(spec: str, make_env: Callable[[], Env], key: str) -> Simulator:
    """Open the world model `spec`; see this module.

    Args:
        spec: Name and options.
        make_env: Makes the real environment, for a model that has to see it first.
        key: Names the real environment and its arguments.

    Raises:
        ValueError: There is no such model, or its options are wrong.
    """
    name, _, rest = spec.partition(":")
    if name == COUNTS:
        try:
            return Counts(make_env, key, **arguments(filter(None, rest.split(",")), _counts_options))
        except ValueError as error:
            raise ValueError(f"simulator {spec}: {error}") from None
    if point := _plug_ins().get(name):
        factory, argument = point.load(), rest
    elif ":" in spec:
        class_name, _, argument = rest.partition(":")
        factory = load_function(f"{name}:{class_name}")
    else:
        raise ValueError(unknown_message("simulator", spec, [COUNTS, *_plug_ins(), "module:Class", "file.py:Class"]))
    simulator = factory(argument) if argument else factory()
    if not callable(getattr(simulator, "predict", None)):
        raise ValueError(f"simulator {spec}: {type(simulator).__name__} has no method predict")
    return simulator


def _counts_options(*, episodes: int = 2000, mistakes: float = 0.3) -> Any:
    """The options of `counts`, for parsing."""


@cache
def _plug_ins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
