"""What a training run is told: a flat list of settings, read from flags and a TOML file and written back the same."""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rl.cli import Parser, UserError, real_number, suggest, whole_number
from rl.methods.recipe import MANY, SLOTS
from rl.policy.registry import ENGINES, device_list
from rl.seeds import LARGEST

CHANGEABLE = (
    "updates",
    "sampled_tokens",
    "save_every",
    "threads",
    "device",
    "engine_devices",
    "data_root",
    "microbatch_tokens",
    "checkpoint_activations",
    "derived",
)  # by a resumed run
DERIVED_FROM = ("env", "env_arg", "model", "lora", "max_tokens")  # what `Settings.resolved` depends on


def _flag(default: Any, help: str, kind: Callable[[str], Any] = str, **more: Any) -> Any:
    metadata = {"help": help, "type": kind, **more}
    return (
        field(default_factory=list, metadata=metadata) if default == [] else field(default=default, metadata=metadata)
    )


def _switch(help: str) -> Any:
    return field(default=False, metadata={"help": help, "action": argparse.BooleanOptionalAction})


def located(spec: str) -> str:
    """The name of an environment or recipe; one that begins with a file's path, with that path in full."""
    path, suffix, name = spec.rpartition(".py:")
    if suffix:
        return f"{_full(path + '.py')}:{name}"
    return _full(spec) if spec.endswith(".py") else spec


def _full(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path)) if path else path


def _model(name: str) -> str:
    return _full(name) if name != "tiny" and os.path.isdir(os.path.expanduser(name)) else name


@dataclass(frozen=True)
class Settings:
    """Every setting of a run but its recipe's parts. A name is a flag with dashes, and a key of `config.toml`.

    Paths are in full, so that a run can be continued from anywhere. `derived`, which is no flag, names the settings
    that nobody chose: they followed from others.
    """

    env: str = _flag("", "environment: an id, path/to/file.py:Class, or module:Name-v0; `list` shows them all", located)
    env_arg: list[str] = _flag([], "an argument of the environment, such as level=2; repeatable", metavar="KEY=VALUE")
    algo: str = _flag(
        "grpo", "recipe: a name from rl/methods/recipes, or path/to/file.py; `list` shows them all", located
    )
    model: str = _flag("tiny", "`tiny`, a model folder, or a Hugging Face hub id", _model)
    engine: str = _flag(
        "hf",
        "what samples: `hf`, or `vllm` in this process or `vllm:process` in another, where it is installed",
        choices=ENGINES,
    )
    engine_devices: str = _flag(
        "",
        "CUDA devices of vllm:process, as 1,2: several share every layer (default: the trainer's)",
        device_list,
        metavar="N,N",
    )
    device: str = _flag("auto", "auto, cpu, cuda or cuda:N")
    updates: int | None = _flag(
        None, "updates in all (default for tiny: 600 of one turn, fewer of more; else 200)", whole_number(0)
    )
    sampled_tokens: int | None = _flag(
        None, "end after this many sampled tokens, however many updates are left", whole_number(1)
    )
    groups: int = _flag(32, "groups (tasks) per update", whole_number(1))
    size: int = _flag(8, "episodes per group", whole_number(1))
    lag: int = _flag(0, "updates that may pass between sampling and training on it; 0 is on-policy", whole_number(0))
    lr: float | None = _flag(
        None,
        "learning rate (default for tiny: 3e-4 with one turn, less with more; else 1e-6, of adapters 1e-5)",
        real_number(above=0),
    )
    dtype: str = _flag(
        "float32", "precision of the model; its optimiser keeps float32 in any case", choices=["float32", "bfloat16"]
    )
    lora: int = _flag(
        0, "rank of LoRA adapters, trained instead of the weights; 0 is none (needs turnwise[lora])", whole_number(0)
    )
    lora_alpha: int | None = _flag(
        None, "scale of the adapters, whose product counts alpha / rank (default: twice the rank)", whole_number(1)
    )
    lora_targets: str = _flag(
        "all-linear", "layers that get one: all-linear, those of every block, or names such as q_proj,v_proj"
    )
    epochs: int = _flag(1, "passes over the episodes of one update", whole_number(1))
    minibatches: int = _flag(1, "optimiser steps per pass", whole_number(1))
    weight_decay: float = _flag(0.0, "AdamW's decoupled weight decay", real_number(0))
    max_grad_norm: float = _flag(1.0, "gradient norm above which a step is scaled down", real_number(above=0))
    microbatch_tokens: int = _flag(
        16384, "tokens of one forward pass; changes memory, not the gradient", whole_number(1)
    )
    checkpoint_activations: bool = _switch("compute the blocks anew in the backward pass: less memory, more time")
    temperature: float = _flag(1.0, "sampling temperature of training episodes", real_number(above=0))
    turn_tokens: int | None = _flag(
        None,
        "most tokens of one reply (default for tiny: twice the oracle's longest, 8 or more; else 256)",
        whole_number(1),
    )
    max_tokens: int = _flag(512, "most tokens of one episode, context included", whole_number(2))
    cold_start: int | None = _flag(
        None,
        "oracle episodes to imitate first (default for tiny: 600 of one turn, fewer of more; else 0)",
        whole_number(0),
    )
    cold_start_until: float | None = _flag(
        None,
        "where imitation ends, from random play (0) to the oracle (1) (default: 0.3 with one turn, less with more)",
        real_number(0, 1),
    )
    eval_episodes: int = _flag(200, "held-out tasks played greedily before and after", whole_number(0))
    save_every: int = _flag(50, "updates between checkpoints", whole_number(1))
    seed: int = _flag(0, "seed of everything", whole_number(0, LARGEST))
    threads: int = _flag(0, "CPU threads of a forward pass; 0 leaves it to torch", whole_number(0, 1024))
    data_root: str = _flag("", "folder of real benchmark files (or the variable TURNWISE_DATA)", _full, metavar="DIR")
    derived: list[str] = field(default_factory=list)

    @property
    def is_tiny(self) -> bool:
        """Whether the bundled model is trained, which starts from nothing."""
        return self.model == "tiny"

    def resolved(self, max_turns: int, longest_reply: int = 16) -> Settings:
        """The same with the defaults that depend on the model and the environment filled in.

        `longest_reply` is the oracle's, in tokens of the bundled model.
        """
        # One outcome is shared by all turns of an episode: with more turns, each says less and costs more.
        tiny = {
            "lr": float(f"{min(3e-4, 6.7e-4 / (1 + max_turns) ** 0.5):.1g}"),
            "updates": min(600, max(1, 800 // max_turns)),
            # Where a reply is one of many, a policy that hardly knows the moves unlearns them before it can choose.
            "cold_start": 1200 // (1 + max_turns) if max_turns <= 4 else 400,
            "cold_start_until": round(0.3 / max_turns, 3) if max_turns <= 4 else 0.2,
            "turn_tokens": min(max(8, 2 * longest_reply), self.max_tokens - 1),
        }
        other = {"lr": 1e-5 if self.lora else 1e-6, "updates": 200, "cold_start": 0, "cold_start_until": 1.0}
        other["turn_tokens"] = min(256, self.max_tokens - 1)
        defaults: dict[str, Any] = tiny if self.is_tiny else other
        if self.lora:
            defaults["lora_alpha"] = 2 * self.lora
        derived = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        return replace(self, **derived, derived=[*self.derived, *derived])

    @property
    def episodes(self) -> int:
        """Episodes per update."""
        return self.groups * self.size


def add_flags(parser: Parser) -> None:
    """One flag per setting and per slot; what is not given is absent from the parsed namespace."""
    for setting in fields(Settings):
        if not setting.metadata:
            continue
        options = dict(setting.metadata)
        if setting.default not in (MISSING, None, "") and setting.default is not False:
            options["help"] += f" (default: {setting.default})"
        if setting.name == "env_arg":
            options["action"] = "append"
        parser.add_argument(_dashed(setting.name), default=argparse.SUPPRESS, **options)
    slots = parser.add_argument_group(
        "slots", "one part each, as NAME or NAME:key=value,key=value; overrides the recipe"
    )
    for slot in SLOTS:
        many: dict[str, Any] = {"nargs": "+"} if slot in MANY else {}
        slots.add_argument(
            _dashed(slot), default=argparse.SUPPRESS, metavar="PART", help=f"see rl/methods/parts/{slot}.py", **many
        )


def settle(given: Mapping[str, Any], file: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Settings and slot words: flags over what of the file is not `outdated` over the defaults."""
    kept = {name: value for name, value in file.items() if name not in outdated(given, file)}
    merged = {**kept, **given}
    merged["derived"] = [name for name in file.get("derived", []) if name in kept and name not in given]
    names = {setting.name for setting in fields(Settings)}
    words = {slot: merged[slot] for slot in SLOTS if slot in merged}
    return Settings(**{name: value for name, value in merged.items() if name in names}), words


def outdated(given: Mapping[str, Any], file: Mapping[str, Any]) -> list[str]:
    """What of the file only followed from something that `given` replaces: a recipe's slots, derived settings."""

    def replaced(name: str) -> bool:
        return name in given and name in file and given[name] != file[name]

    followed = SLOTS if replaced("algo") else ()
    if any(map(replaced, DERIVED_FROM)):
        followed = (*followed, *file.get("derived", []))
    return [name for name in followed if name in file and name not in given]


def read(path: Path | str) -> dict[str, Any]:
    """The settings of a TOML file, checked as flags are. Raises `UserError` that names the file and the key."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"), path)
    except OSError as error:
        raise UserError(f"--config {path}: {(error.strerror or str(error)).lower()}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--config {path}: not a TOML file: {error}") from None


def parse(text: str, path: Path | str) -> dict[str, Any]:
    """The same of the text of that file. Raises `TOMLDecodeError` for other text."""
    raw = tomllib.loads(text)
    kinds = {setting.name: setting for setting in fields(Settings)}
    for key, value in raw.items():
        if key in SLOTS:
            fits = isinstance(value, list) if key in MANY else isinstance(value, str)
            if not fits and not (key in MANY and isinstance(value, str)):
                raise UserError(f'{path}: {key} = {value!r}: must be the words of a part, such as "clip:high=0.3"')
        elif key not in kinds:
            raise UserError(f"{path}: unknown key {key!r}{suggest(key, [*kinds, *SLOTS])}")
        elif key in ("env_arg", "derived"):
            if not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
                example = "level=2" if key == "env_arg" else "lr"
                raise UserError(f'{path}: {key} = {value!r}: must be a list such as ["{example}"]')
        else:
            raw[key] = _checked(path, key, value, kinds[key].metadata)
    return raw


def refuse_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise `UserError` if `now` says other than `before`: a resumed run continues what was begun.

    Only how long it goes on and how it is watched may change.
    """
    begun = {**_defaults(), **before}  # a setting that is younger than the run
    for name, value in now.items():
        if name not in CHANGEABLE and value != begun.get(name):
            raise UserError(
                f"{_dashed(name)} cannot change in a resumed run from {begun.get(name)!r} to {value!r}; "
                "leave it as it was, or begin a new run"
            )


def write(settings: Settings, words: Mapping[str, Any]) -> str:
    """TOML text that `read` turns back into these settings and slots."""
    lines = [f"{key} = {_toml(value)}" for key, value in asdict(settings).items() if value is not None]
    return "\n".join([*lines, "", *(f"{slot} = {_toml(word)}" for slot, word in words.items()), ""])


def _defaults() -> dict[str, Any]:
    return {setting.name: setting.default for setting in fields(Settings) if setting.default is not MISSING}


def _checked(path: Path | str, key: str, value: Any, metadata: Mapping[str, Any]) -> Any:
    if "type" not in metadata:
        if not isinstance(value, bool):
            raise UserError(f"{path}: {key} = {_toml(value)}: must be true or false")
        return value
    try:
        if isinstance(value, (bool, list, dict)):
            raise argparse.ArgumentTypeError("not a single value")
        result = metadata["type"](str(value))
    except argparse.ArgumentTypeError as error:
        raise UserError(f"{path}: {key} = {_toml(value)}: {error}") from None
    if "choices" in metadata and result not in metadata["choices"]:
        raise UserError(f"{path}: {key} = {_toml(value)}: unknown{suggest(str(result), metadata['choices'])}")
    return result


def _toml(value: Any) -> str:
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _dashed(name: str) -> str:
    return "--" + name.replace("_", "-")
