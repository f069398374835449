"""The file `config.toml`: the settings of a run and the parts of its recipe as text, merged with command-line flags."""

from __future__ import annotations

import argparse
import json
import re
import sysconfig
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from datetime import date, time
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from envs.episodes.guide import STYLES
from rl import checksums
from rl.cli import UserError, suggest
from rl.flag_fields import flag_name
from rl.methods.recipe import MANY, SLOTS
from rl.schedule import Beginning, Ending, Schedule, with_mode
from rl.settings import DERIVED_FROM, LISTS, Settings
from rl.spec_paths import SEAT_FORM

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # module:function, as an argument of an environment
IN_MODULE = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_][\w.-]*")  # module:Name, also with the version of an environment
OWN_PACKAGES = ("rl", "envs", "agents", "sandboxes")
INSTALLED = {"site-packages", "dist-packages"}  # folders of installed packages
INNER_SCHEMES = ("chain", "variants", "simulated", "transitions")  # around the environment that they name

# Settings that may differ between a run and its continuation with `--resume`.
CHANGEABLE_ON_RESUME = (
    *(
        "updates",
        "sampled_tokens",
        "max_minutes",
        "target_success",
        "save_every",
        "save_minutes",
        "eval_every",
        "rollouts",
    ),
    *("trainers", "trainer_shards", "trainer_devices", "threads", "workers", "engines", "cluster"),
    *("device", "engine_devices", "engine_url", "judge", "data_root", "overlap"),
    *("microbatch_tokens", "checkpoint_activations", "logger", "push_to_hub", "hub_private", "derived"),
    *("step_seconds", "episode_seconds", "load_seconds"),
)
OF_COLD_START = ("cold_start_until", "cold_start_valid", "cold_start_from")
LIST_EXAMPLES = {
    "env_arg": "level=2",
    "template_arg": "enable_thinking=false",
    "opponent": "random",
    "seat": "player_0",
    "role": "planner=0",
    "engine_url": "http://127.0.0.1:8000",
    "derived": "lr",
}


def merge(flags: Mapping[str, Any], file: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Merge flags over a file (from `read`), both by setting or slot; keys of the file that are stale are dropped.

    Returns the settings, those named nowhere at their defaults, and the text of the parts named, by slot of the recipe,
    such as {"surrogate": "clip:high=0.3"}. `stale_keys` says which keys are dropped.
    """
    flags, file = with_mode(flags), with_mode(file)
    dropped_keys = stale_keys(flags, file)
    current = {name: value for name, value in file.items() if name not in dropped_keys}
    values = {**current, **flags}
    values["derived"] = [name for name in file.get("derived", []) if name in current and name not in flags]
    names = {setting.name for setting in fields(Settings)}
    slots = {slot: values[slot] for slot in SLOTS if slot in values}
    return Settings(**{name: value for name, value in values.items() if name in names}), slots


def stale_keys(flags: Mapping[str, Any], file: Mapping[str, Any]) -> list[str]:
    """Return the keys of `file` that are outdated because `flags` changes what they were chosen for.

    Both map names of settings and slots to values. With another `algo` in both: all slots of the file. With another
    value of `env`, `model` or another of `DERIVED_FROM`: the keys in `file["derived"]`, whose values were defaults
    computed from these. With a `cold_start` that is switched off: what was chosen for it. Keys that are also in `flags`
    are left out.
    """

    def replaces(name: str) -> bool:
        return name in flags and name in file and flags[name] != file[name]

    candidates = SLOTS if replaces("algo") else ()
    if any(map(replaces, DERIVED_FROM)):
        candidates = (*candidates, *file.get("derived", []))
    if flags.get("cold_start") == 0 and file.get("cold_start") != 0:
        defaults = {name: getattr(Settings, name) for name in OF_COLD_START}
        own = [name for name in OF_COLD_START if name not in file.get("derived", [])]
        own = [name for name in own if file.get(name) and file[name] != defaults[name]]
        candidates = (*candidates, *own)
    return [name for name in candidates if name in file and name not in flags]


def read(path: Path | str) -> dict[str, Any]:
    """Read a TOML file of settings and parts, and check it as flags are checked; return values by setting or slot.

    Raises `UserError` if the file cannot be read, is not TOML, or has an unknown key or an invalid value.
    """
    return _read(Path(path), is_unchanged=False)


def refuse_run(folder: Path) -> None:
    """Raise `UserError` if there is a run in `folder`, where a new one would begin."""
    if (folder / "config.toml").exists():
        raise UserError(
            f"--out {folder}: there is a run already; add --resume to continue it, or choose another folder"
        )


def read_run(folder: Path) -> dict[str, Any]:
    """Read the `config.toml` of a run's folder as `read` does.

    Raises `UserError` also if it was changed after the run had written it, or names no environment; without a digest,
    it is taken as it is.
    """
    path = folder / "config.toml"
    values = _read(path, is_unchanged=True)
    if not values.get("env"):
        raise UserError(f"{path}: names no env, so it is empty or was cut off{_copy_hint(path)}")
    return values


def _read(path: Path, is_unchanged: bool) -> dict[str, Any]:
    name = str(path) if is_unchanged else f"--config {path}"
    try:
        content = checksums.read_file(path)
        if is_unchanged:
            checksums.check_seal(content.decode("utf-8", "surrogateescape"))
        return parse(content.decode("utf-8-sig"), path)  # some editors begin a file with a byte-order mark
    except checksums.DamagedFile as error:
        raise UserError(f"{path}: {error}; settings are changed by flags{_copy_hint(path)}") from None
    except OSError as error:
        raise UserError(f"{name}: {(error.strerror or str(error)).lower()}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        if not is_unchanged:
            raise UserError(f"{name}: not a TOML file: {error}") from None
        way = _copy_hint(path) or "; begin a new run in another folder"
        raise UserError(f"{path}: is damaged or was cut off ({error}){way}") from None
    except RecursionError:
        raise UserError(f"{name}: not a TOML file of settings: nested too deeply") from None


def _copy_hint(path: Path) -> str:
    copies = sorted(path.parent.glob("checkpoints/update-*/trainer/config.toml"))
    return f"; {copies[-1]} is a copy of what it was" if copies else ""


def parse(text: str, path: Path | str) -> dict[str, Any]:
    """Parse and check TOML text; return values by setting or slot. `path` only names the file in errors.

    Raises `UserError` for an unknown key or an invalid value, `TOMLDecodeError` for text that is not TOML.
    """
    values = tomllib.loads(text)
    settings = {setting.name: setting for setting in fields(Settings)}
    for key, value in values.items():
        if key in SLOTS:
            is_valid = isinstance(value, list) if key in MANY else isinstance(value, str)
            if not is_valid and not (key in MANY and isinstance(value, str)):
                raise UserError(f'{path}: {key} = {toml_value(value)}: must be the text of a part, as "clip:high=0.3"')
        elif key not in settings:
            raise UserError(f"{path}: unknown key {key!r}{suggest(key, [*settings, *SLOTS])}")
        elif key == "style":
            if value not in ("", *STYLES):
                raise UserError(f"{path}: style = {toml_value(value)}: must be one of {', '.join(STYLES)}")
        elif key == "system":  # its text, not the name of the file that it came from
            if not isinstance(value, str):
                raise UserError(f"{path}: system = {toml_value(value)}: must be a text")
        elif key in (*LISTS, "derived"):
            if isinstance(value, str) and key != "derived":  # a list of one; "" of none
                values[key] = value = [value] if value else []
            if not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
                example = LIST_EXAMPLES[key]
                raise UserError(f'{path}: {key} = {toml_value(value)}: must be a list such as ["{example}"]')
        else:
            values[key] = _parse_value(path, key, value, settings[key].metadata)
    return values


def code_sources(settings: Settings, file: Mapping[str, Any]) -> list[str]:
    """Return what `settings` name of code outside of this package because `file` (from `read`) says so.

    That is the file of an environment, a recipe, an agent or an opponent, a function that an argument of the
    environment names, or another name that is not an id, such as `module:Class` or `mcp:COMMAND`.
    """
    names = [source_of(settings.env)] if settings.env == file.get("env") else []
    names += [settings.algo] if settings.algo.endswith(".py") and settings.algo == file.get("algo") else []
    is_own_agent = ".py:" in settings.agent and settings.agent == file.get("agent")
    names += [source_of(settings.agent)] if is_own_agent else []
    for text in set(settings.env_arg) & set(file.get("env_arg", ())):
        value = text.partition("=")[2]
        names += [source_of(value)] if ".py:" in value or FUNCTION.fullmatch(value) else []
    for text in set(settings.opponent) & set(file.get("opponent", ())):
        spec = match[2] if (match := SEAT_FORM.fullmatch(text)) else text
        names += [source_of(spec)] if ".py:" in spec else []
    return [*dict.fromkeys(name for name in names if name)]


def code_files(settings: Settings, slots: Mapping[str, Any]) -> list[str]:
    """Return the Python files of a user that the settings name, and `slots`, the text of the recipe's parts by slot.

    A name is `FILE.py:NAME` or `module:Name`; modules of this program and of installed packages are left out.
    """
    texts = [text for value in slots.values() for text in ([value] if isinstance(value, str) else value)]
    names = [*code_sources(settings, vars(settings)), *map(source_of, (settings.judge, *texts))]
    paths = [_module_file(match[1]) if (match := IN_MODULE.fullmatch(name)) else name for name in names]
    return [*dict.fromkeys(path for path in paths if path.endswith(".py") and Path(path).is_file())]


def _module_file(module: str) -> str:
    """Return the file of a user's own module, which is not imported; "" for any other."""
    package, *rest = module.split(".")
    if package in OWN_PACKAGES:
        return ""
    try:
        spec = find_spec(package)
    except ValueError:  # of a module that was made by hand
        return ""
    for name in rest:
        folders = spec.submodule_search_locations if spec else None
        if folders is None:
            return ""
        spec = PathFinder.find_spec(name, folders)  # a whole name would ask for the parent, which is not imported
    path = Path(spec.origin or "") if spec else Path()
    is_installed = path.is_relative_to(sysconfig.get_path("stdlib")) or INSTALLED & {*path.parts}
    return "" if is_installed else str(path)


def source_of(name: str) -> str:
    """Return the file that `name` takes code from, or `name` where that is a module or a command; "" for an id.

    `mine.py:Game` comes from `mine.py`, `chain:mine.py:Game` too. `chain:math/Arithmetic-v0` is an id.
    """
    scheme, _, rest = name.partition(":")
    if scheme in INNER_SCHEMES:
        return source_of(rest)
    file, is_file, _ = name.partition(".py:")
    return f"{file}.py" if is_file else name if ":" in name else ""


def complete(file: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run's file with those that its program did not have yet, as it behaved."""
    return {"style": "short", "dtype": "float32", "decoupled": False, "allot": "equal", **file}


def refuse_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise `UserError` if `new` changes a setting of a run that must stay as it is when the run is resumed.

    Both are by setting or slot. A setting absent from `old`, younger than the run, counts as having its default (which
    `complete` knows for some), or as unchanged if that depends on the run; one absent from `new` is kept.
    `CHANGEABLE_ON_RESUME` lists what may change.
    """
    defaults = {setting.name: setting.default for setting in fields(Settings) if setting.default is not MISSING}
    old = complete({name: value for name, value in {**defaults, **old}.items() if value is not None})
    for name, value in with_mode(new).items():
        is_known = name in old or name not in defaults
        if name not in CHANGEABLE_ON_RESUME and is_known and value != old.get(name):
            raise UserError(
                f"{flag_name(name)} cannot change in a resumed run from {old.get(name)!r} to {value!r}; "
                "leave it as it was, or begin a new run"
            )


def to_toml(settings: Settings, slots: Mapping[str, Any]) -> str:
    """Return the TOML text of the settings and of `slots`, the text of the recipe's parts by slot; `parse` reads it."""
    # Settings of groups of their own come last, as in `--help`.
    in_groups = {setting.name for base in (Beginning, Ending, Schedule) for setting in fields(base)}
    values = sorted(asdict(settings).items(), key=lambda item: item[0] in in_groups)
    lines = [f"{key} = {toml_value(value)}" for key, value in values if value is not None]
    return "\n".join([*lines, "", *(f"{slot} = {toml_value(text)}" for slot, text in slots.items()), ""])


def _parse_value(path: Path | str, key: str, value: Any, metadata: Mapping[str, Any]) -> Any:
    """Check a value of the file with the type and choices of its flag; return it in the flag's type."""
    if "type" not in metadata:
        if not isinstance(value, bool):
            raise UserError(f"{path}: {key} = {toml_value(value)}: must be true or false")
        return value
    try:
        if isinstance(value, (bool, list, dict)):
            raise argparse.ArgumentTypeError("not a single value")
        result = metadata["type"](str(value))
        if isinstance(result, str) and not isinstance(value, str):
            raise argparse.ArgumentTypeError(f'must be a text in quotes, such as "{value}"')
    except argparse.ArgumentTypeError as error:
        raise UserError(f"{path}: {key} = {toml_value(value)}: {error}") from None
    if "choices" in metadata and result not in metadata["choices"]:
        raise UserError(f"{path}: {key} = {toml_value(value)}: unknown{suggest(str(result), metadata['choices'])}")
    return result


def toml_value(value: Any) -> str:
    """Return a value of the file as TOML text."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {toml_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, (date, time)):
        return str(value)
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
