"""Finds sandbox providers by name, for `sandboxes.open` and everything that takes the name of a sandbox.

A name is PROVIDER or PROVIDER:KIND. Its text before the first ":" decides what PROVIDER is, in this order:

1. a key of `PROVIDERS`: a built-in provider;
2. a name that an installed package registers in the entry point group `GROUP`;
3. a path that ends in ".py": PROVIDER is `path/to/file.py:Class`;
4. anything else: PROVIDER is `module:Class`.

KIND is everything after the next ":". The provider's class gets it as its positional argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, NamedTuple

from sandboxes.provider import SANDBOX_METHODS, Sandbox
from sandboxes.source_files import import_source_module, load_source_file
from sandboxes.types import Isolation

GROUP = "turnwise.sandboxes"
PROVIDERS = {
    "local": "sandboxes.local.provider:Local",
    "docker": "sandboxes.docker.provider:Docker",
    "remote": "sandboxes.remote.provider:Remote",
}
TIERS = ("namespaces", "landlock", "process")  # the kinds of "local"


class Provider(NamedTuple):
    """A provider's class, and the kind that follows its name or ""."""

    cls: Any  # a class with the members of `Sandbox`
    kind: str


def check_name(name: str) -> None:
    """Raise ValueError unless `name` is that of a sandbox. Imports nothing for the built-in providers."""
    if not isinstance(name, str):
        raise ValueError(_unknown_name(name))
    head, _, kind = name.partition(":")
    if head not in PROVIDERS:
        find_provider(name)
    elif head == "local" and kind and kind not in TIERS:
        raise ValueError(f"local: no tier {kind!r}; there are {', '.join(TIERS)}")


def find_provider(name: str) -> Provider:
    """Import the class of sandboxes that `name` selects, such as "local:landlock", and return it with its kind.

    Raises ValueError, in one line, for an unknown name, with the nearest known one; for a module or file that cannot
    be imported; and for a class that lacks members of `sandboxes.Sandbox`.
    """
    if not isinstance(name, str):
        raise ValueError(_unknown_name(name))
    head, _, rest = name.partition(":")
    if head in PROVIDERS:
        check_name(name)
        module_name, _, class_name = PROVIDERS[head].partition(":")
        return Provider(getattr(import_module(module_name), class_name), rest)
    if point := _plug_ins().get(head):
        return Provider(_check_members(name, _import(name, point.load)), rest)
    if head.endswith(".py"):
        module = _import(name, lambda: load_source_file(head))
        if not rest:
            names = _names(_provider_classes(module), prefix=f"{head}:")
            raise ValueError(f"sandbox {name!r} is a file; name a class of it: {names}")
    elif rest and all(part.isidentifier() for part in head.split(".")):
        module = _import(name, lambda: import_source_module(head), head)
    else:
        raise ValueError(_unknown_name(name))
    class_name, _, kind = rest.partition(":")
    cls = getattr(module, class_name, None)
    if cls is None:
        near = get_close_matches(class_name, _provider_classes(module), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {_names(_provider_classes(module))}"
        raise ValueError(f"sandbox {name!r}: no class {class_name!r} in {head}; {hint}")
    return Provider(_check_members(name, cls), kind)


def open_sandbox(name: str, options: Mapping[str, Any]) -> Sandbox:
    """Open the sandbox `name`; see `sandboxes.open`."""
    cls, kind = find_provider(name)
    arguments = [kind] if kind else []
    signature = inspect.signature(cls)
    try:
        signature.bind_partial(*arguments)
    except TypeError:
        raise ValueError(f"sandbox {name!r}: {cls.__name__} takes no kind, such as {kind!r}, after its name") from None
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        raise ValueError(f"sandbox {name!r}: options of {cls.__name__}: {error}") from None
    sandbox = cls(*arguments, **options)
    if not isinstance(getattr(sandbox, "isolation", None), Isolation):
        sandbox.close()
        raise ValueError(f"sandbox {name!r}: {cls.__name__} lacks 'isolation', a sandboxes.Isolation")
    return sandbox


def accepts_option(name: str, option: str) -> bool:
    """Whether the class of the sandbox `name` has the keyword argument `option`. Raises what `find_provider` does."""
    return option in inspect.signature(find_provider(name).cls).parameters


@cache
def _plug_ins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _import(name: str, load: Callable[[], Any], module_name: str = "") -> Any:
    """What `load` imports. Every failure of the user's code becomes a ValueError of one line."""
    try:
        return load()
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            raise ValueError(_unknown_name(name, f": no module {missing!r}")) from None
        text = " ".join(str(error).split())
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"sandbox {name!r} cannot be imported: {kind}{text}") from error


def _check_members(name: str, cls: Any) -> type:
    if not isinstance(cls, type):
        raise ValueError(f"sandbox {name!r}: must be a class, not {type(cls).__name__}")
    if missing := _missing_members(cls):
        raise ValueError(f"sandbox {name!r}: {cls.__name__} lacks {_names(missing)} of sandboxes.Sandbox")
    return cls


def _missing_members(cls: type) -> list[str]:
    """The members of `Sandbox` that a class does not define; `isolation` may also be an instance's attribute."""
    abstract = sorted(getattr(cls, "__abstractmethods__", ()))
    return [*abstract, *(method for method in SANDBOX_METHODS if not callable(getattr(cls, method, None)))]


def _provider_classes(module: ModuleType) -> list[str]:
    """The names of the classes that a module itself defines and that have all members of `Sandbox`."""
    classes = {key: value for key, value in vars(module).items() if isinstance(value, type)}
    return [key for key, cls in classes.items() if cls.__module__ == module.__name__ and not _missing_members(cls)]


def _unknown_name(name: Any, reason: str = "") -> str:
    """The error for a name that no provider has, with the nearest one and a list of all."""
    names = [*dict.fromkeys((*PROVIDERS, *_plug_ins()))]
    head, colon, kind = name.partition(":") if isinstance(name, str) else ("", "", "")
    near = get_close_matches(head, names, 1)
    hint = f"did you mean {near[0] + colon + kind!r}? There are" if near else "there are"
    return f"no sandbox {name!r}{reason}; {hint} {', '.join(names)}, module:Class and path/to/file.py:Class"


def _names(names: list[str], prefix: str = "") -> str:
    return ", ".join(f"'{prefix}{name}'" for name in names) or "none"
