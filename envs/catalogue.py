"""Registry of environments: register one, resolve its name, make one, list all."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

import gymnasium

from envs.arguments import parameters, required_parameters, unknown_argument
from envs.episodes.seat_views import game_entry_point, gymnasium_class, view_entry_point
from envs.rows import ROWS, Row
from envs.suggestions import unknown_message
from envs.watchdog import WATCHDOG

GROUP = "turnwise.envs"
ENTRY_POINT = re.compile(r"\w+(\.\w+)*:\w+")


def register(id: str, entry_point: str | Callable[..., gymnasium.Env], **kwargs: Any) -> None:
    """Add an environment to Gymnasium's registry.

    Registering an id again with the same content does nothing.

    Args:
        id: Such as "games/Mine-v0". A game of several seats (`envs.multi.multi_env.MultiEnv`) has the family `multi`.
        entry_point: "module:Class", imported when the first instance is made, or a callable that returns an instance.
        **kwargs: Arguments of the constructor.

    Raises:
        ValueError: The id is registered with other content, is no str, or `entry_point` has another form.
    """
    if not isinstance(id, str):
        raise ValueError(f"environment id {id!r:.80}: must be a str, such as 'games/Mine-v0'")
    if not isinstance(entry_point, str) and not callable(entry_point):
        raise ValueError(f"entry point {entry_point!r:.80} of {id!r} is neither 'module:Class' nor a callable")
    if isinstance(entry_point, str):
        entry_point = game_entry_point(entry_point)
        if not ENTRY_POINT.fullmatch(entry_point):
            raise ValueError(f"entry point {entry_point!r} of {id!r} is not of the form 'module:Class'")
        if id.startswith("multi/"):
            entry_point = view_entry_point(entry_point)
    else:
        entry_point = gymnasium_class(entry_point)
    existing = gymnasium.registry.get(id)
    if existing is not None:
        if (existing.entry_point, existing.kwargs) == (entry_point, kwargs):
            return
        name = game_entry_point(str(existing.entry_point))
        raise ValueError(f"environment {id!r} is already registered as {name}; choose another version")
    # `Env` checks the order of calls itself, and Gymnasium's checkers would take longer than a short episode.
    gymnasium.register(id, entry_point, order_enforce=False, disable_env_checker=True, kwargs=kwargs)


def make(spec: str, **arguments: Any) -> gymnasium.Env:
    """Make an environment.

    Args:
        spec: An id ("math/Arithmetic-v0"), "module:Name-v0" (the module registers the id on import), "module:Class" or
            "path/to/file.py:Class", or "SCHEME:NAME" for an environment of another project (`envs.adapters.schemes`).
            An id that is not registered is looked up in the entry points of installed packages (group "turnwise.envs").
        **arguments: Arguments of the constructor.

    Returns:
        The environment: for an id inside the wrappers that Gymnasium adds, if any, else the bare instance.

    Raises:
        ValueError: An unknown name or argument, or a required argument is missing; also, with the line, for what the
            constructor of a file, module or plug-in raises, but for errors whose text it wrote itself, which pass
            unchanged.
        envs.watchdog.Overrun: The import or the constructor takes too long.
    """
    target = find(spec)
    try:
        factory = target
        if isinstance(target, gymnasium.envs.registration.EnvSpec):
            _load(target)  # so that a module that fails is named, which Gymnasium does not do
            factory = partial(gymnasium.make, target, disable_env_checker=True)
        return WATCHDOG.load_call(f"{spec}: its constructor", partial(factory, **arguments))
    except (Exception, SystemExit) as error:
        if isinstance(error, TypeError):
            _check_arguments(spec, target, arguments)
        if any(row.id == spec for row in ROWS):
            raise
        from sandboxes.source_files import raise_named

        raise_named(error, f"{spec}: its constructor", inspect.getfile(entry(spec)))


def _check_arguments(spec: str, target: Any, arguments: Mapping[str, Any]) -> None:
    """Raise ValueError for an argument that the constructor does not take, and for one that it needs and lacks."""
    factory = entry(spec)
    choices = parameters(factory)
    for name in arguments:
        if choices is not None and name not in choices:
            raise ValueError(unknown_argument(name, choices, of=spec, entry=factory)) from None
    for name in required_parameters(factory) - {**getattr(target, "kwargs", {}), **arguments}.keys():
        raise ValueError(f"{spec} needs the argument {name!r}, as in --env-arg {name}=...") from None


def find(spec: str) -> Any:
    """Resolve a name that `make` takes.

    Returns Gymnasium's EnvSpec of a registered id, a class bound to the name for "SCHEME:NAME", else a class. Raises
    ValueError for an unknown name, with the nearest one.
    """
    from envs.adapters.schemes import resolve

    if not isinstance(spec, str):
        raise ValueError(f"environment {spec!r:.80}: must be a str, such as 'math/Arithmetic-v0'")
    if (adapter := resolve(spec)) is not None:
        return adapter
    if (env_spec := gymnasium.registry.get(spec)) is not None:
        return env_spec
    source, colon, name = spec.rpartition(":")
    if colon:
        module = _load_file(source) if source.endswith(".py") else _import_module(source, spec)
        value = gymnasium_class(getattr(module, name, None))
        if isinstance(value, type) and issubclass(value, gymnasium.Env):
            return value
        if name in gymnasium.registry:
            return gymnasium.registry[name]
        if isinstance(value, type):
            raise ValueError(f"{spec} is a class, but no environment: it does not derive from envs.env.Env")
        choices = [*_environment_classes(module), *_ids_of_package(source)]
        raise ValueError(unknown_message("environment", name, choices, of=source))
    if spec.endswith(".py"):
        classes = [f"{spec}:{name}" for name in _environment_classes(_load_file(spec))]
        raise ValueError(f"{spec!r} is a file; name a class of it: {', '.join(classes) or 'there is none'}")
    errors = _register_plug_in(spec)
    if spec in gymnasium.registry:
        return gymnasium.registry[spec]
    try:
        return gymnasium.spec(spec)  # resolves ids without a version
    except gymnasium.error.Error:
        names = [*gymnasium.registry, *(point.name for point in _entry_points())]
        ids = [row.id for row in ROWS]
        message = unknown_message("environment", spec, names, prefer=ids, listing="python -m envs list")
        raise ValueError("; ".join([message, *errors])) from None


def entry(spec: str) -> Callable[..., gymnasium.Env]:
    """Import and return the class or function that makes the environment `spec`, any name that `make` takes.

    Raises ValueError for an unknown name, with the nearest one.
    """
    env_spec = find(spec)
    target = getattr(env_spec, "entry_point", env_spec)
    if isinstance(target, partial):  # of an adapter
        return target.func
    return _load(env_spec) if isinstance(target, str) else target


def _load(env_spec: gymnasium.envs.registration.EnvSpec) -> Any:
    """Import what the entry point of an id names. Raises ValueError, in one line, if that is no environment."""
    if not isinstance(env_spec.entry_point, str):
        return env_spec.entry_point
    path = game_entry_point(env_spec.entry_point)
    source, _, name = path.partition(":")
    module = _import_module(source, env_spec.id)
    if not hasattr(module, name):
        choices = _environment_classes(module)
        raise ValueError(f"{env_spec.id}: {unknown_message('environment', name, choices, of=source)}")
    target = gymnasium.envs.registration.load_env_creator(env_spec.entry_point)
    if isinstance(target, type) and gymnasium_class(target) is not target:
        raise ValueError(f"{env_spec.id}: {path} is a game of several seats, whose id must begin with 'multi/'")
    if isinstance(target, type) and not issubclass(target, gymnasium.Env):
        raise ValueError(f"{env_spec.id}: {path} is a class, but no environment: it does not derive from envs.env.Env")
    return target


def entries() -> list[Row]:
    """List the environments of this package and of installed plug-ins, sorted by id, without importing them.

    A plug-in with a name that is no id, or one of this package, was refused (`register_plug_ins`) and is left out.
    """
    own_ids = {row.id for row in ROWS}
    plug_ins = [
        Row(point.name, point.value, f"plug-in {_distribution(point)}")
        for point in _entry_points()
        if point.attr and point.name in gymnasium.registry and point.name not in own_ids
    ]
    return sorted([*ROWS, *plug_ins])


def register_plug_ins() -> None:
    """Register the ids of installed plug-ins with Gymnasium, without importing them; warn of those that are invalid."""
    for point in _entry_points():
        if point.attr:
            try:
                register(point.name, _target(point))
            except (ValueError, gymnasium.error.Error) as error:
                warnings.warn(f"plug-in {_distribution(point)}: {error}", stacklevel=2)


def _ids_of_package(module: str) -> list[str]:
    """Registered ids whose entry points are in the same top-level package as `module`."""
    package = module.partition(".")[0]
    targets = {id: game_entry_point(str(env_spec.entry_point)) for id, env_spec in gymnasium.registry.items()}
    return [id for id, target in targets.items() if target.partition(":")[0].partition(".")[0] == package]


def _environment_classes(module: ModuleType) -> list[str]:
    """Names of the environments that a module or package defines itself, not those that it imports."""
    classes = {key: value for key, value in vars(module).items() if isinstance(value, type)}
    return [
        key
        for key, value in classes.items()
        if issubclass(gymnasium_class(value), gymnasium.Env) and not inspect.isabstract(value)
        if f"{value.__module__}.".startswith(f"{module.__name__}.")
    ]


def _load_file(path: str) -> ModuleType:
    from sandboxes.source_files import load_source_file  # imports the package `sandboxes`, which few commands need

    return WATCHDOG.load_call(f"{path}: its import", load_source_file, path)


def _import_module(name: str, spec: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"no module {name!r} for environment {spec!r}")
    from sandboxes.source_files import import_source_module

    try:
        return WATCHDOG.load_call(f"{name}: its import", import_source_module, name)
    except ModuleNotFoundError:
        raise ValueError(f"no module {name!r} for environment {spec!r}") from None


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _target(point: EntryPoint) -> str:
    return f"{point.module}:{point.attr}"  # `point.value` may also name extras


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "of unknown origin"


def _register_plug_in(id: str) -> list[str]:
    """Register `id` if an installed plug-in has it; return the errors of plug-ins that could not be imported."""
    errors = []
    for point in _entry_points():
        if point.attr and point.name == id:
            register(id, _target(point))
            return []
        if not point.attr:  # a module that registers ids when it is imported
            try:
                WATCHDOG.load_call(f"{point.value}: its import", point.load)
            except Exception as error:
                errors.append(f"plug-in {point.name!r} failed to import: {type(error).__name__}: {error}")
    return errors
