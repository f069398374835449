"""Exits that the code of an environment raises: faults of that environment, never the end of the program that plays it.

`sys.exit(3)`, a `GeneratorExit`, an `asyncio.CancelledError` or a `BaseException` of its own ends a Python program, or
cancels a task of it, where nobody expects it. In `containment()` it becomes an `EnvExit`, an `Exception` like others.
A signal such as Ctrl-C interrupts whatever code is running; it is no fault of that code and passes.
"""

from __future__ import annotations

import dis
import errno
import io
import logging
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import ParamSpec, TypeVar

import gymnasium

from envs.watchdog import WATCHDOG, Overrun

FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
MAX_ERROR_TEXT = 2000  # characters of an error's text that are kept

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=gymnasium.Env)

log = logging.getLogger(__name__)

_RAISE = dis.opmap["RAISE_VARARGS"]


class EnvExit(Exception):
    """An environment's code raised what would have ended the program.

    The text is "TYPE: text" of what it raised; with a `label`, that names what was called, a sentence.
    """

    def __init__(self, error: BaseException, label: str = "") -> None:
        super().__init__(f"{label}: its code raised {error_text(error)}" if label else error_text(error))


def error_text(error: BaseException) -> str:
    """Return "TYPE: text" of an error, or only its type if it has no text, in at most `MAX_ERROR_TEXT` characters.

    For an `EnvExit` it is that of what the environment raised.
    """
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # the class of the error may come from anywhere
        text = ""
    if isinstance(error, EnvExit):
        return text
    return f"{name}: {text}"[:MAX_ERROR_TEXT].removesuffix(": ")


def name_stdout(error: OSError) -> OSError:
    """Return `error`, with "standard output" as its file if that is on a full disk.

    An error of a write names no file. Standard output is tried with an empty line, which whatever reads it gets when
    something else is full.
    """
    if error.errno in FULL_ERRNOS and error.filename is None and sys.stdout is not None:
        try:
            print(flush=True)
        except OSError as again:
            with suppress(OSError, ValueError):  # flushing it at exit must not fail again
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return OSError(again.errno, again.strerror, "standard output")
    return error


def is_stdout_closed() -> bool:
    """Whether the reader of standard output has closed its end, as opposed to some other pipe of this process.

    If so, standard output is redirected to the null device, so that flushing it at exit does not fail again.
    """
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):  # sys.stdout was replaced by an object without a file descriptor
        return False
    poll = select.poll()
    poll.register(output, 0)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return True


def is_stdout_lost() -> bool:
    """Whether standard output cannot be written to any more: closed, or replaced by what is no open file of text.

    If so, it is replaced by nothing, so that flushing it at exit does not fail again.
    """
    try:
        sys.stdout.write("")
        sys.stdout.flush()
        os.fstat(sys.stdout.fileno())
        return False
    except io.UnsupportedOperation:  # text in memory, which has no file descriptor
        return False
    except Exception:  # whatever is in its place may raise anything
        sys.stdout = None  # type: ignore[assignment]
        return True


@contextmanager
def containment(label: str = "") -> Iterator[None]:
    """Context of code of an environment: what would end the program is raised as `EnvExit`.

    With a `label`, the text of that is "LABEL: its code raised TYPE: text". What would end the program is every
    `BaseException` that is no `Exception`, and `StopIteration`, which no coroutine can pass on. Ctrl-C and other
    signals pass. The context must not contain an `await` or a `yield`, through which a caller cancels or closes.
    """
    try:
        yield
    except BaseException as error:
        _raise_contained(error, label)


def call_contained(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`, code of an environment, as in `containment()`, and return its result."""
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        _raise_contained(error)
        raise


def close_env(env: gymnasium.Env) -> None:
    """Close an environment that nothing depends on any more; if that fails, a warning names the error and its line.

    Raises `envs.watchdog.Overrun` if it takes too long, because the next one may as well.
    """
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    try:
        call_contained(WATCHDOG.step_call, f"{name}: close", env.close)
    except Overrun:
        raise
    except Exception as error:
        from sandboxes.source_files import user_code_line  # a package that few commands need

        line = user_code_line(error)
        log.warning("an environment failed to close: %s%s", error_text(error), f" ({line})" if line else "")


@contextmanager
def closing_env(env: E) -> Iterator[E]:
    """Context that ends with `close_env(env)`; yields `env`."""
    try:
        yield env
    finally:
        close_env(env)


def _raise_contained(error: BaseException, label: str = "") -> None:
    """Raise `EnvExit`, an interruption behind `error`, or `error` itself."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        raise error
    link: BaseException | None = error
    while link is not None and threading.current_thread() is threading.main_thread():
        if _is_from_signal(link):
            raise link
        link = link.__context__
    raise EnvExit(error, label) from error


def _is_from_signal(error: BaseException) -> bool:
    """Whether a handler of a signal raised `error`.

    A handler is a function that receives the frame that it interrupts, its caller's. Python's own for Ctrl-C leaves no
    frame: it raises `KeyboardInterrupt` between two instructions of any code, and none of these is a `raise`. While
    `asyncio.run` runs, Ctrl-C cancels its task, and `asyncio.Runner.run` raises `KeyboardInterrupt` afterwards.
    """
    import asyncio  # 0.1 s that only an exit needs

    traceback = error.__traceback__
    is_at_raise = is_in_runner = False
    while traceback is not None:
        frame = traceback.tb_frame
        if any(value is frame.f_back for value in frame.f_locals.values() if isinstance(value, FrameType)):
            return True
        is_at_raise = frame.f_code.co_code[traceback.tb_lasti] == _RAISE
        is_in_runner = frame.f_code is asyncio.Runner.run.__code__
        traceback = traceback.tb_next
    return isinstance(error, KeyboardInterrupt) and (is_in_runner or not is_at_raise)
