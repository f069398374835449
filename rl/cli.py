"""What the commands of `rl` share: a parser whose errors are one line, argument types with ranges, and the way out.

A user's mistake ends in one line on standard error and exit code 2; a bug keeps its traceback. What tells them apart
is where an error arises, not its type: code that reads what the user gave runs inside `user_input()`.

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
import os
import re
import select
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from math import inf, isfinite
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from envs.suggestions import nearest

N = TypeVar("N", int, float)

USER_ERROR = 2
INTERRUPTED = 128 + 2  # a shell's code for SIGINT
BROKEN_PIPE = 128 + 13  # a shell's code for SIGPIPE
LISTED = 12  # alternatives that still fit a line

# What lower layers raise about a value. KeyError is not among them: its text says nothing to a user.
ABOUT_A_VALUE = (ValueError, IndexError, OSError, ImportError, SyntaxError)
# Wherever these arise, the machine is at fault and not the code.
MACHINE = frozenset({errno.EACCES, errno.ENOSPC, errno.EDQUOT, errno.EROFS})


class UserError(ValueError):
    """A mistake in what the user gave, said in one line."""


@contextmanager
def user_input() -> Iterator[None]:
    """Turn what is raised about a value inside the block into `UserError`; anything else passes unchanged."""
    try:
        yield
    except (UserError, BrokenPipeError):
        raise
    except ABOUT_A_VALUE as error:
        raise UserError(one_line(error)) from error


def run(main: Callable[[], int | None]) -> NoReturn:
    """Call `main` and leave the process with its code: 2 after a user's mistake, 130 after Ctrl-C.

    A reader that went away (`| head`) ends it silently. Other exceptions are bugs and keep their traceback.
    """
    try:
        code = main() or 0
        sys.stdout.flush()
    except UserError as error:
        code = _complain(error)
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{program()}: interrupted\n")
        code = INTERRUPTED
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _reader_left():
            code = BROKEN_PIPE
        elif error.errno in MACHINE:
            code = _complain(error)
        else:
            raise
    sys.exit(code)


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one line `prog: error: ...` without the usage, exit code 2.

    The line names the flag and the value, and the nearest right one. Flags are not abbreviated, and an unknown one is
    reported before a missing one, as it may be the missing one misspelt.
    """

    def __init__(self, prog: str | None = None, **settings: Any) -> None:
        """Take what `ArgumentParser` takes; `prog` is the running program unless given."""
        super().__init__(prog or program(), allow_abbrev=False, **settings)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse, refusing unknown flags first where no subcommand can claim them."""
        given = sys.argv[1:] if args is None else list(args)
        if self._subparsers is None:
            self._refuse_unknown(given)
        return super().parse_known_args(given, namespace)

    def error(self, message: str) -> NoReturn:
        """Leave with one line. Called by argparse."""
        message = re.sub(r"^argument (\S+): ", r"\1: ", message)
        extra = re.match(r"unrecognized arguments: (\S+)", message)
        if extra:
            message = self._unknown(extra[1])
        self.exit(USER_ERROR, f"{self.prog}: error: {' '.join(message.split())}\n")

    def _refuse_unknown(self, given: Sequence[str]) -> None:
        for text in given:
            if text == "--":
                return
            flag = text.partition("=")[0]
            if flag.startswith("--") and " " not in flag and flag not in self._option_string_actions:
                self.error(self._unknown(flag))

    def _unknown(self, text: str) -> str:
        if not text.startswith("-"):
            return f"unexpected argument {text}"
        bare = {flag.lstrip("-"): flag for flag in self._option_string_actions}
        near = nearest(text.lstrip("-"), bare)
        return f"unknown flag {text}" + (f"; did you mean {bare[near]}?" if near else "")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)  # type: ignore[misc]
        except argparse.ArgumentError as error:
            raise self._about(action, arg_string, error.message) from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise self._about(action, value, f"unknown{suggest(str(value), [str(c) for c in action.choices])}")

    @staticmethod
    def _about(action: argparse.Action, value: Any, wrong: str) -> argparse.ArgumentError:
        dest = "command" if action.dest == argparse.SUPPRESS else action.dest
        name = "/".join(action.option_strings) or str(action.metavar or dest)
        shown = value if value and not re.search(r"\s", str(value)) else repr(value)
        return argparse.ArgumentError(None, f"{name} {shown}: {wrong}")


def suggest(value: str, choices: Collection[str]) -> str:
    """End an error message: the choice nearest to `value`, else all of them if they fit the line, else nothing."""
    near = nearest(value, choices)
    if near:
        return f"; did you mean {near}?"
    return f"; choose from {', '.join(choices)}" if 0 < len(choices) <= LISTED else ""


def whole_number(low: int | None = None, high: int | None = None) -> Callable[[str], int]:
    """Make an argument type: an integer in low..high, ends included."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError("not a whole number") from None
        return _within(number, low, high)

    return parse


def real_number(low: float | None = None, high: float | None = None, *, above: float = -inf) -> Callable[[str], float]:
    """Make an argument type: a finite number in low..high, ends included, and greater than `above`."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError("not a number") from None
        if not isfinite(number):
            raise argparse.ArgumentTypeError("must be finite")
        if number <= above:
            raise argparse.ArgumentTypeError(f"must be greater than {above:g}")
        return _within(number, low, high)

    return parse


def output_file(text: str) -> Path:
    """Check an argument: a file that can be written, found out before the work and not after it."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError("is a folder")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError("not writable")
    return path


def program() -> str:
    """Name the running program as its user typed it: `rl.train` for `python -m rl.train`, else the script's name."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name.removesuffix(".__main__") if spec else Path(sys.argv[0]).name


def one_line(error: BaseException) -> str:
    """Put the message of an exception on one line; a file's name before what the system says of it."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return " ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__


def _within(number: N, low: N | None, high: N | None) -> N:
    if low is not None and number < low:
        raise argparse.ArgumentTypeError(f"must be at least {_plain(low)}")
    if high is not None and number > high:
        raise argparse.ArgumentTypeError(f"must be at most {_plain(high)}")
    return number


def _plain(number: int | float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def _complain(error: BaseException) -> int:
    sys.stderr.write(f"{program()}: error: {one_line(error)}\n")
    return USER_ERROR


def _reader_left() -> bool:
    """Whether standard output has lost its reader, and not some other pipe of ours; the rest of it is then dropped."""
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):  # replaced by something that is no file
        return False
    watch = select.poll()
    watch.register(output, 0)
    if not any(event & select.POLLERR for _, event in watch.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return True
