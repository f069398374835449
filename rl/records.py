"""Records that flow from rollout to update: plain data, no torch, no tokenizer, no network.

Legend: P groups, G trajectories of a group, K turns, T sampled tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, NamedTuple, Protocol

from envs.types import Message, Messages, Stop

Finish = Literal["stop", "length", "abort", "deadline"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one reply is drawn.

    The draw of the token at absolute position `p` depends on `(seed, p)` and the distribution there, never on the
    batch it was computed in. `temperature=0` is greedy. `top_p`/`top_k` change the distribution that is sampled, so
    training refuses them; evaluation may use them. `stop` are token ids that end a reply and belong to it.
    """

    max_tokens: int = 32
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    stop: tuple[int, ...] = ()
    deadline_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Completion:
    """The sampled tokens of one turn. All four sequences have the same length.

    `logprobs` are under the distribution that was sampled (temperature, top-p and top-k applied): the behaviour
    log-probabilities of every importance ratio. `model_logprobs` are under the model at temperature 1; they are the
    same tuple where the two agree. `versions` is the policy version that drew each token, stamped by the engine.
    `counted` is the number of tokens that were sampled, where an id stands for more than one (a message of an API).
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    model_logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    finish: Finish = "stop"
    counted: int | None = None

    @property
    def num_sampled(self) -> int:
        """Sampled tokens."""
        return len(self.ids) if self.counted is None else self.counted


class CutOff(Exception):
    """Raised by `Policy.sample` where the policy can say no more in this episode; `stop` says why it is truncated."""

    def __init__(self, stop: Stop, why: str = "") -> None:
        super().__init__(why or f"the policy can say no more: {stop}")
        self.stop = stop


class Policy(Protocol):
    """Tokens in, tokens out. `version` counts weight updates since the start of the run."""

    version: int

    async def sample(
        self, prompt: Sequence[int], params: SamplingParams, *, session: str = "", received: Completion | None = None
    ) -> Completion:
        """Draw one reply to `prompt`.

        `session` names the episode, so that its cached context is reused. `received` holds tokens of this same reply
        that were drawn before an interruption; they count towards `max_tokens` and are part of the result. Raises
        `CutOff` to truncate the episode; before its first reply that is an error like any other.
        """
        ...


@dataclass(slots=True)
class Turn:
    """One reply and what came before and after it.

    `context` holds only the tokens *added* before the reply, so storage is linear in turns. `fresh` marks a context
    that replaces the history (a template that rewrites it, compaction): a new sequence starts there. `streams` are
    named numbers per sampled token that a scorer filled in, such as `value`.

        Turn(context=(5, 9, 2), completion=Completion(ids=(7, 3), ...), reward=0.0, state="lo=1 hi=32")
    """

    context: tuple[int, ...]
    completion: Completion
    observation: Messages = ()  # the messages behind `context`
    reply: Message | None = None  # the message behind `completion`
    reward: float = 0.0
    rewards: Mapping[str, float] = field(default_factory=dict)  # named parts of `reward`
    state: str = ""  # the environment's state when the reply was given
    valid: bool = True
    fresh: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    streams: dict[str, tuple[float, ...]] = field(default_factory=dict)
    sample_s: float = 0.0
    env_s: float = 0.0

    def __post_init__(self) -> None:
        """Raise `ValueError` for a reward that is no number: no method could compare it with others."""
        if not isfinite(self.reward):
            raise ValueError(f"the reward {self.reward} cannot be compared with any other")


class History(NamedTuple):
    """One unbroken token history of a trajectory: parallel lists. `turn` is -1 where not sampled."""

    ids: list[int]
    sampled: list[bool]
    logprobs: list[float]
    turn: list[int]


class Fork(NamedTuple):
    """Where an episode left another one: its first `turns` turns are those of the group's member `member`."""

    member: int
    turns: int


@dataclass(slots=True)
class Trajectory:
    """The record of one episode of one agent. Its return is the sum of its turn rewards."""

    turns: list[Turn]
    stop: Stop
    success: bool = False
    task: str = ""
    seed: int = 0
    member: int = 0
    agent: str = "agent"
    answer: Any = None
    final: Messages = ()  # what the environment said after the last reply
    error: str | None = None
    fork: Fork | None = None  # None for one that was played from the start, on its own
    replayed: bool = False  # a record of an earlier group, put in by a strategy: nobody played it here
    tools: Sequence[dict] = ()  # what a script's agent would have been offered, for who imitates it

    @property
    def reward(self) -> float:
        """The undiscounted return."""
        return sum(turn.reward for turn in self.turns)

    @property
    def num_sampled(self) -> int:
        """Sampled tokens over all turns."""
        return sum(turn.completion.num_sampled for turn in self.turns)

    @property
    def num_drawn(self) -> int:
        """Sampled tokens that nobody had sampled before: none of a replayed record, nor of turns shared as a fork."""
        own = [] if self.replayed else self.turns[self.fork.turns if self.fork else 0 :]
        return sum(turn.completion.num_sampled for turn in own)

    def sequences(self) -> Iterator[History]:
        """Yield each unbroken history once. The sampled tokens of all yields, in order, are those of the turns."""
        sequence = History([], [], [], [])
        for k, turn in enumerate(self.turns):
            if turn.fresh and sequence.ids:
                yield sequence
                sequence = History([], [], [], [])
            n, m = len(turn.context), len(turn.completion.ids)
            sequence.ids.extend((*turn.context, *turn.completion.ids))
            sequence.sampled.extend([False] * n + [True] * m)
            sequence.logprobs.extend([0.0] * n + list(turn.completion.logprobs))
            sequence.turn.extend([-1] * n + [k] * m)
        if sequence.ids:
            yield sequence


@dataclass(frozen=True, slots=True)
class Ticket:
    """One group to be played: the unit of scheduling, of lag and of exactly-once accounting.

    `seed` is the environment's, equal for all members; a member's sampling seed is derived from it (`rl.seeds`).
    `version` is the policy version at admission. Tickets numbered below `settled` were used up by updates before it:
    whatever a strategy remembers of those does not depend on which group ended first.
    """

    number: int
    index: int
    split: str
    seed: int
    size: int
    version: int = 0
    settled: int = 0


@dataclass(slots=True)
class Group:
    """Trajectories whose returns may be compared: same task, same initial state.

    `trajectories` holds no errored member (those are in `errored`), so no baseline ever sees one. `rewards` starts as
    the returns; shaping rewrites it.
    """

    ticket: Ticket
    trajectories: list[Trajectory]
    errored: list[Trajectory] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Fill `rewards` with the returns unless they are given."""
        self.rewards = self.rewards or [trajectory.reward for trajectory in self.trajectories]


class Branch(NamedTuple):
    """Asks for the log-probabilities of the last `scored` of `ids`, where these follow `trunk`'s first `at` tokens.

    A branch whose `ids` are the trunk's own next tokens costs no computation.
    """

    trunk: int  # index of the history
    at: int
    ids: tuple[int, ...]
    scored: int
