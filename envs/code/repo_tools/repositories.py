"""Small repositories with one thing wrong: the files, an issue about it, the edit that mends it, and hidden tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from envs.code.grading.feedback import complaint
from envs.code.repo_tools.projects import PAIRS, PROJECTS, Loaded, Modules, Project, Raised, pair
from envs.code.synthesis.bugs import FAMILIES, Bug, bugs
from envs.procedural import shuffled

LEVELS = 4
TESTS = "tests.py"
INPUTS = 8  # for each function
LEAST = 2  # inputs on which a bug must show
VISIBLE = 4  # functions that the visible tests call
PATIENCE = 2000
EACH = 1500  # repositories of each project, of which there are more

Outcome = tuple[tuple[Any, ...], Any, Any]  # arguments, what is right, what the broken repository gives


class HiddenCase(NamedTuple):
    """A call of `module.function` and what it should return; plain data."""

    function: str
    given: tuple[Any, ...]
    wanted: Any


class Fix(NamedTuple):
    """The text `old`, which a file has once, and what should stand there."""

    path: str
    old: str
    new: str


def total(level: int) -> int:
    """How many repositories of a level there are."""
    return PAIRS if level == 0 else len(PROJECTS) * EACH


def build(number: int, level: int, rng: np.random.Generator) -> dict[str, Any]:
    """A repository, JSON-able: `files`, `issue`, `fix`, `trail`, `cases`, `project` and `family`.

    `trail` lists the files from the one that the issue speaks of to the one that is wrong, each importing the next.
    Level 0 is a pair of functions of a line each; in level 1 the bug is in the function that the issue names, in level
    2 in another module; in level 3 a function has no body yet. The number chooses the repository as it should be,
    another one for each, and the generator what is wrong with it.
    """
    if level == 0:
        project, modules = pair(number), pair(number).filled(0)
    else:
        place, which = divmod(number, len(PROJECTS))
        project = PROJECTS[which]
        modules = project.filled(shuffled(place, project.size, project.name))
    for _ in range(PATIENCE):
        found = _spoiled(rng, modules, level)
        if found is None:
            continue
        module, bug = found
        broken = {**modules, module: bug.made(modules[module])}
        outcomes = _outcomes(rng, project, Loaded(modules), Loaded(broken))
        shows = _shown_by(outcomes, f"{module}.{bug.function}", level)
        if shows:
            return _repository(rng, project, modules, broken, found, shows, outcomes)
    raise RuntimeError(f"no bug of level {level} shows in {PATIENCE} tries in project {project.name}")


def cases(text: str) -> list[HiddenCase]:
    """The hidden cases of a repository from their text."""
    return [HiddenCase(*one) for one in ast.literal_eval(text)]


def _spoiled(rng: np.random.Generator, modules: Modules, level: int) -> tuple[str, Bug] | None:
    """A bug of a family drawn first, so that rare ones are as frequent as others."""
    families = {0: ["operator"], 3: ["missing"]}.get(level) or [name for name in FAMILIES if name != "missing"]
    family = families[int(rng.integers(len(families)))]
    names = [next(iter(modules))] if level == 0 else list(modules)[: len(modules) - (level == 2)]
    for name in map(str, rng.permutation(names)):
        if found := bugs(modules[name], family):
            return name, found[int(rng.integers(len(found)))]
    return None


def _outcomes(rng: np.random.Generator, project: Project, good: Loaded, bad: Loaded) -> dict[str, list[Outcome]]:
    """What both give for different arguments of each function."""
    found: dict[str, list[Outcome]] = {}
    for function in project.takes:
        drawn = {repr(given): given for given in (project.given(function, rng) for _ in range(INPUTS))}
        found[function] = [(given, good.call(function, given), bad.call(function, given)) for given in drawn.values()]
    return found


def _shown_by(outcomes: Mapping[str, list[Outcome]], spoiled: str, level: int) -> str:
    """The function whose wrong values the issue tells, "" if the bug does not show as the level asks."""
    numbers = {name: sum(map(_differs, rows)) for name, rows in outcomes.items()}
    if level != 2:
        return spoiled if numbers.get(spoiled, 0) >= LEAST else ""
    module = spoiled.partition(".")[0]
    others = [name for name, number in numbers.items() if number >= LEAST and name.partition(".")[0] != module]
    return others[-1] if others else ""


def _differs(row: Outcome) -> bool:
    return repr(row[1]) != repr(row[2])


def _repository(
    rng: np.random.Generator,
    project: Project,
    modules: Modules,
    broken: Modules,
    place: tuple[str, Bug],
    shows: str,
    outcomes: Mapping[str, list[Outcome]],
) -> dict[str, Any]:
    module, bug = place
    files = {f"{name}.py": source for name, source in broken.items()}
    example, *hidden = sorted(filter(_differs, outcomes[shows]), key=lambda row: len(repr(row[0])))
    visible: dict[str, Outcome] = {}
    for name in rng.permutation(list(outcomes)):
        same = [row for row in outcomes[str(name)] if not _differs(row)]
        if same and len(visible) < VISIBLE:
            visible[str(name)] = same[0]
    if project.name != "pair":
        files[TESTS] = _tests(visible)
    held = [(shows, given, right) for given, right, _ in hidden]
    for name, rows in outcomes.items():
        kept = rows if name == f"{module}.{bug.function}" else rows[-3:]
        held += [(name, given, right) for given, right, _ in kept if name != shows or (given, right) != example[:2]]
    return {
        "files": files,
        "issue": _issue(shows, example, bug),
        "fix": list(_fix(f"{module}.py", files[f"{module}.py"], modules[module])),
        "trail": [f"{name}.py" for name in _way(modules, shows.partition(".")[0], module)],
        "cases": repr(held),
        "project": project.name,
        "family": bug.family,
    }


def _issue(function: str, example: Outcome, bug: Bug) -> str:
    """What is wrong, in a line."""
    module, _, name = function.partition(".")
    if bug.family == "missing":
        return f"{name} in {module}.py is not written yet"
    given, right, wrong = example
    if isinstance(wrong, Raised):
        return complaint(name, given, right, raised=wrong.error)
    return complaint(name, given, right, value=wrong)


def _tests(visible: Mapping[str, Outcome]) -> str:
    """A file of tests, which pass."""
    blocks = []
    for function, (given, right, _) in sorted(visible.items()):
        module, _, name = function.partition(".")
        call = f"{name}({', '.join(map(repr, given))})"
        blocks.append(f"def test_{name}():\n    from {module} import {name}\n\n    assert {call} == {right!r}\n")
    return "\n\n".join(blocks)


def _fix(path: str, wrong: str, right: str) -> Fix:
    """The lines that differ, with as many before them as make them a text that stands there once."""
    old, new = wrong.splitlines(), right.splitlines()
    first = next(i for i, (one, other) in enumerate(zip(old, new, strict=False)) if one != other)
    last = 0  # equal lines at the end
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    while True:
        texts = ["\n".join(lines[first : len(lines) - last]) for lines in (old, new)]
        margin = re.match(r" *", texts[0])[0]  # type: ignore[index]
        if texts[0].strip() and wrong.count(texts[0].strip()) == 1 and texts[1].startswith(margin):
            return Fix(path, *(text[len(margin) :].rstrip() for text in texts))
        first -= 1


def _way(modules: Modules, start: str, goal: str) -> list[str]:
    """The shortest chain of imports from one module to another."""
    ways = [[start]]
    while ways:
        way = ways.pop(0)
        if way[-1] == goal:
            return way
        ways += [[*way, name] for name in re.findall(r"^from (\w+) import", modules[way[-1]], re.MULTILINE)]
    return [start, goal]
