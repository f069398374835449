"""`python -m rl.train --env math/Arithmetic-v0 --algo grpo`: train an agent; `--help` lists every setting."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import envs
from envs.types import Stop
from rl import settings as config
from rl.cli import Parser, UserError, run, user_input
from rl.methods import recipe as recipes
from rl.policy.extras import check_peft
from rl.policy.registry import engine_devices
from rl.policy.vllm.version import installed as check_installed
from rl.records import Completion, Group, Ticket, Trajectory, Turn
from rl.settings import Settings

CONFIG = (
    "settings from a TOML file, such as a run's config.toml; with another --algo its slots are left out, and with "
    "another --env or --model the defaults that were derived for its own"
)


def parser() -> Parser:
    """The command line of `rl.train`."""
    made = Parser(description=__doc__)
    config.add_flags(made)
    made.add_argument("--config", metavar="FILE", help=CONFIG)
    made.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/ENV-ALGO-seedN, numbered)")
    made.add_argument("--resume", action="store_true", help="continue the run in --out from its last checkpoint")
    made.add_argument("--dry-run", action="store_true", help="print the arithmetic and the settings, and stop")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, check everything that can be checked, then train."""
    args = vars(parser().parse_args(argv))
    file, out, resume, dry = args.pop("config"), args.pop("out"), args.pop("resume"), args.pop("dry_run")
    with user_input():
        folder = Path(out) if out else None
        begun = _file(file, folder, resume)
        if resume:
            config.refuse_changes(begun, args)
        settings, words = config.settle(args, begun)
        if settings.env == "list":
            return _list((row.id, row.line) for row in envs.entries())
        if settings.algo == "list":
            return _list(recipes.catalogue())
        recipe = recipe_of(settings, words)
        named = recipes.words(recipe)
        _check(settings, recipe)
    if left := config.outdated(args, begun):
        print(f"left out of {file}, because flags replace what it followed from: {', '.join(left)}")
    if settings.data_root:
        os.environ["TURNWISE_DATA"] = settings.data_root
    from rl.train.run_folder import RunFolder
    from rl.train.session import Session  # torch and transformers load only now, after the cheap mistakes

    with user_input():
        run_folder = RunFolder.existing(folder) if folder and resume else None
        if run_folder:
            if not dry:
                run_folder.hold()
            _check_updates(settings, run_folder.updates())
        session = Session(settings, recipe, run_folder)
    print(session.arithmetic())
    if dry:
        if session.room is None:  # else it was told before the model was moved
            print(session.foresight.estimate.words())
        print(config.write(session.settings, named), end="")
        return 0
    return session.train(folder or _free(settings))


def recipe_of(settings: Settings, words: dict[str, Any]) -> recipes.Recipe:
    """The recipe that `--algo` names, with the slots that flags or the file replace."""
    return recipes.load(settings.algo).but(**recipes.parse(words))


def _file(file: str | None, folder: Path | None, resume: bool) -> dict[str, Any]:
    if not resume:
        return config.read(file) if file else {}
    if folder is None:
        raise UserError("--resume needs --out DIR, the folder of the run to continue")
    if file:
        raise UserError("--resume reads the run's own config.toml; leave out --config")
    if not (folder / "config.toml").is_file():
        raise UserError(f"--resume: no run in {folder} (it has no config.toml); leave out --resume to begin one")
    return config.read(folder / "config.toml")


def _check(settings: Settings, recipe: recipes.Recipe) -> None:
    if not settings.env:
        raise UserError("--env is missing; `--env list` shows the environments")
    engine_devices(settings.engine, settings.engine_devices)
    if settings.engine.startswith("vllm"):
        check_installed()
    if settings.lora:
        check_peft()
    elif settings.lora_alpha or settings.lora_targets != Settings.lora_targets:
        raise UserError("--lora-alpha and --lora-targets are about adapters: add --lora RANK, such as --lora 16")
    if settings.size == 1 and not _teaches_alone(recipe):
        raise UserError(
            f"--size 1: {settings.algo} compares the members of a group, and one has nobody to be compared with; "
            "use --size 2 or more, or --algo reinforce, reinforce_pp or ppo"
        )
    if (settings.turn_tokens or 0) >= settings.max_tokens:
        raise UserError(f"--turn-tokens {settings.turn_tokens}: must be below --max-tokens {settings.max_tokens}")
    if settings.minibatches > settings.groups:
        raise UserError(f"--minibatches {settings.minibatches}: must be at most --groups {settings.groups}")
    if settings.data_root and not Path(settings.data_root).is_dir():
        raise UserError(f"--data-root {settings.data_root}: no such folder")


def _check_updates(settings: Settings, made: int) -> None:
    if settings.updates is not None and settings.updates < made:
        raise UserError(f"--updates {settings.updates}: the run has made {made} already; ask for as many or more")


def _teaches_alone(recipe: recipes.Recipe) -> bool:
    """Whether an episode without group mates can earn anything, tried on two of them: one with reward 0, one with 1."""
    recipe = deepcopy(recipe)  # its parts may remember what they see
    groups: list[Group] = []
    for reward in (0.0, 1.0):
        turn = Turn((0,), Completion((0, 0), (0.0, 0.0), (0.0, 0.0), (0, 0)), reward=reward)
        turn.streams.update(value=(0.0, 0.0), ref=(0.0, 0.0), reply_advantage=(reward, reward))
        groups.append(Group(Ticket(len(groups), 0, "train", 0, 1), [Trajectory([turn], Stop.TERMINATED)]))
    if not any(map(recipe.keep, groups)):
        return False
    return any(credit.any() for group in recipe.credit(groups, recipe.normalization) for credit in group)


def _free(settings: Settings) -> Path:
    stem = settings.env.rsplit("/", 1)[-1].replace(":", "-").replace(".py", "")
    base = f"{stem}-{Path(settings.algo).stem}-seed{settings.seed}"
    names = (base if n == 1 else f"{base}-{n}" for n in range(1, 10_000))
    return next(path for path in (Path("runs") / name for name in names) if not path.exists())


def _list(rows: Any) -> int:
    entries = list(rows)
    width = max(len(name) for name, _ in entries)
    for name, line in entries:
        print(f"{name:<{width}}  {line}")
    return 0


if __name__ == "__main__":
    run(main)
