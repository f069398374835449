"""The protocols of whatever samples replies: `Policy` for one episode, `Engine` for a training run. Imports no torch.

An episode (`rl.rollout.episode`) needs a `Policy`. `rl.train` and the evaluation of a model need an `Engine`. Subclass
the protocol that fits: members with a default below are inherited, the others must be defined.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from envs.types import Stop
from rl.records import Completion, SamplingParams


class CutOff(Exception):
    """Raised by `Policy.sample` when the policy cannot reply again in this episode.

    The episode is truncated and `stop` becomes its reason. Before the first reply there is nothing to keep, so the
    episode fails with `Stop.ERROR` as for any other exception.
    """

    def __init__(self, stop: Stop, why: str = "") -> None:
        super().__init__(why or f"the policy can say no more: {stop}")
        self.stop = stop


LOGITS_NOT_FINITE = "the model's logits are not finite"  # says the `FloatingPointError` of every engine


class EngineDead(RuntimeError):
    """The engine failed in a way that it cannot recover from, such as memory that ran out."""

    @property
    def line(self) -> str:
        """What a run says that ends because of it."""
        return f"the sampling engine died: {self}"


class EngineRefuses(EngineDead):
    """The engine works, and cannot do what is asked of it. The message says what to use instead."""

    @property
    def line(self) -> str:
        """See `EngineDead`."""
        return str(self)


class Policy(Protocol):
    """What an episode needs: prompts of token ids in, sampled token ids out.

    All methods are called on the thread of the event loop that plays the episodes. Many coroutines await `sample` at
    the same time; an implementation batches them or answers them one after the other, but must not block the loop for
    longer than it computes. A session is one attempt at an episode, named by `Ticket.session(member)`, such as "17/3".
    """

    version: int
    """Number of weight updates since the start of the run; 0 for weights that never change. `sync_weights` increases
    it, and `rl.train` sets it when a run starts or resumes."""

    verifies_drafts: bool = False
    """Whether `sample` takes `draft`, a guess at the reply (`rl.records.Draft`), and computes less because of it."""

    @abstractmethod
    async def sample(
        self, prompt: Sequence[int], params: SamplingParams, *, session: str = "", resume_from: Completion | None = None
    ) -> Completion:
        """Sample one reply to `prompt`.

        Where tokens of the prompt stand for images, these are passed as `images`, a sequence of
        `agents.images.PlacedImage`; a policy that reads text alone need not take this argument. Neither need one that
        does not say `verifies_drafts` take `draft`, which it is only given before the first token of a reply.

        Args:
            prompt: Token ids of everything before the reply. Never empty.
            params: How to sample. The token at absolute position `p` must depend only on `params.seed`, `p` and the
                distribution there, never on the other requests; otherwise runs cannot be repeated or resumed.
            session: The episode that asks. Its next prompt usually extends this prompt and reply, so the engine may
                keep their cached keys and values until `release(session)`. At most one request per session is open.
            resume_from: Tokens of this same reply that were sampled before an interruption (what `partial` returned).
                Continue after them; they count towards `params.max_tokens` and are part of the result.

        Returns:
            The reply. `finish` is "stop" after a token of `params.stop`, "length" at `params.max_tokens` or at the
            engine's own limit, "deadline" after `params.deadline_s` seconds (the episode then fails with
            `Stop.ERROR`). `versions` holds the `version` that sampled each token.

        Raises:
            CutOff: The policy cannot reply again in this episode, which is truncated.
            ValueError: The prompt is empty or leaves no room for a token.
            EngineDead: The engine has failed for good and `Engine.on_failure` is None.
            Exception: Any other one fails this episode alone, which is then retried (`rl.rollout.retry`).
        """
        ...

    def hidden_states(self, sequences: Sequence[Sequence[int]]) -> np.ndarray | None:
        """Return the last hidden states (N, E) behind the last token of each of N sequences of token ids.

        None where the policy cannot tell them.
        """
        return None

    def release(self, session: str) -> None:
        """Free what is cached for `session`: its episode ended or was cancelled. Unknown sessions are ignored.

        Called once per attempt at an episode, also while a request of the cancelled episode is still being removed.
        """
        return None

    def partial(self, session: str) -> Completion | None:
        """Return what has been sampled of the open request of `session`, to be stored in a checkpoint.

        Its `finish` is "abort", or the final value if the reply is complete but `sample` has not returned it yet. None
        if the session has no open request, or if the policy cannot continue replies: then they are sampled again.
        """
        return None


class Engine(Policy, Protocol):
    """A policy over a model's weights, as `rl.train` and `rl.evaluate` need it.

    `rl.train` calls `sync_weights` once before the first update. In each update it calls `pause`, trains, and calls
    `sync_weights` again. It ends with `close`. With `--lag` above 0 requests are open during an update.
    """

    slots: int
    """Most requests computed at the same time. An evaluation plays as many episodes at once."""

    context: int
    """Most tokens of one sequence, prompt and reply together."""

    description: str = ""
    """One line about the engine that `rl.train` prints before it starts; empty for none."""

    failure: EngineDead | None = None
    """Why the engine can no longer sample; None while it works. Never reset by callers."""

    on_failure: Callable[[], None] | None = None
    """Set by the caller to be told of a `failure`; called on the event loop's thread, perhaps more than once. While it
    is set, open requests stay pending instead of raising `EngineDead`: the caller stores them in a checkpoint (see
    `partial`), from which a resumed run continues them, and cancels them."""

    @abstractmethod
    def sync_weights(self) -> None:
        """Copy the model's current weights, increase `version` by one and use them from the next token on.

        Called on the event loop's thread between two tokens, never while `sample` computes. Drop everything cached
        from older weights. Open requests continue behind the tokens they have. Raises `EngineDead` if the weights
        cannot be taken over and `on_failure` is None; with `on_failure`, sets `failure` and calls it.
        """
        ...

    def pause(self) -> None:
        """Free memory for an optimiser step.

        The caller keeps the event loop's thread until it has called `sync_weights`, so no token is due before that.
        """
        return None

    def metrics(self) -> dict[str, float]:
        """Return metrics of what happened since the last call, by name as in docs/metrics.md; {} for none."""
        return {}

    def close(self) -> None:
        """Stop the engine and free all it holds, processes included. Nothing is sampled afterwards."""
        return None
