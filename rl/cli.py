"""Shared by the commands of `rl`: a parser with one-line errors, argument types with ranges, and exit codes.

A user's mistake is reported in one line on standard error with exit code 2; a bug keeps its traceback. The two are
told apart by where an exception is raised, not by its type: code that reads the user's input runs in `user_input()`.

    def main() -> None:
        args = parser().parse_args()
        with user_input():
            env, recipe = open_env(args.env), find_recipe(args.algo)  # raise plain ValueError and the like
        train(env, recipe, args)  # a ValueError from here on is a bug

    if __name__ == "__main__":
        run(main)
"""

from __future__ import annotations

import argparse
import errno
import gc
import inspect
import re
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf, isfinite
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from envs.data import resolve_folders
from envs.exits import EnvExit, is_stdout_closed, is_stdout_lost, name_stdout
from envs.stop_signals import end_in_order, like_ctrl_c
from envs.suggestions import nearest
from envs.watchdog import WATCHDOG, Overrun
from rl.spec_paths import as_typed, forget_typed
from sandboxes import SandboxUnavailable

N = TypeVar("N", int, float)
T = TypeVar("T")

USER_ERROR = 2
INTERRUPTED = 128 + 2  # a shell's code for SIGINT
BROKEN_PIPE = 128 + 13  # a shell's code for SIGPIPE
MAX_CHOICES = 12  # choices that an error message lists in full

# What lower layers raise for an invalid value or what this machine lacks, and unfinished classes for a missing member.
# KeyError is not among them: its message does not help a user.
INPUT_ERRORS: tuple[type[Exception], ...] = (ValueError, IndexError, OSError, ImportError, SyntaxError)
INPUT_ERRORS += (NotImplementedError, EnvExit, SandboxUnavailable)
# A disk that is full or not writable: reported in one line wherever it occurs, because no code is at fault.
DISK_ERRNOS = frozenset({errno.EACCES, errno.ENOSPC, errno.EDQUOT, errno.EROFS})
STDOUT_LOST = (
    "standard output is closed, or was replaced by the code of an environment or a policy, so nothing can be printed; "
    "leave sys.stdout and file descriptor 1 as they are"
)
# What a user can do about an error of writing a file or folder, by its number.
REMEDIES = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f)",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENOENT: "put the folder back",
    errno.ENOTDIR: "put the folder back",
    errno.EISDIR: "move the folder of that name away",
    errno.EEXIST: "move what has that name away",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "make it writable"),
}


class UserError(ValueError):
    """A mistake in the user's input. Its message is one line that names the value and, where possible, the fix."""


@contextmanager
def user_input() -> Iterator[None]:
    """Turn any of `INPUT_ERRORS` raised in the block into a `UserError`.

    Its message is that of the error on one line. `BrokenPipeError` and all other exceptions pass unchanged.
    """
    try:
        yield
    except (UserError, BrokenPipeError):
        raise
    except INPUT_ERRORS as error:
        raise UserError(one_line(name_stdout(error) if isinstance(error, OSError) else error)) from error


def run(main: Callable[[], int | None]) -> NoReturn:
    """Call `main` and exit with the code it returns (None is 0), 2 after a `UserError`, or 130 after Ctrl-C.

    SIGTERM and SIGHUP act like Ctrl-C; the code is then 143 or 129. The watchdog runs meanwhile. A call that takes too
    long, a disk that is full or not writable, and standard output that code of a user has closed also end with 2 and
    one line on standard error. If the reader of
    standard output has closed the pipe (`| head`), exit silently with 141. Other exceptions are bugs and keep their
    traceback.
    """
    gc.set_threshold(50_000)  # imports make a million objects that stay: a tenth of the CPU time of a start
    forget_typed()
    _print_in_any_encoding()
    with like_ctrl_c() as stop:
        try:
            with user_input():
                resolve_folders()
            with WATCHDOG.running(program()):
                code = main() or 0
            sys.stdout.flush()
        except (UserError, Overrun) as error:
            code = _print_error(error)
        except KeyboardInterrupt:
            sys.stderr.write(f"\n{program()}: interrupted\n")
            code = INTERRUPTED
        except OSError as error:
            if isinstance(error, BrokenPipeError) and is_stdout_closed():
                code = BROKEN_PIPE
            elif error.errno in DISK_ERRNOS:
                code = _print_error(name_stdout(error))
            elif is_stdout_lost():
                code = _print_error(UserError(STDOUT_LOST))
            else:
                raise
        except (AttributeError, ValueError):  # of a `sys.stdout` that is None or closed
            if not is_stdout_lost():
                raise
            code = _print_error(UserError(STDOUT_LOST))
    code = stop.exit_code(code)
    end_in_order(code)
    sys.exit(code)


def _print_in_any_encoding() -> None:
    """Print `?` for a character that the encoding of the terminal or file lacks; an error would end the command."""
    if getattr(sys.stdout, "errors", "") == "strict":
        with suppress(AttributeError, ValueError, OSError):  # of a `sys.stdout` that user code has replaced or closed
            sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]


def run_async(function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    """Call an `async` function in an event loop of its own, as `asyncio.run` does, and return its result.

    Unlike that, after Ctrl-C it leaves no warning about a coroutine that was never awaited, and if another Ctrl-C comes
    while its tasks are cancelled, no tracebacks of those that were not.
    """
    import asyncio  # not needed to parse flags

    coroutine, runner = function(*args), asyncio.Runner()
    loop = runner.get_loop()
    try:
        with runner:
            try:
                return runner.run(coroutine)
            except KeyboardInterrupt:
                loop.set_exception_handler(lambda _, context: None)
                raise
    finally:
        if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
            coroutine.close()


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one line, `prog: error: ...`, without the usage; exit code 2.

    The line names the flag, its value and the nearest valid one. Flags cannot be abbreviated. An unknown flag is
    reported before a missing one, of which it may be a misspelling.
    """

    def __init__(self, prog: str | None = None, **kwargs: Any) -> None:
        """Take the arguments of `ArgumentParser`; `prog` defaults to `program()`."""
        super().__init__(prog or program(), allow_abbrev=False, **kwargs)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse `args` (None: those of the process) as argparse does, but exit with code 2 at the first unknown flag.

        A parser with subcommands leaves that to them, because they have flags of their own.
        """
        arguments = sys.argv[1:] if args is None else list(args)
        self._refuse_unprintable(arguments)
        if self._subparsers is None:
            self._refuse_unknown_flags(arguments)
        return super().parse_known_args(arguments, namespace)

    def error(self, message: str) -> NoReturn:
        """Print `message` on one line and exit with code 2. Called by argparse."""
        message = re.sub(r"^argument (\S+): ", r"\1: ", message)
        match = re.match(r"unrecognized arguments: (\S+)", message)
        if match:
            message = self._unknown_argument(match[1])
        self.exit(USER_ERROR, f"{self.prog}: error: {' '.join(message.split())}\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write a message as argparse does, but let the error of standard output pass, so that `run` reports it."""
        if file is not None and file is sys.stdout:
            file.write(message)
            file.flush()
        else:
            super()._print_message(message, file)

    def _refuse_unknown_flags(self, arguments: Sequence[str]) -> None:
        for argument in arguments:
            if argument == "--":
                return
            flag = argument.partition("=")[0]
            if flag.startswith("--") and " " not in flag and flag not in self._option_string_actions:
                self.error(self._unknown_argument(flag))

    def _refuse_unprintable(self, arguments: Sequence[str]) -> None:
        """Refuse what cannot be written to the files of a run, or given to the operating system, before any work."""
        for argument in arguments:
            if "\0" in argument or any("\ud800" <= letter <= "\udfff" for letter in argument):
                name = argument.encode("utf-8", "backslashreplace").decode()
                self.error(f"{name!r}: must be UTF-8 text without NUL characters")

    def _unknown_argument(self, argument: str) -> str:
        """Return the error message for an argument that the parser does not know."""
        if not argument.startswith("-"):
            return f"unexpected argument {argument}"
        flags = {flag.lstrip("-"): flag for flag in self._option_string_actions}
        near = nearest(argument.lstrip("-"), flags)
        return f"unknown flag {argument}" + (f"; did you mean {flags[near]}?" if near else "")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)  # type: ignore[misc]
        except argparse.ArgumentError as error:
            raise self._invalid_value(action, arg_string, error.message) from None
        except OSError as error:  # of a path, such as one that is too long
            raise self._invalid_value(action, arg_string, (error.strerror or str(error)).lower()) from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            raise self._invalid_value(action, value, f"unknown{suggest(str(value), choices)}")

    @staticmethod
    def _invalid_value(action: argparse.Action, value: Any, reason: str) -> argparse.ArgumentError:
        dest = "command" if action.dest == argparse.SUPPRESS else action.dest
        name = "/".join(action.option_strings) or str(action.metavar or dest)
        value_text = value if value and not re.search(r"\s", str(value)) else repr(value)
        return argparse.ArgumentError(None, f"{name} {value_text}: {reason}")


def suggest(value: str, choices: Collection[str]) -> str:
    """Return the end of an error message that rejects `value`: "; did you mean grpo?" if a choice is near.

    Else all choices, "; choose from cpu, cuda", if there are at most `MAX_CHOICES`; else "".
    """
    near = nearest(value, choices)
    if near:
        return f"; did you mean {near}?"
    return f"; choose from {', '.join(choices)}" if 0 < len(choices) <= MAX_CHOICES else ""


def whole_number(low: int | None = None, high: int | None = None) -> Callable[[str], int]:
    """Return a function that reads an integer from `low` to `high`, both included, for argparse's `type`.

    None is no limit. The function raises `ArgumentTypeError` for any other text.
    """

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError("not a whole number") from None
        return _check_range(number, low, high)

    return parse


def real_number(low: float | None = None, high: float | None = None, *, above: float = -inf) -> Callable[[str], float]:
    """Return a function that reads a finite number from `low` to `high`, both included, for argparse's `type`.

    None is no limit; the number must also be greater than `above`. Raises `ArgumentTypeError` for any other text.
    """

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError("not a number") from None
        if not isfinite(number):
            raise argparse.ArgumentTypeError("must be finite")
        if number <= above:
            raise argparse.ArgumentTypeError(f"must be greater than {above:g}")
        return _check_range(number, low, high)

    return parse


def remedy(number: int | None) -> str:
    """Return what a user can do about an error of the operating system of this number, such as "make room"."""
    return REMEDIES.get(number or 0, "mend that")


def program() -> str:
    """Return the program's name as the user typed it: `rl.train` for `python -m rl.train`, else the script's name."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name.removesuffix(".__main__") if spec else Path(sys.argv[0]).name


def one_line(error: BaseException) -> str:
    """Return an exception's message on one line: `path: reason` for an error about a file, its type if it has none."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return " ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__


def _check_range(number: N, low: N | None, high: N | None) -> N:
    if low is not None and number < low:
        raise argparse.ArgumentTypeError(f"must be at least {_number_text(low)}")
    if high is not None and number > high:
        raise argparse.ArgumentTypeError(f"must be at most {_number_text(high)}")
    return number


def _number_text(number: int | float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def _print_error(error: BaseException) -> int:
    sys.stderr.write(f"{program()}: error: {as_typed(one_line(error))}\n")
    return USER_ERROR
