"""File paths in the names of environments, recipes, models and players: made absolute, so that a run can move.

The models of a run are in `RUN/checkpoints/NAME/model`, or in `.../model/ROLE` for each of several roles.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from envs.adapters.schemes import SCHEMES

SEAT_FORM = re.compile(r"(\w+)=(.+)", re.DOTALL)  # SEAT=SPEC; other names of players have a `:` or `/` before a `=`
MODEL_CONFIGS = ("config.json", "adapter_config.json")  # of a model, and of adapters
MODEL_FILES = ("config.toml", "config.json", "adapter_config.json", "model/config.json")  # of a run or a model


def absolute_spec(spec: str) -> str:
    """Return the name of an environment or recipe with any file path in it made absolute.

    `mine.py:Game`, `mine.py` and `mcp:mine.py:make` hold a path; `math/Arithmetic-v0`, `package.module:Name-v0`, `grpo`
    and `mcp:python server.py`, a command, do not and are returned unchanged.
    """
    scheme, colon, name = spec.partition(":")
    if colon and scheme in SCHEMES:
        return spec if any(map(str.isspace, name)) else f"{scheme}:{absolute_spec(name)}"
    path, suffix, name = spec.rpartition(".py:")
    if suffix:
        return f"{absolute_path(path + '.py')}:{name}"
    return absolute_path(spec) if spec.endswith(".py") else spec


def absolute_path(path: str) -> str:
    """Return a path made absolute, with `~` replaced by the user's folder; "" is returned unchanged."""
    return os.path.abspath(os.path.expanduser(path)) if path else path


def absolute_model(name: str) -> str:
    """Return the name of a model, absolute if it is that of a folder."""
    return absolute_path(name) if name != "tiny" and os.path.isdir(os.path.expanduser(name)) else name


def absolute_player(spec: str) -> str:
    """Return the name of a player of a seat with any path in it made absolute.

    `mine.py:play` holds a path, and so does the folder of a run or of a model. Other names, such as `random`,
    `minimax:depth=2` and `openai:MODEL@URL`, are returned unchanged, even where there is a folder of that name. The
    name may be that of a player for one seat, as SEAT=SPEC.
    """
    if (match := SEAT_FORM.fullmatch(spec)) and not Path(spec).expanduser().is_dir():
        return f"{match[1]}={absolute_player(match[2])}"
    if ".py:" in spec:
        return absolute_spec(spec)
    folder = Path(spec).expanduser()
    is_path = os.sep in spec or any((folder / name).is_file() for name in MODEL_FILES)
    return absolute_path(spec) if spec and folder.is_dir() and is_path else spec


def run_of_model(folder: Path) -> Path | None:
    """Return the folder of the run whose checkpoint the model in `folder` belongs to; None for any other folder."""
    path = folder.resolve()
    home = path if path.name == "model" else path.parent
    is_checkpoint = home.name == "model" and home.parent.parent.name == "checkpoints"
    return home.parent.parent.parent if is_checkpoint else None


def role_models(folder: Path) -> list[Path]:
    """Return the folders of the models of a run, a checkpoint or its `model/` that has one for each role.

    They are in the order of their names; [] for any other folder.
    """
    for home in (folder, folder / "model", folder / "checkpoints" / "latest" / "model"):
        if run_of_model(home) and not any((home / config).is_file() for config in MODEL_CONFIGS):
            models = {path.parent for config in MODEL_CONFIGS for path in home.glob(f"*/{config}")}
            if models:
                return sorted(models)
    return []
