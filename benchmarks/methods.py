"""Does a method add what it claims? Any recipes against their parents on any environment, seed by seed.

    python -m benchmarks.methods --list
    python -m benchmarks.methods --preset selectors --runs DIR    # 5 seeds; goes on where it was stopped
    python -m benchmarks.methods --env games/GuessNumber-v0 --tokens 100000 --arm vade --arm "grpo --keep varied" \
        --runs DIR -- --turn-tokens 8

An arm is a recipe, maybe with flags of `rl.train`. Its parent is the recipe that its file imports, and that of a recipe
with flags the recipe itself, unless `--against` names another for all. Everything after `--` is for every run. How runs
are made and compared: `benchmarks.compare.arms`.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import torch

from benchmarks.compare.arms import run_all, show_table
from benchmarks.compare.comparisons import Comparison
from benchmarks.compare.presets import PRESETS
from benchmarks.support.record import RESULTS, provenance, show
from rl.cli import Parser, UserError, one_line, real_number, run, whole_number
from rl.methods import recipe as recipes

IN_RECIPES = "rl.methods.recipes."


def parent_of(arm: str) -> str:
    """The arm that an arm states its difference from. Raises `UserError` for a recipe without a parent."""
    name, *flags = arm.split()
    if flags:
        return name
    recipes.load(name)  # or a line that names the nearest one
    values = vars(importlib.import_module(IN_RECIPES + name)).values() if not name.endswith(".py") else ()
    names = [value.__name__ for value in values if isinstance(value, ModuleType)]
    parents = [full.removeprefix(IN_RECIPES) for full in names if full.startswith(IN_RECIPES)]
    if not parents:
        raise UserError(f"--arm {arm}: it has no parent; name what it is compared with by --against")
    return parents[0]


def build(args: object) -> dict[str, Comparison]:
    """The comparisons that the command line asks for, by name."""
    flags, presets = vars(args), vars(args)["preset"] or []
    if bool(presets) == bool(flags["env"]):
        raise UserError("give --preset NAME, or --env with --tokens and --arm; --list shows the presets")
    if presets:
        return {name: PRESETS[name] for name in presets}
    if not (flags["arm"] and flags["tokens"]):
        raise UserError("--env needs --tokens N and one --arm RECIPE at least")
    pairs = tuple((arm, flags["against"] or parent_of(arm)) for arm in flags["arm"])
    if same := next((arm for arm, parent in pairs if arm == parent), None):
        raise UserError(f"--arm {same} is compared with itself; name another by --against")
    more = tuple(word for word in flags["flags"] if word != "--")
    numbers = {"samples": flags["samples"], "target": flags["target"]}
    comparison = Comparison("methods and their parents", flags["env"], more, flags["tokens"], pairs, **numbers)
    name = flags["env"].rsplit("/", 1)[-1].replace(":", "-").replace(".py", "")
    return {flags["name"] or name: comparison}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, print the table, write JSON and plot."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="show the presets")
    parser.add_argument("--preset", choices=[*PRESETS], action="append", help="a published claim; repeatable")
    parser.add_argument("--env", metavar="ID", help="the environment, where there is no preset")
    parser.add_argument("--arm", action="append", metavar="RECIPE", help="a recipe, maybe with flags; repeatable")
    parser.add_argument("--against", metavar="RECIPE", help="what all arms are compared with (default: their parents)")
    parser.add_argument("--tokens", type=whole_number(1), help="sampled tokens of every run")
    parser.add_argument("--samples", type=whole_number(0), default=0, help="episodes per test task for pass@k")
    parser.add_argument("--target", type=real_number(0, 1), default=0.0, help="success up to which episodes count")
    parser.add_argument("--name", help="of the result's files (default: the environment's)")
    parser.add_argument("--seeds", type=whole_number(2), default=5)
    parser.add_argument("--jobs", type=whole_number(1), default=2, help="runs at a time, one thread each")
    parser.add_argument("--runs", metavar="DIR", help="where finished runs are kept (default: a temporary folder)")
    parser.add_argument("--out", metavar="DIR", default=str(RESULTS), help="folder of the results")
    parser.add_argument("flags", nargs="*", metavar="-- FLAGS", help="flags of rl.train for every run")
    args = parser.parse_args(argv)
    if args.list:
        rows = [(name, one.env, ", ".join(one.arms), one.about) for name, one in PRESETS.items()]
        show("presets", ("name", "environment", "arms", "claim"), rows)
        return 0
    try:
        comparisons = build(args)
    except ValueError as error:  # an unknown recipe
        raise UserError(one_line(error)) from None
    home = Path(args.runs or tempfile.mkdtemp(prefix="methods-"))
    home.mkdir(parents=True, exist_ok=True)
    origin = provenance(torch.device("cpu"), range(args.seeds))
    how = {"kind": "methods", "seeds": args.seeds, "jobs": args.jobs, "results": Path(args.out)}
    try:
        entries = run_all(comparisons, home=home, origin=origin, **how)
    except RuntimeError as error:  # of a run that failed; what has ended is kept
        raise UserError(one_line(error)) from None
    show_table(entries, args.seeds)
    return 0


if __name__ == "__main__":
    run(main)
