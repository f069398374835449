"""Where the metrics of a run go besides `metrics.jsonl`: one file of this folder per service, chosen by `--logger`.

A logger is a class `Logger` in `rl/train/loggers/NAME.py`, or any class that `--logger module:Class` names.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

from envs.watchdog import WATCHDOG
from rl.cli import UserError, one_line, suggest
from rl.policy.extras import check_installed
from rl.settings import Settings
from sandboxes.source_files import import_source_module

if TYPE_CHECKING:
    from rl.train.run_folder import RunFolder

NONE = "none"
MEMBERS = ("log", "flush", "close")  # of a `Logger`


@dataclass(frozen=True)
class RunInfo:
    """What a logger is told about its run.

    Attributes:
        path: The run's folder, an absolute path.
        config: Every setting and the parts of the recipe, by name; values are numbers, text, booleans or lists.
        update: Updates made so far: 0 in a new run, the update of the checkpoint in a resumed one.

    """

    path: Path
    config: Mapping[str, Any]
    update: int = 0


class Logger(Protocol):
    """Sends the metrics of one run to one service. Created with a `RunInfo` before the cold start.

    A module of this folder that needs an optional package names it as `PACKAGE`, which is also the extra. The
    constructor raises `ValueError` if the service cannot be used. What the other methods raise ends the logger with
    a warning and never the run, except for a `UserError`.
    """

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Send metrics that were measured after `update` updates. All values are finite.

        A resumed run logs the updates since its last checkpoint again.
        """

    def flush(self) -> None:
        """Write what is buffered; called before each checkpoint, so that a killed run has gaps nowhere."""

    def close(self, results: Mapping[str, float]) -> None:
        """End the log. `results` are the run's final numbers, such as `success_after`; empty if it did not end."""


class Loggers:
    """Several loggers as one. A logger that fails is dropped with one line on standard error."""

    def __init__(self, spec: str, run: RunInfo) -> None:
        """Open the loggers that `spec` names (`parse`). Raises `UserError` if one of them cannot be used."""
        self._loggers: dict[str, Logger] = {}
        for name, logger_class in parse(spec).items():
            try:
                self._loggers[name] = logger_class(run)
            except (Exception, SystemExit) as error:
                self.close()
                reason = one_line(error) or type(error).__name__
                raise UserError(f"--logger {name}: {reason}") from error

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Send metrics that were measured after `update` updates; their values must be finite."""
        self._each(lambda logger: logger.log(update, metrics))

    def flush(self) -> None:
        """Write what is buffered."""
        self._each(lambda logger: logger.flush())

    def close(self, results: Mapping[str, float] = MappingProxyType({})) -> None:
        """End all logs, with the run's final numbers if it has any. A second call does nothing."""
        with suppress(UserError):  # a full disk at the end: the run's own files say so
            self._each(lambda logger: logger.close(results))
        self._loggers = {}

    def _each(self, act: Callable[[Logger], None]) -> None:
        for name, logger in list(self._loggers.items()):
            try:
                act(logger)
            except UserError:
                raise
            except (Exception, SystemExit) as error:  # a service may be down; the run does not depend on it
                del self._loggers[name]
                reason = one_line(error) or type(error).__name__
                print(f"warning: --logger {name} failed and is left out: {reason}", file=sys.stderr, flush=True)


def open_loggers(settings: Settings, parts: Mapping[str, Any], folder: RunFolder) -> Loggers:
    """Return the loggers of a run; `parts` are the parts of its recipe by slot, `folder` is its folder.

    Raises `UserError`, which says how to continue, if one of them cannot be used; the folder is then unlocked.
    """
    run = RunInfo(folder.path.resolve(), {**asdict(settings), **parts}, folder.num_updates())
    try:
        return Loggers(settings.logger, run)
    except UserError as error:
        folder.close()
        hint = f"; mend that, or change --logger, and continue with --resume --out {folder.path}"
        raise UserError(f"{error}{hint}") from error


def parse(spec: str) -> dict[str, Callable[[RunInfo], Logger]]:
    """Return the classes that `spec` names, by name: `none`, or names such as `tensorboard,wandb,module:Class`.

    Raises `UserError` for a name that is unknown or stands twice, `none` beside others, and what cannot be imported or
    is no class of a logger.
    """
    names = [name.strip() for name in spec.split(",")]
    if names == [NONE]:
        return {}
    if NONE in names:
        raise UserError(f"--logger {spec}: {NONE} stands alone; leave out {NONE}, or the others")
    if "" in names:
        raise UserError(f"--logger {spec!r}: names no logger; choose from {', '.join((*bundled(), NONE))}")
    if len(set(names)) < len(names):
        raise UserError(f"--logger {spec}: names a logger twice")
    return {name: _logger_class(name) for name in names}


def check(spec: str) -> None:
    """Raise `UserError` for what `parse` refuses, and for a logger of this folder whose package is not installed."""
    for name, logger_class in parse(spec).items():
        package = getattr(sys.modules[logger_class.__module__], "PACKAGE", "") if name in bundled() else ""
        try:
            if package:
                check_installed(package, package)
        except ImportError as error:
            raise UserError(f"--logger {name}: {one_line(error)}") from None


def bundled() -> Sequence[str]:
    """Return the names of the loggers in this folder."""
    files = Path(__file__).parent.glob("*.py")
    return sorted({file.stem for file in files} - {"__init__", Path(__file__).stem})


def _logger_class(name: str) -> Callable[[RunInfo], Logger]:
    module, colon, class_name = name.rpartition(":")
    file, is_file, rest = name.partition(".py")
    if is_file and rest[:1] in ("", ":"):
        spec = f"{Path(file).stem}:{rest[1:] or 'Class'}"
        raise UserError(f"--logger {name}: give a module, not a file: {spec}, with its folder on PYTHONPATH")
    if not colon:
        if name not in bundled():
            choices = [*bundled(), NONE]
            raise UserError(f"--logger {name}: unknown{suggest(name, choices)}; or write module:Class")
        module, class_name = f"rl.train.loggers.{name}", "Logger"
    if not all(part.isidentifier() for part in module.split(".")):
        raise UserError(f"--logger {name}: {module!r} is not the name of a module; write module:Class")
    try:
        source = WATCHDOG.load_call(f"--logger {name}: its import", import_source_module, module)
        logger_class = getattr(source, class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"--logger {name}: {one_line(error)}") from None
    has_members = all(callable(getattr(logger_class, member, None)) for member in MEMBERS)
    if not (callable(logger_class) and (has_members or inspect.isfunction(logger_class))):
        members = ", ".join(MEMBERS)
        raise UserError(f"--logger {name}: is no logger; name a class with the methods {members} (docs/metrics.md)")
    return cast(Callable[[RunInfo], Logger], logger_class)
