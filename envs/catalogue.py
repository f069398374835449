"""Environments by name: register one, find its class, make one, list all."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

import gymnasium

from envs.arguments import parameters, required
from envs.rows import ROWS, Row
from envs.source_files import executed
from envs.suggestions import unknown

GROUP = "turnwise.envs"
ENTRY_POINT = re.compile(r"\w+(\.\w+)*:\w+")


def register(id: str, entry_point: str | Callable[..., gymnasium.Env], **kwargs: Any) -> None:
    """Add an environment to Gymnasium's registry under `id`, such as `"games/Mine-v0"`.

    `entry_point` is `"module:Class"`, imported when first made. `kwargs` are arguments of its constructor. The same id
    with the same content may be registered again; with other content it raises ValueError, as another form of
    `entry_point` does.
    """
    if isinstance(entry_point, str) and not ENTRY_POINT.fullmatch(entry_point):
        raise ValueError(f"entry point {entry_point!r} of {id!r} is not of the form 'module:Class'")
    known = gymnasium.registry.get(id)
    if known is not None:
        if (known.entry_point, known.kwargs) == (entry_point, kwargs):
            return
        raise ValueError(f"environment {id!r} is already registered as {known.entry_point}; choose another version")
    # Our class checks the order of calls itself, and a checker around each episode's environment would cost more
    # than many an episode.
    gymnasium.register(id, entry_point, order_enforce=False, disable_env_checker=True, kwargs=kwargs)


def make(spec: str, **arguments: Any) -> gymnasium.Env:
    """Make the environment that `spec` names, with these arguments of its constructor.

    `spec` is an id (`math/Arithmetic-v0`), `module:Name-v0` (the module registers it), `module:Class` or
    `path/to/file.py:Class`. An id that nobody registered is looked up in the entry points of the group
    `turnwise.envs`. Raises ValueError for an unknown name or argument.
    """
    found = find(spec)
    try:
        if isinstance(found, gymnasium.envs.registration.EnvSpec):
            return gymnasium.make(found, disable_env_checker=True, **arguments)
        return found(**arguments)
    except TypeError:
        known = parameters(entry(spec))
        for name in arguments:
            if known is not None and name not in known:
                raise ValueError(unknown("argument", name, known, of=spec)) from None
        for name in required(entry(spec)) - {**getattr(found, "kwargs", {}), **arguments}.keys():
            raise ValueError(f"{spec} needs the argument {name!r}, as in --env-arg {name}=...") from None
        raise


def find(spec: str) -> Any:
    """What `spec` names: Gymnasium's EnvSpec where there is one, else a class. Raises ValueError for an unknown one."""
    if (known := gymnasium.registry.get(spec)) is not None:
        return known
    source, colon, name = spec.rpartition(":")
    if colon:
        module = executed(source) if source.endswith(".py") else _module(source, spec)
        if isinstance(getattr(module, name, None), type):
            return getattr(module, name)
        if name in gymnasium.registry:
            return gymnasium.registry[name]
        raise ValueError(unknown("environment", name, [*_classes(module), *_registered_by(source)], of=source))
    if spec.endswith(".py"):
        classes = [f"{spec}:{name}" for name in _classes(executed(spec))]
        raise ValueError(f"{spec!r} is a file; name a class of it: {', '.join(classes) or 'there is none'}")
    broken = _plug_in(spec)
    if spec in gymnasium.registry:
        return gymnasium.registry[spec]
    try:
        return gymnasium.spec(spec)  # knows ids without a version
    except gymnasium.error.Error:
        names = [*gymnasium.registry, *(point.name for point in _points())]
        message = unknown("environment", spec, names, prefer=[row.id for row in ROWS])
        raise ValueError("; ".join([message, *broken])) from None


def entry(spec: str) -> Callable[..., gymnasium.Env]:
    """The class or function behind `spec`, imported."""
    found = find(spec)
    target = getattr(found, "entry_point", found)
    if isinstance(target, str):
        module, name = target.split(":")
        target = getattr(importlib.import_module(module), name)
    return target


def entries() -> list[Row]:
    """All environments of this project and of installed plug-ins, by id. Nothing is imported."""
    plugged = [Row(point.name, point.value, f"plug-in {_distribution(point)}") for point in _points() if point.attr]
    return sorted([*ROWS, *plugged])


def register_plug_ins() -> None:
    """Register the ids that installed plug-ins name, so that Gymnasium knows them. Nothing is imported.

    An id that cannot be registered is told in a warning.
    """
    for point in _points():
        if point.attr:
            try:
                register(point.name, _target(point))
            except (ValueError, gymnasium.error.Error) as error:
                warnings.warn(f"plug-in {_distribution(point)}: {error}", stacklevel=2)


def _registered_by(module: str) -> list[str]:
    """The ids whose entry points lie in this module's package."""
    package = module.partition(".")[0]
    points = {id: str(known.entry_point) for id, known in gymnasium.registry.items()}
    return [id for id, point in points.items() if point.partition(":")[0].partition(".")[0] == package]


def _classes(module: ModuleType) -> list[str]:
    """The environments that a module, or a package, defines itself."""
    found = {key: value for key, value in vars(module).items() if isinstance(value, type)}
    return [
        key
        for key, value in found.items()
        if issubclass(value, gymnasium.Env) and not inspect.isabstract(value)
        if f"{value.__module__}.".startswith(f"{module.__name__}.")
    ]


def _module(name: str, spec: str) -> ModuleType:
    if name.startswith("."):
        raise ValueError(f"no module {name!r} for environment {spec!r}")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise ValueError(f"no module {name!r} for environment {spec!r}") from None
        raise


@cache
def _points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _target(point: EntryPoint) -> str:
    return f"{point.module}:{point.attr}"  # its value may also name extras


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "of unknown origin"


def _plug_in(id: str) -> list[str]:
    """Register `id` if an installed plug-in has it; tell which plug-ins could not be asked."""
    broken = []
    for point in _points():
        if point.attr and point.name == id:
            register(id, _target(point))
            return []
        if not point.attr:  # a module whose import registers
            try:
                point.load()
            except Exception as error:
                broken.append(f"plug-in {point.name!r} failed to import: {type(error).__name__}: {error}")
    return broken
