"""Paths that a user names, alone or in the names of environments, recipes, models and players: made absolute.

So they mean the same in a run that is resumed from another folder, and after an environment has changed the working
directory. Messages show them as they were typed (`as_typed`). The models of a run are in `RUN/checkpoints/NAME/model`,
or in `.../model/ROLE` for each of several roles.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import tempfile
from collections.abc import Iterable
from pathlib import Path

from envs.adapters.schemes import change_path
from envs.multi.seat_names import WORDS

SEAT_FORM = re.compile(
    rf"({WORDS})=(.+)", re.DOTALL
)  # SEAT=SPEC; other names of players have a `:` or `/` before a `=`
MODEL_CONFIGS = ("config.json", "adapter_config.json")  # of a model, and of adapters
MODEL_FILES = ("config.toml", "config.json", "adapter_config.json", "model/config.json")  # of a run or a model

_typed_by_path: dict[str, str] = {}  # by the absolute path: how it was written


def absolute_spec(spec: str) -> str:
    """Return the name of an environment or recipe with any file path in it made absolute; other names unchanged."""
    return change_path(spec, absolute_path)


def absolute_path(path: str) -> str:
    """Return a path made absolute, with `~` replaced by the user's folder; "" is returned unchanged.

    `as_typed` then knows how it was written.
    """
    absolute = os.path.abspath(os.path.expanduser(path)) if path else path
    if absolute != path:
        _typed_by_path[absolute] = path.rstrip(os.sep)
    return absolute


def as_typed(text: object) -> str:
    """Return a message, or a path, with each path that `absolute_path` has returned in it as it was written."""
    message = str(text)
    for path in sorted(_typed_by_path, key=len, reverse=True):
        if path in message:
            typed_text = _typed_by_path[path].replace("\\", r"\\")
            message = re.sub(rf"(?<![\w./]){re.escape(path)}(?![\w-]|\.\w)", typed_text, message)
    return message


def check_command(spec: str, env_args: Iterable[str] = (), data_root: str | None = None) -> str:
    """Return the command that checks `spec` with the `KEY=VALUE` texts of its arguments and the folder of its data."""
    words = (word for text in env_args for word in ("--env-arg", text))
    data = ("--data-root", data_root) if data_root else ()
    return shlex.join(("python", "-m", "envs", "check", spec, *words, *data))


def forget_typed() -> None:
    """Forget how paths were written: another command line is about to be read."""
    _typed_by_path.clear()


def output_file(text: str) -> Path:
    """Return `text` as the absolute path of a file that can be written, new or existing; a `type` for argparse.

    Raises `ArgumentTypeError` for a folder, a file in a folder that does not exist, or one that is not writable, and
    `OSError` for a path that the operating system refuses.
    """
    path = Path(absolute_path(text))
    if path.is_dir():
        raise argparse.ArgumentTypeError("is a folder")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {Path(text).parent}")
    is_new = not path.exists()
    if not os.access(path.parent if is_new else path, os.W_OK):
        raise argparse.ArgumentTypeError("not writable")
    if is_new:  # file systems such as /proc take no files, whatever their permissions say
        path.touch()
        path.unlink()
    return path


def output_folder(text: str) -> Path:
    """Return `text` as the absolute path of a writable folder, new or existing; a `type` for argparse. Leaves nothing.

    Raises `ArgumentTypeError` for an empty path, a file, also among its parents, and a folder that is not writable or
    is to be made in such a one, and `OSError` for a path that the operating system refuses.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError("names no folder")
    path = Path(absolute_path(text))
    path.exists()  # raises for a path that the operating system refuses
    place = next(part for part in (path, *path.parents) if os.path.lexists(part))
    if not place.is_dir():
        raise argparse.ArgumentTypeError("is a file" if place == path else f"{as_typed(place)} is a file")
    if not os.access(place, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise argparse.ArgumentTypeError("not writable" if place == path else f"{as_typed(place)} is not writable")
    try:  # file systems such as /proc take no folders, whatever their permissions say
        os.rmdir(tempfile.mkdtemp(prefix=".turnwise-", dir=place))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise argparse.ArgumentTypeError(f"no folder can be made in {as_typed(place)} ({reason})") from None
    return path


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
