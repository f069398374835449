"""A `Recipe` names one part per job; a published method is a value of this type. Below it: recipes and parts as text.

A slot has one name everywhere: the field, the module `rl/methods/parts/<slot>` that holds its parts (a file, or a package that
imports them from its own files), the flag `--<slot>`, and the key under which a run records its choice. Nothing here
imports torch.
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

from envs.source_files import executed
from rl.methods import options
from rl.methods.inputs import Labels, Normalization, PerTrajectory, Row, Tokens
from rl.methods.parts import (
    baseline,
    credit,
    keep,
    phases,
    ratio,
    reduce,
    sampler,
    scale,
    schedule,
    score,
    select,
    strategy,
    surrogate,
)
from rl.records import Group, Ticket

if TYPE_CHECKING:
    from torch import Tensor

Sampler = Callable[["sampler.History", np.random.Generator], int]
Strategy = Callable[[Any, Ticket], Coroutine[Any, Any, Group]]
Shape = Callable[[Group], list[float]]
Keep = Callable[[Group], bool]
Score = Callable[["score.Scorer", Sequence[Group]], Coroutine[Any, Any, None]]
Credit = Callable[[Sequence[Group], Normalization], list[list[np.ndarray]]]
Phases = Callable[[Sequence[Row], phases.Logprobs], Iterator[Sequence[Row]]]
PerToken = Callable[[Tokens], "Tensor"]
Surrogate = Callable[["Tensor", Tokens], "Tensor"]
Reduce = Callable[["Tensor", Labels], "Tensor"]
Schedule = Callable[[int, int], float]


@dataclass(frozen=True)
class Recipe:
    """One part per slot, options bound with `functools.partial`; the slots in the order in which an update calls them.

    `shape`, `score` and `penalty` hold any number of parts, the others one.
    """

    sampler: Sampler = sampler.shuffled
    strategy: Strategy = strategy.independent
    shape: tuple[Shape, ...] = ()
    keep: Keep = keep.any_group
    score: tuple[Score, ...] = ()
    credit: Credit = credit.outcome
    baseline: PerTrajectory = baseline.group_mean
    scale: PerTrajectory = scale.none
    phases: Phases = phases.joint
    ratio: PerToken = ratio.token
    surrogate: Surrogate = surrogate.clip
    select: PerToken = select.every_token
    penalty: tuple[PerToken, ...] = ()
    reduce: Reduce = reduce.token_mean
    schedule: Schedule = partial(schedule.linear, warmup=10)

    def __post_init__(self) -> None:
        """Refuse a bare part where a tuple belongs, and the reverse."""
        for slot in SLOTS:
            choice = getattr(self, slot)
            if (slot in MANY) != isinstance(choice, tuple):
                raise ValueError(f"{slot} takes {'a tuple of parts' if slot in MANY else 'one part'}, not {choice!r}")

    @property
    def normalization(self) -> Normalization:
        """The two slots that credit parts read."""
        return Normalization(self.baseline, self.scale)

    def but(self, **changes: Any) -> Recipe:
        """This recipe with some slots replaced: how a method states its difference from its parent.

        Raises `ValueError` for a name that is no slot.
        """
        for slot in changes:
            _check_slot(slot)
        return replace(self, **changes)

    def parts(self) -> Iterator[tuple[str, Callable]]:
        """Yield `(place, part)`. A place is `"credit"`, or `"penalty.0"` in a slot that holds several."""
        for slot in SLOTS:
            choice = getattr(self, slot)
            if slot in MANY:
                yield from ((f"{slot}.{i}", chosen) for i, chosen in enumerate(choice))
            else:
                yield slot, choice

    def state_dict(self) -> dict[str, Any]:
        """The state of every part that keeps any, by place."""
        return {place: part.state_dict() for place, part in self.parts() if hasattr(part, "state_dict")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict()`. Raises `ValueError` when other parts keep state now."""
        keepers: dict[str, Any] = {place: part for place, part in self.parts() if hasattr(part, "state_dict")}
        if keepers.keys() != state.keys():
            raise ValueError(f"parts with state: {sorted(keepers) or 'none'}; saved: {sorted(state) or 'none'}")
        for place, part in keepers.items():
            part.load_state_dict(state[place])


SLOTS: tuple[str, ...] = tuple(field.name for field in fields(Recipe))
MANY: tuple[str, ...] = tuple(field.name for field in fields(Recipe) if field.default == ())

_FILLS: dict[str, Score] = {"ref": score.reference, "value": score.value}


def needs(recipe: Recipe, stream: str) -> bool:
    """Whether a part of `recipe` reads or fills `stream`: `"ref"`, a frozen reference; `"value"`, a critic.

    `"entropy"` is a stream always there; a part that needs it wants its gradient.
    """
    return any(stream in _reads(part) or _function(part) is _FILLS.get(stream) for _, part in recipe.parts())


def scores(recipe: Recipe) -> tuple[Score, ...]:
    """The score parts an update calls: the recipe's own, then those that fill a stream another of its parts reads."""
    named = [_function(part) for part in recipe.score]
    return (*recipe.score, *(part for key, part in _FILLS.items() if needs(recipe, key) and part not in named))


def load(name: str) -> Recipe:
    """The recipe in `rl/methods/recipes/<name>.py`, or in the file whose path `name` is. Parts with state are fresh.

    Raises `ValueError` when there is none.
    """
    known = [entry for entry, _ in catalogue()]
    if not name.endswith(".py") and name not in known:
        raise ValueError(f"no recipe {name!r}{options.did_you_mean(name, known)}; see rl/methods/recipes/")
    module = executed(name) if name.endswith(".py") else importlib.import_module(f"rl.methods.recipes.{name}")
    recipe = getattr(module, "recipe", None)
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{name} defines no `recipe = Recipe(...)`")
    return copy.deepcopy(recipe)


def catalogue() -> list[tuple[str, str]]:
    """Name and first docstring line of every file in `rl/methods/recipes`, by name. Imports none of them."""
    files = sorted(Path(__file__).with_name("recipes").glob("[!_]*.py"))
    docs = ((file.stem, ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))) for file in files)
    return [(name, (doc or "").partition("\n")[0]) for name, doc in docs]


def part(slot: str, text: str) -> Callable:
    """The part of `slot` that `text` names: `clip`, `clip:high=0.3,low=0.1` or `path/to/file.py:name:key=value`.

    Raises `ValueError` that names the wrong word and the nearest right one.
    """
    _check_slot(slot)
    path, suffix, rest = text.rpartition(".py:")
    name, _, bindings = rest.partition(":")
    module = executed(path + ".py") if suffix else importlib.import_module(f"rl.methods.parts.{slot}")
    known = parts_of(module)
    if name not in known:
        hint = options.did_you_mean(name, list(known)) or f"; it has {', '.join(known)}"
        raise ValueError(f"--{slot}: no part {name!r} in {path + '.py' if suffix else module.__name__}{hint}")
    bound = options.read(f"--{slot} {name}", known[name], bindings)
    if inspect.isclass(known[name]):
        return known[name](**bound)
    return partial(known[name], **bound) if bound else known[name]


def parse(words: Mapping[str, str | Sequence[str]]) -> dict[str, Any]:
    """Parts from words, for `Recipe.but`. A slot of several takes one text or a list of them; `"none"` adds no part."""
    chosen: dict[str, Any] = {}
    for slot, text in words.items():
        texts = [text] if isinstance(text, str) else text
        parts = tuple(part(slot, one) for one in texts if slot not in MANY or one != "none")
        if slot not in MANY and len(parts) != 1:
            raise ValueError(f"--{slot} takes one part, not {len(parts)}")
        chosen[slot] = parts if slot in MANY else parts[0]
    return chosen


def words(recipe: Recipe) -> dict[str, str | list[str]]:
    """The recipe as text, for `parse`. Raises `ValueError` for a part that no text can name, such as a lambda."""
    texts: dict[str, list[str]] = {slot: [] for slot in SLOTS}
    for place, chosen in recipe.parts():
        slot = place.partition(".")[0]
        texts[slot].append(_text(slot, chosen))
    return {slot: text if slot in MANY else text[0] for slot, text in texts.items()}


def _text(slot: str, chosen: Callable) -> str:
    function = _function(chosen)
    own = importlib.import_module(f"rl.methods.parts.{slot}")
    module = own if parts_of(own).get(function.__name__) is function else sys.modules[function.__module__]
    if parts_of(module).get(function.__name__) is not function:
        raise ValueError(f"{slot}: {chosen!r} cannot be named in words; make it a function of a module")
    bound = chosen.keywords if isinstance(chosen, partial) else {}
    if inspect.isclass(function):
        known = options.of(function).items()
        bound = {key: getattr(chosen, key) for key, option in known if getattr(chosen, key) != option.default}
    named = [] if module is own else [str(module.__file__)]
    return ":".join([*named, function.__name__, *filter(None, [options.write(bound)])])


def _function(part: Any) -> Callable:
    """The function, or the class of a part with state, that a part's options are bound to."""
    if not isinstance(part, partial):
        return part if inspect.isfunction(part) else type(part)
    if part.args:
        raise ValueError(f"{part.func.__name__}: options {part.args} are bound by position; bind them by keyword")
    return part.func


def _reads(part: Callable) -> tuple[str, ...]:
    function = _function(part)
    condition = getattr(function, "needs_when", "")
    active = not condition or (isinstance(part, partial) and part.keywords.get(condition))
    return getattr(function, "needs", ()) if active else ()


def parts_of(module: ModuleType) -> dict[str, Callable]:
    """Public functions of `module` or of the package it is, and classes of theirs whose values can be called."""
    return {
        name: thing
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and f"{getattr(thing, '__module__', '')}.".startswith(f"{module.__name__}.")
        and (inspect.isfunction(thing) or (inspect.isclass(thing) and "__call__" in vars(thing)))
    }


def _check_slot(name: str) -> None:
    if name not in SLOTS:
        raise ValueError(f"no slot {name!r}{options.did_you_mean(name, SLOTS)}")
