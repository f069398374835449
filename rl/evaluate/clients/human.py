"""A human at the terminal as a speaker: reads one line per turn from standard input, writes to standard error."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from envs.spaces import message_fault
from envs.types import Message, assistant, text
from rl.evaluate.clients.client import Asked, Halt, Said
from rl.evaluate.runner import place
from rl.records import Group, Ticket


class Human:
    """Plays one episode after the other. A line is the reply's text, or a message as JSON, which may call tools.

    The end of input ends the evaluation. Tokens are not counted.
    """

    def __init__(self, tickets: Sequence[Ticket], source: TextIO | None = None, screen: TextIO | None = None) -> None:
        self._source, self._screen = source or sys.stdin, screen or sys.stderr
        self._places = {str(ticket.number): place(ticket) for ticket in tickets}
        self._alone = asyncio.Lock()
        self._session: str | None = None
        self._shown = 0  # messages
        self._left = False

    async def say(self, asked: Asked) -> Said:
        """Show what is new and read a line."""
        if asked.session != self._session:
            await self._alone.acquire()
            self._session, self._shown = asked.session, 0
            if self._left:
                raise Halt("the input ended")
            number, member = asked.session.split("/")
            self._write(f"# task {self._places[number]}" + f", sample {int(member) + 1}" * (member != "0"))
            for tool in asked.tools:
                self._write(f"# tool {json.dumps(tool['function'])}")
        self._show(asked.messages[self._shown :])
        self._shown = len(asked.messages) + 1  # and what will have been said
        while True:
            self._write("> ", end="")
            with _interruptible():
                line = self._source.readline()
            if not line:
                self._write("")
                self._left = True
                raise Halt("the input ended")
            message = typed(line.rstrip("\r\n"))
            fault = message_fault(message) or ("" if message["role"] == "assistant" else "its role is not 'assistant'")
            if not fault:
                return Said(message)
            self._write(f"# not a reply: {fault}; once more")

    def release(self, session: str) -> None:
        """Let the next episode begin."""
        if session == self._session:
            self._session = None
            self._alone.release()

    def ended(self, group: Group) -> None:
        """Say how a group's episodes ended."""
        for played in group.trajectories:
            self._show(played.final)
            turns = f"{len(played.turns)} turn{'s' if len(played.turns) > 1 else ''}"
            won = "success" if played.success else "no success"
            self._write(f"# end of {played.task}: {played.stop}, {won}, {turns}, return {played.reward:g}")
        for failed in group.errored:
            self._write(f"# {failed.task or place(group.ticket)} failed: {failed.error}")

    def _show(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._write(f"{message['role']}: {text(message)}")

    def _write(self, line: str, end: str = "\n") -> None:
        encoding = self._screen.encoding or "utf-8"
        print(line.encode(encoding, "backslashreplace").decode(encoding), end=end, file=self._screen, flush=True)


def typed(line: str) -> Message:
    """What a line means: a message where it is the JSON of one, else its text."""
    with suppress(ValueError):
        value = json.loads(line)
        if isinstance(value, dict) and "role" in value:
            return value  # type: ignore[return-value]
    return assistant(line)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a read: the event loop's own handler would wait for the line."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
