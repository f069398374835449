"""`python -m rl.train --env math/Arithmetic-v0 --algo grpo`: train an agent; `--help` lists every setting."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports below, which another package's names may shadow
    from rl.own_packages import put_own_packages_first

    put_own_packages_first()

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import envs
from envs.watchdog import WATCHDOG, Budgets
from rl import config_file
from rl.checks import learns_from_single_episodes
from rl.cli import INPUT_ERRORS, Parser, UserError, one_line, run, user_input
from rl.methods import recipe as recipes
from rl.methods.conflicts import find_conflict
from rl.policy.extras import check_peft
from rl.policy.hub.lookup import find_model
from rl.policy.registry import check_engines, engine_devices
from rl.policy.servers.address import check_servers
from rl.policy.vllm.version import require_vllm
from rl.processes.address import check_cluster, join_cluster
from rl.prompt_options import parse_template_args
from rl.schedule import check_schedule
from rl.settings import Settings, add_flags
from rl.spec_paths import absolute_path, output_folder
from rl.train import unread_flags
from rl.train.hub.upload import check_access
from rl.train.loggers import logger as loggers

# It is trained from scratch, at a rate that is too high for its last updates. The horizon does not follow --updates.
TINY_SCHEDULE = "linear:warmup=10,over=600,floor=0.1"
CONFIG_HELP = (
    "settings from a TOML file, such as a run's config.toml; with another --algo, its slots are ignored, and with "
    "another --env or --model, so are the defaults that were derived for the old one"
)


def parser() -> Parser:
    """Return the command-line parser of `rl.train`."""
    command = Parser(description=__doc__)
    add_flags(command)
    command.add_argument("--config", metavar="FILE", help=CONFIG_HELP)
    out = "the run's folder (default: runs/ENV-ALGO-seedN, numbered)"
    command.add_argument("--out", type=output_folder, metavar="DIR", help=out)
    command.add_argument("--resume", action="store_true", help="continue the run in --out from its last checkpoint")
    command.add_argument(
        "--dry-run", action="store_true", help="print the size of an update, the memory needed and the settings; stop"
    )
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags, check all that can be checked, then train (or only print, with `--dry-run` or a `list`).

    `argv` are the command-line arguments, None for those of the process. Returns the exit code: 0, or 130 after Ctrl-C.
    Raises `UserError` for wrong settings and for a run that cannot start or continue.
    """
    flags = vars(parser().parse_args(argv))
    config_path, folder, runs = flags.pop("config"), flags.pop("out"), Path(absolute_path("runs"))
    is_resumed, is_dry_run = flags.pop("resume"), flags.pop("dry_run")
    with user_input():
        file = _read_config(config_path, folder, is_resumed)
        if is_resumed:
            config_file.refuse_changes(file, flags)
            file = config_file.complete(file)
        settings, slots = config_file.merge(flags, file)
        for source in config_file.code_sources(settings, file):
            print(f"this config runs code from {source}", flush=True)
        if settings.env == "list":
            return _print_table((row.id, row.line) for row in envs.entries())
        if settings.algo == "list":
            return _print_table(recipes.catalogue())
        WATCHDOG.budgets = Budgets(settings.load_seconds, settings.step_seconds, settings.episode_seconds)
        _check_names(settings, flags, file, config_path or f"{folder}/config.toml")
        recipe = build_recipe(settings, slots)
        slots = recipes.words(recipe)
        _check_settings(settings, recipe)
        unread_flags.check(settings, recipe, flags)
        folder = folder or _default_folder(runs, settings)
        if not is_resumed:
            _check_new(folder, settings.model)
        if settings.push_to_hub:
            check_access(settings)
        if settings.engine.startswith("vllm") and not (is_dry_run or settings.engine_url):
            require_vllm()
    if stale := config_file.stale_keys(flags, file):
        print(f"ignored in {config_path}, because flags replace what they came from: {', '.join(stale)}")
    if settings.data_root:
        os.environ["TURNWISE_DATA"] = settings.data_root
    from rl.train.run_folder import RunFolder  # imports torch, so mistakes in flags are reported before
    from rl.train.session import Session
    from rl.train.trainers import restarts
    from rl.train.trainers.processes import TrainersLost

    with user_input():
        run_folder = RunFolder.open_existing(folder) if is_resumed else None
        if run_folder:
            if not is_dry_run:
                run_folder.lock()
            _check_updates(settings, run_folder.num_updates())
            if jump := rate_jump(recipe, run_folder.num_updates(), file.get("updates"), settings.updates):
                print(jump)
        if not is_dry_run:
            _join_cluster(settings)
        try:
            session = Session(settings, recipe, run_folder, is_dry_run, flags)
        except TrainersLost as error:
            raise UserError(f"--trainers {settings.trainers}: {error}") from None
    print(session.description())
    if is_dry_run:
        if planned := _not_started(settings):
            print(f"planned, and neither started nor checked on this machine: {planned}")
        if (
            session.memory_report.free is None
        ):  # on a GPU, the session has printed the estimate before it moved the model
            print(session.memory_report.estimate.summary())
        print(config_file.to_toml(session.settings, slots), end="")
        return 0
    again = lambda run_folder: Session(settings, build_recipe(settings, slots), run_folder)  # noqa: E731
    return restarts.train(session, folder, again)


def build_recipe(settings: Settings, slots: Mapping[str, Any]) -> recipes.Recipe:
    """Return the recipe that `settings.algo` names, with the parts that `slots` names in place of its own.

    `slots` maps a slot (a recipe's place for a part) to text, such as {"surrogate": "clip:high=0.3"}. The bundled model
    gets `TINY_SCHEDULE` where neither the recipe nor `slots` choose a schedule. Raises `ValueError` for an unknown
    recipe or part.
    """
    recipe, default = recipes.load(settings.algo), recipes.Recipe().schedule
    if settings.is_tiny and _function_and_options(recipe.schedule) == _function_and_options(default):
        slots = {"schedule": TINY_SCHEDULE, **slots}
    return recipe.but(**recipes.parse(slots))


def _check_names(settings: Settings, flags: Mapping[str, Any], file: Mapping[str, Any], path: str) -> None:
    """Raise `UserError` for an environment or a recipe of the file at `path` that does not exist or does not load."""
    for key, find in (("env", envs.entry), ("algo", recipes.load)):
        name = getattr(settings, key)
        if key in file and key not in flags and name:
            try:
                find(name)
            except INPUT_ERRORS as error:
                raise UserError(f"{path}: {key} = {config_file.toml_value(name)}: {one_line(error)}") from error


def _join_cluster(settings: Settings) -> None:
    from rl.policy.pretrained import resolve_device

    numbers = {"workers": settings.workers, "engines": settings.engines, "trainers": settings.trainers}
    gpus = int(bool(settings.cluster) and resolve_device(settings.device).type != "cpu")
    join_cluster(settings.cluster, **numbers, gpus=gpus)


def _not_started(settings: Settings) -> str:
    """What a dry run leaves out of a run, as "--engine vllm:process, --trainers 4"; "" if there is nothing."""
    left_out = {
        "--engine": settings.engine if settings.engine != "hf" else "",
        "--engines": settings.engines if settings.engines > 1 else "",
        "--engine-devices": settings.engine_devices,
        "--engine-url": " ".join(settings.engine_url),
        "--trainers": settings.trainers if settings.trainers > 1 else "",
        "--trainer-devices": settings.trainer_devices,
        "--workers": settings.workers or "",
        "--cluster": settings.cluster,
    }
    return ", ".join(f"{flag} {value}" for flag, value in left_out.items() if value)


def _function_and_options(part: Any) -> tuple[Any, Any]:
    return getattr(part, "func", part), getattr(part, "keywords", {})


def _read_config(config_path: str | None, folder: Path | None, is_resumed: bool) -> dict[str, Any]:
    """Read the settings of the file that `--config` names, or of the run to resume; {} without either."""
    if not is_resumed:
        return config_file.read(config_path) if config_path else {}
    if folder is None:
        raise UserError("--resume needs --out DIR, the folder of the run to continue")
    if config_path:
        raise UserError("--resume reads the run's own config.toml; leave out --config")
    if not (folder / "config.toml").is_file():
        raise UserError(f"--resume: no run in {folder} (it has no config.toml); leave out --resume to begin one")
    return config_file.read_run(folder)


def _check_settings(settings: Settings, recipe: recipes.Recipe) -> None:
    """Raise `UserError` for settings that do not work together, as far as that shows without a model."""
    if not settings.env:
        raise UserError("--env is missing; `--env list` shows the environments")
    envs.arguments(settings.env_arg, envs.entry(settings.env), "--env-arg")
    parse_template_args(settings.template_arg)
    if settings.engines > 1:
        check_engines(settings.engine, settings.engine_devices, settings.engines)
    else:
        for devices in settings.engine_devices.split(";"):
            engine_devices(settings.engine, devices)
    is_engine_far = settings.engines > 1 or settings.engine.startswith("vllm")
    if conflict := find_conflict(recipe, settings.size, is_engine_far=is_engine_far, has_journal=settings.journal):
        raise UserError(conflict)
    check_servers(
        settings.engine_url,
        engine=settings.engine,
        engines=settings.engines,
        devices=settings.engine_devices,
        num_roles=len(settings.role),
    )
    if settings.lora:
        check_peft()
    elif settings.lora_alpha or settings.lora_targets != Settings.lora_targets:
        raise UserError("--lora-alpha and --lora-targets are about adapters: add --lora RANK, such as --lora 16")
    if settings.size == 1 and not learns_from_single_episodes(recipe):
        raise UserError(
            f"--size 1: {settings.algo} compares the members of a group, so a group of one teaches nothing; "
            "use --size 2 or more, or --algo reinforce, reinforce_pp or ppo"
        )
    if settings.max_tokens and (settings.turn_tokens or 0) >= settings.max_tokens:
        raise UserError(f"--turn-tokens {settings.turn_tokens}: must be below --max-tokens {settings.max_tokens}")
    flags = {"--engine-devices": settings.engine_devices, "--trainer-devices": settings.trainer_devices}
    numbers = {"workers": settings.workers, "engines": settings.engines, "trainers": settings.trainers}
    devices = next((f"{flag} {value}" for flag, value in flags.items() if value), "")
    check_cluster(settings.cluster, **numbers, devices=devices)
    rank_devices = settings.trainer_devices.split(",") if settings.trainer_devices else []
    if rank_devices and (settings.trainers < 2 or len(rank_devices) != settings.trainers or ";" in rank_devices[0]):
        text = f"--trainer-devices {settings.trainer_devices}"
        if settings.trainers < 2:
            raise UserError(f"{text}: the only trainer is on --device; add --trainers N, or leave it out")
        raise UserError(f"{text}: give one number for each of --trainers, which is {settings.trainers}, as 0,1 for two")
    if settings.trainer_shards and settings.trainers % settings.trainer_shards:
        raise UserError(
            f"--trainer-shards {settings.trainer_shards}: must divide --trainers, which is {settings.trainers}"
        )
    check_schedule(settings, engine=settings.engine, engines=settings.engines, groups=settings.groups)
    if (settings.minibatches or 1) > settings.groups:
        raise UserError(f"--minibatches {settings.minibatches}: must be at most --groups {settings.groups}")
    if settings.hub_private and not settings.push_to_hub:
        raise UserError("--hub-private is about the repository of --push-to-hub ID, which is missing")
    loggers.check(settings.logger)
    if settings.eval_every and not settings.eval_episodes:
        raise UserError("--eval-every: needs --eval-episodes above 0")
    if settings.target_success is not None and not settings.eval_every:
        raise UserError(f"--target-success {settings.target_success:g}: nothing measures it; add --eval-every N")
    if settings.target_success is not None and settings.updates is not None and settings.eval_every > settings.updates:
        raise UserError(
            f"--target-success {settings.target_success:g}: --eval-every {settings.eval_every} never measures it in "
            f"--updates {settings.updates}; lower the one or raise the other"
        )
    if settings.data_root and not Path(settings.data_root).is_dir():
        raise UserError(f"--data-root {settings.data_root}: no such folder")


def _check_new(folder: Path, model: str) -> None:
    """Raise an error if a new run cannot be written to `folder`, or there is no such model. Leaves nothing."""
    try:
        output_folder(str(folder))
    except argparse.ArgumentTypeError as error:
        raise UserError(f"--out {folder}: {error}") from None
    config_file.refuse_run(folder)
    if model != "tiny":
        find_model(model)


def _check_updates(settings: Settings, num_updates: int) -> None:
    if settings.updates is not None and settings.updates < num_updates:
        raise UserError(
            f"--updates {settings.updates}: the run has made {num_updates} already; ask for as many or more"
        )


def rate_jump(recipe: recipes.Recipe, update: int, old_total: int | None, total: int | None) -> str:
    """Return a line that says by how much the learning rate jumps at `update` where a run gets another length.

    `old_total` and `total` are its lengths in updates. Returns "" where the schedule does not depend on the length.
    """
    if not old_total or not total:
        return ""
    old, new = recipe.schedule(update, old_total), recipe.schedule(update, total)
    name = recipes.words(recipe)["schedule"]
    if old == new:
        return ""
    return (
        f"note: the schedule {name} depends on --updates: with {total} in place of {old_total}, the learning rate goes "
        f"on at {new:.3g} of --lr, not at {old:.3g}; `constant`, or `over=N`, does not depend on it"
    )


def _default_folder(runs: Path, settings: Settings) -> Path:
    """Return the first of ENV-ALGO-seedN, ENV-ALGO-seedN-2, ... in the folder `runs` that does not exist."""
    env = settings.env.rsplit("/", 1)[-1].replace(":", "-").replace(".py", "")
    base = f"{env}-{Path(settings.algo).stem}-seed{settings.seed}"
    names = (base if n == 1 else f"{base}-{n}" for n in range(1, 10_000))
    return next(path for path in (runs / name for name in names) if not path.exists())


def _print_table(rows: Iterable[tuple[str, str]]) -> int:
    entries = list(rows)
    width = max(len(name) for name, _ in entries)
    for name, line in entries:
        print(f"{name:<{width}}  {line}")
    return 0


if __name__ == "__main__":
    run(main)
