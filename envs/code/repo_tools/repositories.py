"""Small repositories with one bug: the files, an issue about the bug, the edit that fixes it, and hidden tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from envs.code.grading.feedback import describe_failure
from envs.code.repo_tools.projects import PAIR_COUNT, PROJECTS, CallError, LoadedProject, Modules, Project, build_pair
from envs.code.synthesis.bugs import FAMILIES, Bug, find_bugs
from envs.procedural import permute

LEVELS = 4
TESTS = "tests.py"
INPUTS = 8  # for each function
MIN_FAILURES = 2  # inputs on which a bug must show
VISIBLE = 4  # functions that the visible tests call
MAX_TRIES = 2000  # to find a bug that shows
PER_PROJECT = 1500  # repositories of each project, which could give more

Comparison = tuple[tuple[Any, ...], Any, Any]  # arguments, the right result, the broken repository's result


class HiddenCase(NamedTuple):
    """A call of a function, `"prices.with_tax"`, its arguments, and what it should return; plain data."""

    function: str
    args: tuple[Any, ...]
    expected: Any


class Fix(NamedTuple):
    """The edit that fixes a repository: in the file `path`, replace the text `old`, which it has once, by `new`."""

    path: str
    old: str
    new: str


def total(level: int) -> int:
    """Return the number of repositories of a level, 0 to 3."""
    return PAIR_COUNT if level == 0 else len(PROJECTS) * PER_PROJECT


def build(number: int, level: int, rng: np.random.Generator) -> dict[str, Any]:
    """Build a repository as JSON-able data: `files`, `issue`, `fix`, `trail`, `cases`, `project` and `family`.

    Level 0 is a pair of functions of a line each; in level 1 the bug is in the function that the issue names, in level
    2 in another module; in level 3 a function has no body yet. Raises RuntimeError where no bug shows.

    Args:
        number: Which repository to build, before the bug; each number below `total(level)` gives another one.
        level: The difficulty, 0 to 3.
        rng: The generator that chooses the bug, the inputs and the visible tests.

    Returns:
        `files` maps paths to texts, `issue` is a line about a wrong result, `fix` a `Fix` as a list, `cases` the text
            that `parse_cases` reads. `trail` lists the files from the one that the issue names to the one with the bug,
            each importing the next. `project` and `family` name the project and the kind of bug.
    """
    if level == 0:
        project, modules = build_pair(number), build_pair(number).fill(0)
    else:
        place, which = divmod(number, len(PROJECTS))
        project = PROJECTS[which]
        modules = project.fill(permute(place, project.size, project.name))
    for _ in range(MAX_TRIES):
        choice = _sample_bug(rng, modules, level)
        if choice is None:
            continue
        module, bug = choice
        broken_modules = {**modules, module: bug.apply(modules[module])}
        comparisons = _compare(rng, project, LoadedProject(modules), LoadedProject(broken_modules))
        function = _choose_issue_function(comparisons, f"{module}.{bug.function}", level)
        if function:
            return _repository(rng, project, modules, broken_modules, choice, function, comparisons)
    raise RuntimeError(f"no bug of level {level} shows in {MAX_TRIES} tries in project {project.name}")


def parse_cases(text: str) -> list[HiddenCase]:
    """Parse the `cases` of a repository, the `repr` of a list of tuples `("module.function", args, expected)`."""
    return [HiddenCase(*case) for case in ast.literal_eval(text)]


def _sample_bug(rng: np.random.Generator, modules: Modules, level: int) -> tuple[str, Bug] | None:
    """Draw a module and a bug in it. The family is drawn first, so that rare ones are as frequent as others."""
    families = {0: ["operator"], 3: ["missing"]}.get(level) or [name for name in FAMILIES if name != "missing"]
    family = families[int(rng.integers(len(families)))]
    names = [next(iter(modules))] if level == 0 else list(modules)[: len(modules) - (level == 2)]
    for name in map(str, rng.permutation(names)):
        if bugs := find_bugs(modules[name], family):
            return name, bugs[int(rng.integers(len(bugs)))]
    return None


def _compare(
    rng: np.random.Generator, project: Project, good: LoadedProject, bad: LoadedProject
) -> dict[str, list[Comparison]]:
    """Call each function of both versions with the same random arguments."""
    comparisons: dict[str, list[Comparison]] = {}
    for function in project.signatures:
        inputs = {repr(args): args for args in (project.sample_args(function, rng) for _ in range(INPUTS))}
        comparisons[function] = [
            (args, good.call(function, args), bad.call(function, args)) for args in inputs.values()
        ]
    return comparisons


def _choose_issue_function(comparisons: Mapping[str, list[Comparison]], buggy: str, level: int) -> str:
    """The function whose wrong result the issue reports; "" if the bug does not show as the level demands."""
    failures = {name: sum(map(_differs, rows)) for name, rows in comparisons.items()}
    if level != 2:
        return buggy if failures.get(buggy, 0) >= MIN_FAILURES else ""
    module = buggy.partition(".")[0]
    others = [name for name, count in failures.items() if count >= MIN_FAILURES and name.partition(".")[0] != module]
    return others[-1] if others else ""


def _differs(row: Comparison) -> bool:
    return repr(row[1]) != repr(row[2])


def _repository(
    rng: np.random.Generator,
    project: Project,
    modules: Modules,
    broken_modules: Modules,
    place: tuple[str, Bug],
    function: str,
    comparisons: Mapping[str, list[Comparison]],
) -> dict[str, Any]:
    """Assemble the data of a repository with a bug at `place` that the results of `function` show."""
    module, bug = place
    files = {f"{name}.py": source for name, source in broken_modules.items()}
    example, *failures = sorted(filter(_differs, comparisons[function]), key=lambda row: len(repr(row[0])))
    visible: dict[str, Comparison] = {}
    for name in rng.permutation(list(comparisons)):
        equal = [row for row in comparisons[str(name)] if not _differs(row)]
        if equal and len(visible) < VISIBLE:
            visible[str(name)] = equal[0]
    if project.name != "pair":
        files[TESTS] = _test_file(visible)
    cases = [(function, args, right) for args, right, _ in failures]
    for name, rows in comparisons.items():
        selection = rows if name == f"{module}.{bug.function}" else rows[-3:]
        cases += [
            (name, args, right) for args, right, _ in selection if name != function or (args, right) != example[:2]
        ]
    return {
        "files": files,
        "issue": _issue(function, example, bug),
        "fix": list(_fix(f"{module}.py", files[f"{module}.py"], modules[module])),
        "trail": [f"{name}.py" for name in _import_path(modules, function.partition(".")[0], module)],
        "cases": repr(cases),
        "project": project.name,
        "family": bug.family,
    }


def _issue(function: str, example: Comparison, bug: Bug) -> str:
    """The issue: one line about a wrong result, or a missing function."""
    module, _, name = function.partition(".")
    if bug.family == "missing":
        return f"{name} in {module}.py is not written yet"
    args, right, wrong = example
    if isinstance(wrong, CallError):
        return describe_failure(name, args, right, error=wrong.error)
    return describe_failure(name, args, right, value=wrong)


def _test_file(visible: Mapping[str, Comparison]) -> str:
    """The file of visible tests, which pass in spite of the bug."""
    blocks = []
    for function, (args, right, _) in sorted(visible.items()):
        module, _, name = function.partition(".")
        call = f"{name}({', '.join(map(repr, args))})"
        blocks.append(f"def test_{name}():\n    from {module} import {name}\n\n    assert {call} == {right!r}\n")
    return "\n\n".join(blocks)


def _fix(path: str, wrong: str, right: str) -> Fix:
    """The lines that differ, after as many equal ones as make the old text unique in the file."""
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


def _import_path(modules: Modules, start: str, goal: str) -> list[str]:
    """The shortest chain of imports from one module to another."""
    paths = [[start]]
    while paths:
        path = paths.pop(0)
        if path[-1] == goal:
            return path
        paths += [[*path, name] for name in re.findall(r"^from (\w+) import", modules[path[-1]], re.MULTILINE)]
    return [start, goal]
