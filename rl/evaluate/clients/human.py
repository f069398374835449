"""Chat client for a human at the terminal: reads one line per turn from standard input, prints to standard error."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from envs.spaces import message_error
from envs.types import Message, assistant, text
from rl.evaluate.clients.client import ChatRequest, ChatResponse, StopEvaluation
from rl.evaluate.runner import task_label
from rl.records import Group, Ticket


class HumanClient:
    """Lets a human play one episode after the other; tokens are not counted.

    A line is the text of a reply or the JSON of an assistant message, which may call tools. The end of input stops the
    evaluation. `tickets` are those that will be played, whose tasks are announced by name. `source` and `screen` are
    standard input and standard error by default.
    """

    def __init__(self, tickets: Sequence[Ticket], source: TextIO | None = None, screen: TextIO | None = None) -> None:
        self._source, self._screen = source or sys.stdin, screen or sys.stderr
        self._labels = {str(ticket.number): task_label(ticket) for ticket in tickets}
        self._turn_lock = asyncio.Lock()  # held by the episode being played
        self._session: str | None = None
        self._num_printed = 0  # messages of the dialogue that are on the screen
        self._at_end = False  # of the input

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Print the new messages and read a reply; asks again until the line is a valid assistant message.

        Raises `StopEvaluation` at the end of the input.
        """
        if request.session != self._session:
            await self._turn_lock.acquire()
            self._session, self._num_printed = request.session, 0
            if self._at_end:
                raise StopEvaluation("the input ended")
            number, member = request.session.split("/")
            self._print(f"# task {self._labels[number]}" + f", sample {int(member) + 1}" * (member != "0"))
            for tool in request.tools:
                self._print(f"# tool {json.dumps(tool['function'])}")
        self._print_messages(request.messages[self._num_printed :])
        self._num_printed = len(request.messages) + 1  # the reply is on the screen as well
        while True:
            self._print("> ", end="")
            with _interruptible():
                line = self._source.readline()
            if not line:
                self._print("")
                self._at_end = True
                raise StopEvaluation("the input ended")
            message = parse_line(line.rstrip("\r\n"))
            fault = message_error(message) or ("" if message["role"] == "assistant" else "its role is not 'assistant'")
            if not fault:
                return ChatResponse(message)
            self._print(f"# not a reply: {fault}; once more")

    def release(self, session: str) -> None:
        """Let the next episode begin, if `session`, an episode's name "TICKET/MEMBER", is the one being played."""
        if session == self._session:
            self._session = None
            self._turn_lock.release()

    def print_outcomes(self, group: Group) -> None:
        """Print how the group's episodes ended: stop, success, number of turns and return, or the error."""
        for trajectory in group.trajectories:
            self._print_messages(trajectory.final)
            turns = f"{len(trajectory.turns)} turn{'s' if len(trajectory.turns) > 1 else ''}"
            outcome = "success" if trajectory.success else "no success"
            end = f"# end of {trajectory.task}: {trajectory.stop}, {outcome}, {turns}, return {trajectory.reward:g}"
            self._print(end)
        for failure in group.errored:
            self._print(f"# {failure.task or task_label(group.ticket)} failed: {failure.failure}")

    def _print_messages(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._print(f"{message['role']}: {text(message)}")

    def _print(self, line: str, end: str = "\n") -> None:
        encoding = self._screen.encoding or "utf-8"
        print(line.encode(encoding, "backslashreplace").decode(encoding), end=end, file=self._screen, flush=True)


def parse_line(line: str) -> Message:
    """Return a line that is a JSON object with a `role` as that message, unchecked; any other as a reply's text."""
    with suppress(ValueError):
        value = json.loads(line)
        if isinstance(value, dict) and "role" in value:
            return value  # type: ignore[return-value]
    return assistant(line)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a read at once; the event loop's own handler would wait for the end of the line."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
