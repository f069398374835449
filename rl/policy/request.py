"""One reply in the making, as the sampling engine keeps it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rl.records import Completion, Finish, SamplingParams


@dataclass(eq=False, slots=True)
class Request:
    """What was asked and what has been drawn so far; the four lists have the same length."""

    prompt: tuple[int, ...]
    params: SamplingParams
    session: str
    future: asyncio.Future[Completion]
    expires: float
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    model_logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    slot: int = -1
    leader: Request | None = None  # whose prefill of the same tokens this request shares

    @classmethod
    def of(
        cls,
        prompt: Sequence[int],
        params: SamplingParams,
        session: str,
        received: Completion | None,
        future: asyncio.Future[Completion],
    ) -> Request:
        """A request that goes on where `received` stopped."""
        request = cls(tuple(prompt), params, session, future, time.monotonic() + params.deadline_s)
        if received:
            request.ids += received.ids
            request.logprobs += received.logprobs
            request.model_logprobs += received.model_logprobs
            request.versions += received.versions
        return request

    def tokens(self) -> tuple[int, ...]:
        """Everything that stands before the next draw."""
        return (*self.prompt, *self.ids)

    def add(self, token: int, behaviour: float, model: float, version: int) -> None:
        """Take in one draw."""
        self.ids.append(token)
        self.logprobs.append(behaviour)
        self.model_logprobs.append(model)
        self.versions.append(version)

    def finish(self, context: int) -> Finish | None:
        """Why the reply is complete, in a sequence of at most `context` tokens; None when it goes on."""
        if self.ids and self.ids[-1] in self.params.stop:
            return "stop"
        full = len(self.ids) >= self.params.max_tokens or len(self.prompt) + len(self.ids) >= context
        return "length" if full else None

    def completion(self, finish: Finish) -> Completion:
        """The reply so far."""
        behaviour = tuple(self.logprobs)
        same = self.params.temperature == 1 and self.params.top_p >= 1 and self.params.top_k <= 0
        model = behaviour if same else tuple(self.model_logprobs)
        return Completion(tuple(self.ids), behaviour, model, tuple(self.versions), finish)


def natural(session: str) -> tuple[str | int, ...]:
    """A sort key that puts "9/3" before "10/0"."""
    return tuple(int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", session)))
