"""One open request of a sampling engine: its prompt, its parameters and the tokens sampled so far."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rl.records import Completion, Draft, Finish, SamplingParams


@dataclass(eq=False, slots=True)
class Request:
    """A request and its tokens so far.

    `ids`, `logprobs`, `model_logprobs`, `versions` and `alternatives` have the same length, one entry per sampled
    token. `deadline` is a time of `time.monotonic`. `slot` is the engine's number for the sequence, -1 for none.
    `draft` is a guess at the reply that is still to be verified, and `num_verified` how much of one was kept.
    """

    prompt: tuple[int, ...]
    params: SamplingParams
    session: str
    future: asyncio.Future[Completion]
    deadline: float
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    model_logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    alternatives: list[tuple[tuple[int, float], ...]] = field(default_factory=list)
    slot: int = -1
    leader: Request | None = None  # a request with the same tokens, whose prefill this one shares
    draft: Draft | None = None
    num_verified: int = 0

    @classmethod
    def create(
        cls,
        prompt: Sequence[int],
        params: SamplingParams,
        session: str,
        resume_from: Completion | None,
        future: asyncio.Future[Completion],
        draft: Draft | None = None,
    ) -> Request:
        """Return a request whose first tokens are those of `resume_from`, if any, and whose deadline starts now.

        `session` names the attempt at an episode that asks; `future` gets the finished reply. A `draft` is verified
        with the first token, so one that has been sampled leaves nothing to verify. Raises `ValueError` for parameters
        that ask for the likeliest tokens of a distribution that they cut, or to verify a draft of one.
        """
        if params.alternatives and (params.top_p < 1 or params.top_k > 0):
            raise ValueError("alternatives are not recorded with top-p or top-k")
        if draft and (params.top_p < 1 or params.top_k > 0 or params.temperature <= 0):
            raise ValueError("drafts are verified at a temperature above 0 without top-p or top-k only")
        request = cls(tuple(prompt), params, session, future, time.monotonic() + params.deadline_s)
        if resume_from:
            request.ids += resume_from.ids
            request.logprobs += resume_from.logprobs
            request.model_logprobs += resume_from.model_logprobs
            request.versions += resume_from.versions
            request.alternatives += resume_from.alternatives or [()] * len(resume_from.ids)
            request.num_verified = resume_from.num_verified
        if draft and draft.ids and not request.ids:
            request.draft = draft
        return request

    def guess(self, context: int) -> tuple[int, ...]:
        """Return the tokens of the draft that the reply has room for, in sequences of at most `context` tokens."""
        if self.draft is None:
            return ()
        return self.draft.ids[: min(self.params.max_tokens, context - len(self.prompt))]

    def tokens(self) -> tuple[int, ...]:
        """Return the prompt and the tokens sampled so far."""
        return (*self.prompt, *self.ids)

    def append(
        self,
        token: int,
        logprob: float,
        model_logprob: float,
        version: int,
        alternatives: tuple[tuple[int, float], ...] = (),
    ) -> None:
        """Append one sampled token, its two log-probabilities, its policy version and the likeliest tokens there."""
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.model_logprobs.append(model_logprob)
        self.versions.append(version)
        self.alternatives.append(alternatives)

    def finish_reason(self, context: int) -> Finish | None:
        """Return why the reply is complete, for sequences of at most `context` tokens; None while it is not.

        "stop" says that its last token is a stop token, "length" that it is at `params.max_tokens` or at `context`.
        """
        if self.ids and self.ids[-1] in self.params.stop:
            return "stop"
        full = len(self.ids) >= self.params.max_tokens or len(self.prompt) + len(self.ids) >= context
        return "length" if full else None

    def completion(self, finish: Finish) -> Completion:
        """Return the tokens so far as a completion with this `finish`.

        The log-probabilities under the model are those under the sampled distribution where both are the same
        (temperature 1, no top-p or top-k).
        """
        logprobs = tuple(self.logprobs)
        same = self.params.temperature == 1 and self.params.top_p >= 1 and self.params.top_k <= 0
        model_logprobs = logprobs if same else tuple(self.model_logprobs)
        alternatives = tuple(self.alternatives) if self.params.alternatives else ()
        return Completion(
            tuple(self.ids),
            logprobs,
            model_logprobs,
            tuple(self.versions),
            finish,
            alternatives=alternatives,
            num_verified=min(self.num_verified, len(self.ids)),
        )


def natural_sort_key(session: str) -> tuple[str | int, ...]:
    """Return a sort key that compares numbers in names by value, so that "9/3" comes before "10/0"."""
    return tuple(int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", session)))
