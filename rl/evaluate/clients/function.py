"""Chat client for a function of a Python file, `--policy path/to/file.py:function`."""

from __future__ import annotations

import inspect
import reprlib
from copy import deepcopy
from typing import Any

from envs.exits import EnvExit, call_contained
from envs.messages import parse_action
from envs.suggestions import unknown_message
from envs.watchdog import WATCHDOG, Overrun
from rl.evaluate.clients.client import ChatRequest, ChatResponse, StopEvaluation
from sandboxes.source_files import failure_text, load_source_file

_SHORT = reprlib.Repr()  # of replies, however deeply they are nested
_SHORT.maxstring = _SHORT.maxother = 60


def is_function_spec(spec: str) -> bool:
    """Whether `spec` names a function of a Python file, `path/to/file.py:function`."""
    return ".py:" in spec and not spec.startswith(("openai:", "replay:"))


class FunctionClient:
    """Continues a dialogue by what `function(messages, tools, seed)` returns: a text or an assistant message.

    `messages` are the whole dialogue so far, `tools` the OpenAI function schemas that are offered, `seed` is that of
    this reply alone. It is called once per turn, one call at a time. An error of the function, a reply of another kind,
    and a call that takes longer than `patience_s` seconds end the evaluation in one line.

    Raises `ValueError` for a missing file, one that cannot be executed, and a function that is not there, takes other
    arguments or is a coroutine. `flag` is where `spec` comes from, for errors.
    """

    def __init__(self, spec: str, patience_s: float, *, flag: str = "--policy") -> None:
        path, _, name = spec.rpartition(":")
        module = load_source_file(path)
        self._spec, self._patience_s, self._file, self._flag = spec, patience_s, str(module.__file__), flag
        self._function: Any = getattr(module, name, None)
        if not callable(self._function):
            own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
            raise ValueError(unknown_message("function", name, own, of=path))
        if inspect.iscoroutinefunction(self._function) or inspect.isgeneratorfunction(self._function):
            raise ValueError(f"{spec} must be a plain function that returns a reply, without async and yield")
        try:
            inspect.signature(self._function).bind([], [], 0)
        except TypeError as error:
            raise ValueError(f"{spec} is called with (messages, tools, seed): {error}") from None

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Return the function's reply. Raises `StopEvaluation` where it gives none."""
        arguments = deepcopy([list(request.messages), list(request.tools)])
        label = f"{self._flag} {self._spec}: a reply"
        try:
            reply = WATCHDOG.call(
                label,
                self._patience_s,
                call_contained,
                self._function,
                *arguments,
                request.params.seed,
                flag=self._deadline,
            )
        except Overrun as error:
            raise StopEvaluation(str(error), is_user_error=True) from error
        except Exception as error:
            cause = (error.__cause__ or error) if isinstance(error, EnvExit) else error
            text = f"{self._flag} {self._spec}: {failure_text(cause, self._spec, self._file)}"
            raise StopEvaluation(text, is_user_error=True) from error
        try:
            return ChatResponse(parse_action(reply))
        except (TypeError, ValueError, RecursionError) as error:
            raise StopEvaluation(
                f"{self._flag} {self._spec}: returned {_SHORT.repr(reply):.60}: {error}", is_user_error=True
            ) from None

    @property
    def _deadline(self) -> str:
        return "--patience" if self._flag == "--policy" else ""

    def release(self, session: str) -> None:
        """Forget an episode that ended: nothing is kept of it."""
