"""Python files and modules that a user names, loaded so that every failure says where it is."""

from __future__ import annotations

import contextlib
import copyreg
import dis
import hashlib
import importlib.util
import json
import os
import sys
import sysconfig
import traceback
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from sandboxes.own_packages import PACKAGES, ROOT

SOURCES_VARIABLE = "TURNWISE_SOURCES"  # a file of the sources that `loaded_sources` returned in another process

WORDED = (ValueError, OSError, ImportError, NotImplementedError, IndexError)  # types with a text for users
MAX_FRAMES = 100  # that are searched for a line; more there are where code calls itself
# With the separator at the end. The packages of an editable installation are beside those of the user's tests.
_FOLDERS_OF_OTHERS = tuple(
    os.path.join(folder, "")
    for folder in (
        *(sysconfig.get_path(n) for n in ("stdlib", "platstdlib", "purelib", "platlib")),
        *(str(ROOT / name) for name in PACKAGES),
    )
)

_OWN_FOLDERS = tuple(os.path.join(ROOT / name, "") for name in PACKAGES)
_RAISE = dis.opmap["RAISE_VARARGS"]

_loaded: dict[str, tuple[str, str]] = {}  # by the path that was asked for: the file it leads to, and its source
_loaded_text: dict[Path, str] = {}
_neighbours: dict[str, str] = {}  # by the name of a module that stands beside a file and was imported by it: its folder


def load_source_file(path: str) -> ModuleType:
    """Import the Python file at `path` as a module, executed once per process; what it defines can be pickled.

    While it is executed it can import the modules in its folder, behind all that Python finds elsewhere. A file of
    which another process has sent the source need not be on this machine (`loaded_sources`).

    Raises ValueError for a missing file, and for one that cannot be executed, with the line where it failed.
    """
    full_path = os.path.abspath(os.path.expanduser(path))
    place, source = _sent_sources().get(full_path, (full_path, None))
    file = Path(place).resolve()
    if source is None and not file.is_file():
        raise ValueError(f"no file {path!r}")
    with _failures(path, str(file)):
        module = _load(file, source)
    _loaded[full_path] = str(file), _loaded_text[file]
    return module


def loaded_sources() -> dict[str, tuple[str, str]]:
    """Return what `load_source_file` has imported here: by the path that was asked for, the file and its source."""
    return dict(_loaded)


def import_source_module(name: str) -> ModuleType:
    """Import the module `name`, such as "mine.games".

    A file that `load_source_file` has loaded is found by its stem too, behind all that Python finds.

    Raises ModuleNotFoundError if the module, or a package that it is in, does not exist, and ValueError if one of them
    cannot be executed, with the file and the line where it failed.
    """
    try:
        spec = importlib.util.find_spec(name)  # imports the packages that it is in
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise
        raise ValueError(failure_text(error, name)) from error
    except (Exception, SystemExit) as error:
        raise ValueError(failure_text(error, name)) from error
    if spec is None and (file := next((file for file in reversed(_loaded_text) if file.stem == name), None)):
        return sys.modules.setdefault(name, sys.modules[_module_name(file)])
    if spec is None:
        raise ModuleNotFoundError(f"no module {name!r}", name=name)
    with _failures(name, spec.origin or ""):
        return import_module(name)


def failure_text(error: BaseException, label: str, file: str = "") -> str:
    """Describe an exception of a user's code in one line: `mine.py, line 3: KeyError: 'x'`.

    `label` is how the user names the code and `file` where it is. Without a line in `file` the line is the last one
    outside of Python's import system, in whatever file it is.
    """
    message = " ".join(str(error).split())
    if isinstance(error, SyntaxError):
        place, line = error.filename, error.lineno
        message = error.msg
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user_code(frame.filename)]
        own_frames = [frame for frame in frames if frame.filename == file] or frames
        place, line = (own_frames[-1].filename, own_frames[-1].lineno) if own_frames else (None, None)
    where = label if place is None or (place == file and label.endswith(".py")) else place
    return f"{where}{f', line {line}' if line else ''}: {type(error).__name__}{f': {message}' if message else ''}"


def user_code_line(error: BaseException) -> str:
    """Return "FILE, line N" of the last line of a user's code that led to `error` or its cause; "" without one.

    Code of a user is neither Python's, nor this project's, nor in an installed package.
    """
    link: BaseException | None = error
    while link is not None:
        # `extract_tb` would compute columns of every frame and look for changes of every file.
        for frame, line in reversed(deque(traceback.walk_tb(link.__traceback__), maxlen=MAX_FRAMES)):
            if line and is_user_file(frame.f_code.co_filename):
                return f"{frame.f_code.co_filename}, line {line}"
        link = link.__cause__
    return ""


def user_fault(error: BaseException) -> str:
    """Return "TYPE: text (FILE, line N)" of an error in one line, with `user_code_line`; "" without such a line."""
    line, text = user_code_line(error), " ".join(str(error).split())
    return f"{type(error).__name__}{f': {text}' if text else ''} ({line})" if line else ""


def is_own_file(filename: str) -> bool:
    """Whether a file is in one of this project's packages."""
    return filename.startswith(_OWN_FOLDERS)


def is_user_file(filename: str) -> bool:
    """Whether a file is a user's: neither this project's, nor of an installed package or of Python itself."""
    return os.path.isabs(filename) and not filename.startswith(_FOLDERS_OF_OTHERS)


def raise_named(error: BaseException, call: str, file: str = "", advice: str = "") -> NoReturn:
    """Raise what a `call` of a user's code has raised, as an error of one line that a user can act on.

    That is `error` itself if its text was written for users: by this project, which has types of its own for that, or
    by a `raise` statement of the user's code. Else it is a ValueError such as "CALL: mine.py, line 3: KeyError: 'x'",
    with `advice` at its end. The line is the user's last one, or the last one in `file`, of the code that is called.
    """
    if type(error).__module__.partition(".")[0] in PACKAGES or _is_worded(error, file):
        raise error
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{frame.filename}, line {frame.lineno}" for frame in frames if frame.filename == file]
    place, text = user_code_line(error) or (lines or [""])[-1], " ".join(str(error).split())
    line = ": ".join(filter(None, (call, place, type(error).__name__, text)))
    raise ValueError(f"{line}; {advice}" if advice else line) from error


def _is_worded(error: BaseException, called_file: str) -> bool:
    """Whether the text of an error was written for users, not by Python or a library on a mistake of the code.

    `called_file` is of the user too, wherever it is installed.
    """
    if not isinstance(error, WORDED) or not str(error):
        return False
    is_last = True
    for frame, _ in reversed(deque(traceback.walk_tb(error.__traceback__), maxlen=MAX_FRAMES)):
        file = frame.f_code.co_filename
        if is_own_file(file):
            return True
        if is_user_file(file) or file == called_file:
            return is_last and _is_raising(error)
        is_last = False
    return False


def _is_raising(error: BaseException) -> bool:
    """Whether the innermost line of a traceback is a `raise` statement."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE


@contextmanager
def _failures(label: str, file: str) -> Iterator[None]:
    try:
        yield
    except (Exception, SystemExit) as error:
        raise ValueError(failure_text(error, label, file)) from error


def _is_user_code(filename: str) -> bool:
    return filename not in (__file__, contextlib.__file__) and not filename.startswith("<frozen importlib")


@cache
def _load(file: Path, source: str | None = None) -> ModuleType:
    name = _module_name(file)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        if source is None:
            source = importlib.util.decode_source(file.read_bytes())
        with _importable_neighbours(file):
            exec(compile(source, str(file), "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    _loaded_text[file] = source
    for value in vars(module).values():  # arguments of an environment, which go to processes that have not loaded it
        if isinstance(value, type) and issubclass(value, Enum) and value.__module__ == name:
            copyreg.pickle(value, _reduce_member)  # type: ignore[arg-type]
    return module


def _reduce_member(member: Enum) -> tuple[Any, tuple[str, str, Any]]:
    file = str(sys.modules[type(member).__module__].__file__)
    path = next((path for path, (place, _) in _loaded.items() if place == file), file)
    return _load_member, (path, type(member).__qualname__, member.value)


def _load_member(path: str, enum: str, value: Any) -> Enum:
    return attrgetter(enum)(load_source_file(path))(value)


@contextmanager
def _importable_neighbours(file: Path) -> Iterator[None]:
    """Context in which the modules in the folder of `file` can be imported, behind all that Python finds elsewhere.

    Raises ImportError if one of them is imported and has the name of a module that a file of another folder has
    imported from there: Python has one module of a name.
    """
    folder = str(file.parent)
    if folder in (place or os.getcwd() for place in sys.path):
        yield
        return
    names = {name for name, home in _neighbours.items() if home != folder and _has_module(file.parent, name)}
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in names}
    names_before = set(sys.modules)
    sys.path.append(folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the file may have changed the path itself
            sys.path.remove(folder)
        clashes = sorted(names & sys.modules.keys())
        for name in sys.modules.keys() - names_before - names:
            if _has_module(file.parent, name) and _is_in(folder, sys.modules[name]):
                _neighbours.setdefault(name, folder)
        sys.modules.update(hidden)
    if clashes:
        name, home = clashes[0], _neighbours[clashes[0]]
        raise ImportError(
            f"it imports {name} from {folder}, and another file has imported {name} from {home}; rename one"
        )


def _has_module(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name).is_dir()


def _is_in(folder: str, module: ModuleType) -> bool:
    places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", ())]
    return any(place.startswith(os.path.join(folder, "")) for place in places)


def _module_name(file: Path) -> str:
    return f"{file.stem}_{hashlib.blake2b(str(file).encode(), digest_size=6).hexdigest()}"


@cache
def _sent_sources() -> Mapping[str, tuple[str, str]]:
    path = os.environ.get(SOURCES_VARIABLE)
    return json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
