"""The type `Recipe`, one part per slot, of which every published method is a value; recipes and parts as text.

A slot has one name everywhere: the field of `Recipe`, the module `rl/methods/parts/<slot>` that holds its parts (a
file, or a package that imports them from its own files), the flag `--<slot>`, and the key under which a run records
its choice. Nothing here imports torch.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from rl.methods import options
from rl.methods.parts import (
    allot,
    baseline,
    credit,
    keep,
    passes,
    phases,
    ratio,
    reduce,
    sampler,
    scale,
    schedule,
    score,
    strategy,
    surrogate,
    verdict,
)
from rl.records import Group, Ticket
from sandboxes.source_files import load_source_file

if TYPE_CHECKING:  # importing these would slow down every command
    from torch import Tensor

    from rl.methods.inputs import Labels, Normalization, PerTrajectory, Row, Tokens
    from rl.methods.parts.credit import TokenAdvantages

Sampler = Callable[["sampler.History", np.random.Generator], int]
Allot = Callable[["sampler.History", Sequence[int], int, np.random.Generator], Sequence[int]]
Strategy = Callable[[Any, Ticket], Coroutine[Any, Any, list[Group]]]
Verdict = Callable[["verdict.Judge", Group], Coroutine[Any, Any, None]]
Shape = Callable[[Group], list[float]]
Keep = Callable[[Group], bool]
Score = Callable[["score.Scorer", Sequence[Group]], Coroutine[Any, Any, None]]
Credit = Callable[[Sequence[Group], "Normalization"], list[list[np.ndarray]]]
Reweigh = Callable[[Sequence[Group], "TokenAdvantages"], list[list[np.ndarray]]]
Step = Callable[["Tokens"], Mapping[str, "Tensor"]]
Phases = Callable[[Sequence["Row"], phases.Logprobs], Iterator[Sequence["Row"]]]
Passes = Callable[[passes.Weights, int], Iterator[Any]]
PerToken = Callable[["Tokens"], "Tensor"]
Surrogate = Callable[["Tensor", "Tokens"], "Tensor"]
Reduce = Callable[["Tensor", "Labels"], "Tensor"]
Schedule = Callable[[int, int], float]


@dataclass(frozen=True)
class Recipe:
    """One part per slot, options bound with `functools.partial`; the slots in the order in which an update calls them.

    The slots whose default is `()` hold a tuple of any number of parts, the others one part. Raises `ValueError` for a
    tuple where one part belongs, for the reverse, and for a part that cannot be called.
    """

    sampler: Sampler = sampler.shuffled
    allot: Allot = allot.equal
    strategy: Strategy = strategy.independent
    verdict: tuple[Verdict, ...] = ()
    shape: tuple[Shape, ...] = ()
    keep: Keep = keep.any_group
    score: tuple[Score, ...] = ()
    credit: Credit = credit.outcome
    baseline: PerTrajectory = baseline.group_mean
    scale: PerTrajectory = scale.none
    reweigh: tuple[Reweigh, ...] = ()
    phases: Phases = phases.joint
    passes: Passes = passes.plain
    step: tuple[Step, ...] = ()
    ratio: PerToken = ratio.token
    surrogate: Surrogate = surrogate.clip
    select: tuple[PerToken, ...] = ()
    penalty: tuple[PerToken, ...] = ()
    reduce: Reduce = reduce.token_mean
    schedule: Schedule = partial(schedule.constant, warmup=10)

    def __post_init__(self) -> None:
        """Check that each slot holds one part or a tuple of parts, as it must."""
        for slot in SLOTS:
            value = getattr(self, slot)
            if (slot in MANY) != isinstance(value, tuple):
                raise ValueError(f"{slot} takes {'a tuple of parts' if slot in MANY else 'one part'}, not {value!r}")
            if wrong := [part for part in (value if slot in MANY else (value,)) if not callable(part)]:
                raise ValueError(f"{slot}: {wrong[0]!r:.60} is no part; name a function, as in rl.parts.{slot}")

    @property
    def normalization(self) -> Normalization:
        """The recipe's `baseline` and `scale`, the two slots that credit parts read."""
        from rl.methods.inputs import Normalization

        return Normalization(self.baseline, self.scale)

    def but(self, **changes: Any) -> Recipe:
        """This recipe with some slots replaced: how a method states its difference from its parent.

        Raises `ValueError` for a name that is no slot.
        """
        for slot in changes:
            _check_slot(slot)
        return replace(self, **changes)

    def parts(self) -> Iterator[tuple[str, Callable]]:
        """Yield `(place, part)` for every part of the recipe.

        A place is the slot's name, such as `"credit"`, with a number in a slot that holds several parts: `"penalty.0"`.
        """
        for slot in SLOTS:
            value = getattr(self, slot)
            if slot in MANY:
                yield from ((f"{slot}.{i}", part) for i, part in enumerate(value))
            else:
                yield slot, value

    def state_dict(self) -> dict[str, Any]:
        """The state of every part that keeps numbers between updates, by its place (`"strategy"`, `"score.0"`)."""
        return {place: part.state_dict() for place, part in self.parts() if hasattr(part, "state_dict")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the parts' numbers from `state`, which `state_dict()` returned.

        Raises `ValueError` where other parts have a state than when it was saved.
        """
        parts: dict[str, Any] = {place: part for place, part in self.parts() if hasattr(part, "state_dict")}
        if parts.keys() != state.keys():
            raise ValueError(f"parts with state: {sorted(parts) or 'none'}; saved: {sorted(state) or 'none'}")
        for place, part in parts.items():
            part.load_state_dict(state[place])


SLOTS: tuple[str, ...] = tuple(field.name for field in fields(Recipe))
MANY: tuple[str, ...] = tuple(field.name for field in fields(Recipe) if field.default == ())


def plays_seats(recipe: Recipe) -> bool:
    """Whether the recipe's strategy can play environments of several seats, all of them with the policy."""
    return getattr(function_of(recipe.strategy), "plays_seats", False)


def samples_by_turn(recipe: Recipe) -> bool:
    """Whether the recipe's strategy samples single turns, so that an agent cannot ask for replies of its own."""
    return getattr(function_of(recipe.strategy), "samples_by_turn", False)


def load(name: str) -> Recipe:
    """The recipe in `rl/methods/recipes/<name>.py`, or in the file at the path `name`, which must end in `.py`.

    Its parts with state are fresh. Raises `ValueError` when there is no such recipe.
    """
    if not name.endswith(".py") and name not in (names := [path.stem for path in _recipe_files()]):
        file = name.partition(".py:")[0] + ".py"
        hint = f"; write {file}, whose `recipe` is taken" if ".py:" in name else options.did_you_mean(name, names)
        raise ValueError(f"no recipe {name!r}{hint}; see rl/methods/recipes/")
    module = load_source_file(name) if name.endswith(".py") else importlib.import_module(f"rl.methods.recipes.{name}")
    recipe = getattr(module, "recipe", None)
    if not isinstance(recipe, Recipe):
        hint = ", but a module; write `recipe = MODULE.recipe.but(...)`" * isinstance(recipe, ModuleType)
        raise ValueError(f"{name} defines no `recipe = Recipe(...)`{hint}")
    return copy.deepcopy(recipe)


def catalogue() -> list[tuple[str, str]]:
    """Name and first docstring line of every file in `rl/methods/recipes`, by name, without importing them."""
    docs = ((file.stem, ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))) for file in _recipe_files())
    return [(name, (doc or "").partition("\n")[0]) for name, doc in docs]


def _recipe_files() -> list[Path]:
    return sorted(Path(__file__).with_name("recipes").glob("[!_]*.py"))


def part(slot: str, text: str) -> Callable:
    """The part of `slot` that `text` names: `clip`, `clip:high=0.3,low=0.1` or `path/to/file.py:name:key=value`.

    Raises `ValueError` that names the wrong word and the nearest right one.
    """
    _check_slot(slot)
    path, suffix, rest = text.rpartition(".py:")
    name, _, bindings = rest.partition(":")
    module = load_source_file(path + ".py") if suffix else importlib.import_module(f"rl.methods.parts.{slot}")
    parts = parts_of(module)
    if name not in parts:
        hint = options.did_you_mean(name, list(parts)) or f"; it has {', '.join(parts)}"
        if name.endswith(".py"):
            hint = f"; write {name}:FUNCTION for a part in a file"
        raise ValueError(f"--{slot}: no part {name!r} in {path + '.py' if suffix else module.__name__}{hint}")
    bound = options.read(f"--{slot} {name}", parts[name], bindings)
    if inspect.isclass(parts[name]):
        return parts[name](**bound)
    return partial(parts[name], **bound) if bound else parts[name]


def parse(words: Mapping[str, str | Sequence[str]]) -> dict[str, Any]:
    """The parts that `words` names, slot by slot, for `recipe.but(**parts)`.

    A value is a text as `part` reads it, such as `clip:high=0.3`; a slot of several parts takes one text or a list of
    them, in which `"none"` adds no part. Raises `ValueError` for a text that names no part, the same text twice, or the
    wrong number of texts.
    """
    changes: dict[str, Any] = {}
    for slot, value in words.items():
        texts = [value] if isinstance(value, str) else value
        parts = tuple(part(slot, text) for text in texts if slot not in MANY or text != "none")
        if slot not in MANY and len(parts) != 1:
            raise ValueError(f"--{slot} takes one part, not {len(parts)}")
        if duplicate := next((text for number, text in enumerate(texts) if text in texts[:number]), None):
            raise ValueError(f"--{slot} names {duplicate} twice; name it once")
        changes[slot] = parts if slot in MANY else parts[0]
    return changes


def words(recipe: Recipe) -> dict[str, str | list[str]]:
    """The recipe as text by slot, for `parse`: a text such as `clip:high=0.3`, or a list of them.

    Raises `ValueError` for a part that no text can name, such as a lambda, and for an option that no text can set.
    """
    texts: dict[str, list[str]] = {slot: [] for slot in SLOTS}
    for place, part in recipe.parts():
        slot = place.partition(".")[0]
        texts[slot].append(_text_of(slot, part))
    return {slot: text if slot in MANY else text[0] for slot, text in texts.items()}


def files(recipe: Recipe) -> list[str]:
    """The paths of the files that the parts' options name, such as the rubric of a verdict."""
    parts = [part for _, part in recipe.parts()]
    return [*dict.fromkeys(path for part in parts for path in options.files(function_of(part), _bound(part)))]


def parts_of(module: ModuleType) -> dict[str, Callable]:
    """The parts in `module`, a file or a package: its public functions, and classes whose instances are callable."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and f"{getattr(value, '__module__', '')}.".startswith(f"{module.__name__}.")
        and (inspect.isfunction(value) or (inspect.isclass(value) and "__call__" in vars(value)))
    }


def _text_of(slot: str, part: Callable) -> str:
    function = function_of(part)
    slot_module = importlib.import_module(f"rl.methods.parts.{slot}")
    is_builtin = parts_of(slot_module).get(function.__name__) is function
    module = slot_module if is_builtin else sys.modules[function.__module__]
    if parts_of(module).get(function.__name__) is not function:
        raise ValueError(f"{slot}: {part!r} cannot be named in words; make it a function of a module")
    path, label = [] if is_builtin else [str(module.__file__)], f"{slot} {function.__name__}"
    bindings = options.write(_bound(part), label, function)
    options.read(label, function, bindings)  # or the settings of the run could not be read again
    return ":".join([*path, function.__name__, *filter(None, [bindings])])


def _bound(part: Callable) -> dict[str, Any]:
    """The options of a part by name, those at their defaults left out."""
    if inspect.isclass(function_of(part)):
        return options.bound_by(part)
    if not isinstance(part, partial):
        return {}
    empty = {key for key, option in options.of(function_of(part)).items() if option.default is None}
    return {key: value for key, value in part.keywords.items() if value is not None or key not in empty}


def function_of(part: Any) -> Callable:
    """The function that a part's options are bound to, or the class of a part with state.

    Raises `ValueError` for options that are bound by position, and for a class in the place of its instance.
    """
    if inspect.isclass(part):
        raise ValueError(f"{part.__name__} is a class; write {part.__name__}(), with its options if it needs any")
    if not isinstance(part, partial):
        return part if inspect.isfunction(part) else type(part)
    if part.args:
        raise ValueError(f"{part.func.__name__}: options {part.args} are bound by position; bind them by keyword")
    return part.func


def _check_slot(name: str) -> None:
    if name not in SLOTS:
        raise ValueError(f"no slot {name!r}{options.did_you_mean(name, SLOTS)}")
