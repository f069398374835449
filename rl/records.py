"""The records that flow from rollout to update: plain data without tensors.

Letters in shapes: P groups, G trajectories of a group, K turns of a trajectory, T sampled tokens of a turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, SupportsFloat

from agents.images import PlacedImage, moved
from envs.types import Message, Messages, Stop

Finish = Literal["stop", "length", "abort", "deadline"]
MAX_REWARD = 1e15  # of a turn, either way: its square still has a sum and a mean in float32, as advantages do


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one reply is sampled.

    The token at absolute position `p` is drawn by `(seed, p)` and the distribution there, never by the batch in which
    it was computed. `max_tokens` is the limit of this reply. `temperature=0` is greedy. `top_p` (1: off) and `top_k`
    (0: off) change the distribution that is sampled, so training refuses them; evaluation may use them. `stop` are
    token ids that end a reply and belong to it. A reply that is not complete after `deadline_s` seconds ends with
    `finish="deadline"`. With `alternatives` the likeliest tokens of each position are recorded, this many of them.
    """

    max_tokens: int = 32
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    stop: tuple[int, ...] = ()
    deadline_s: float = 600.0
    alternatives: int = 0

    def for_reply(self, *, max_tokens: int, seed: int, stop: tuple[int, ...]) -> SamplingParams:
        """Return these for one reply, in a third of the time that `dataclasses.replace` takes."""
        more = self.deadline_s, self.alternatives
        return SamplingParams(max_tokens, self.temperature, self.top_p, self.top_k, seed, stop, *more)


@dataclass(frozen=True, slots=True)
class Completion:
    """The sampled tokens of one turn. All four sequences have the same length.

    `ids` (T,) are the tokens, with the stop token if there was one. `logprobs` (T,) are under the distribution that was
    sampled (temperature, top-p and top-k applied): the behaviour log-probabilities of importance ratios.
    `model_logprobs` (T,) are under the model at temperature 1; the same tuple if both distributions are equal, and NaN
    where the engine does not tell them (`vllm:native` at other temperatures). `versions` (T,) is the policy version,
    the number of updates behind the weights, that sampled each token. `finish` says why the reply ended: with a stop
    token ("stop"), at its limit of tokens ("length"), out of time ("deadline"), or incomplete ("abort"). `counted` is
    the number of sampled tokens if an id stands for more than one (a message of an API); None if each id is one token.
    `alternatives` (T,), if they were asked for, are the likeliest tokens at each position with their log-probabilities
    under the distribution that was sampled, best first; `()` otherwise, and at positions where they are not known.
    The first `num_verified` tokens were not sampled one by one: they were verified at once, as part of a `Draft`.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    model_logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    finish: Finish = "stop"
    counted: int | None = None
    alternatives: tuple[tuple[tuple[int, float], ...], ...] = ()
    num_verified: int = 0

    @property
    def num_sampled(self) -> int:
        """Number of sampled tokens."""
        return len(self.ids) if self.counted is None else self.counted


@dataclass(frozen=True, slots=True)
class Draft:
    """A guess at a reply that the policy verifies in one forward pass; it keeps a beginning and goes on by itself.

    `ids` (T,) are the tokens. With `rule="keyed"` token `t` is kept if it is the one that `seeds[t]` draws at its
    position, and the first that is not gives way to the one drawn: the reply is what these seeds sample without a
    draft, whatever the guess. With `"residual"` token `t` is kept with probability `min(1, p / q)`, where `p` is the
    policy's and `q = exp(logprobs[t])` the one that it was sampled with, if it is among the recorded `alternatives[t]`;
    in place of the first that is not, one is drawn from what remains of `p` (Leviathan et al., arXiv:2211.17192,
    section 2.3). Both give tokens of the policy's own distribution. `"lenient"` keeps with `min(1, lenience * p / q)`
    and draws from `p` otherwise, which favours old tokens. Behind the draft, `SamplingParams.seed` decides.
    """

    ids: tuple[int, ...]
    rule: Literal["keyed", "residual", "lenient"] = "keyed"
    seeds: tuple[int, ...] = ()  # (T,) for "keyed"
    logprobs: tuple[float, ...] = ()  # (T,) for the other rules
    alternatives: tuple[tuple[tuple[int, float], ...], ...] = ()  # (T,) for "residual"
    lenience: float = 1.0


@dataclass(slots=True)
class Turn:
    """One reply with what came before and after it.

    `context` holds only the tokens *added* before the reply, so storage is linear in turns. `fresh` marks a context
    that replaces the history, for instance because the chat template rewrites it: a new token sequence starts there.
    An `internal` reply has no reward of its own, and the turn after it no observation. The tokens of `images` are part
    of `context`; the images themselves go beside them.
    `streams` are named numbers per sampled token, (T,) each, such as `value`, which a method's score parts fill in
    before the update.

        Turn(context=(5, 9, 2), completion=Completion(ids=(7, 3), ...), reward=0.0, state="lo=1 hi=32")
    """

    context: tuple[int, ...]
    completion: Completion
    observation: Messages = ()  # the messages behind `context`
    reply: Message | None = None  # the message behind `completion`
    reward: float = 0.0
    rewards: Mapping[str, float] = field(default_factory=dict)  # named components of `reward`
    state: str = ""  # the environment's state before the reply
    valid: bool = True  # whether the environment could act on the reply
    fresh: bool = False
    role: str = ""  # what an agent asked the reply for, such as "summary"; "" for one without roles
    internal: bool = False  # whether the reply stayed with the agent, so that the environment has no answer to it
    metrics: Mapping[str, float] = field(default_factory=dict)
    streams: dict[str, tuple[float, ...]] = field(default_factory=dict)
    sample_s: float = 0.0  # seconds to sample the reply, the wait for a slot included
    env_s: float = 0.0  # seconds to parse the reply and to step the environment
    step: int | None = None  # with several seats: which step of the environment the reply is for, from 0
    images: tuple[PlacedImage, ...] = ()  # the images in `context`

    def __post_init__(self) -> None:
        """Raise `ValueError` for a reward that is not a number or beyond `MAX_REWARD`."""
        check_reward(self.reward)


def is_reward(value: SupportsFloat) -> bool:
    """Whether `value` can be the reward of a turn: a number between -`MAX_REWARD` and `MAX_REWARD`."""
    return abs(float(value)) <= MAX_REWARD  # False for one that is not a number


def check_reward(value: float) -> float:
    """Return `value`. Raises `ValueError` if it cannot be the reward of a turn."""
    if not is_reward(value):
        raise ValueError(f"the reward {value} is no number between -{MAX_REWARD:g} and {MAX_REWARD:g}")
    return value


class History(NamedTuple):
    """One unbroken token sequence of a trajectory, as lists of equal length, one entry per token.

    `sampled` says whether the policy sampled the token. `logprobs` are those of the distribution that was sampled and
    `turn` is the index of its turn; for tokens that were not sampled they are 0.0 and -1. `images` are those that some
    of the tokens stand for.
    """

    ids: list[int]
    sampled: list[bool]
    logprobs: list[float]
    turn: list[int]
    images: list[PlacedImage]


class Fork(NamedTuple):
    """Where an episode branches off: its first `turns` turns were not played but taken over from member `member`."""

    member: int
    turns: int


@dataclass(slots=True)
class Trajectory:
    """The record of one episode of one agent. Its return is the sum of its turns' rewards.

    `agent` is "agent" in an environment of one agent, else the name of the seat that the record is of.
    """

    turns: list[Turn]
    stop: Stop
    success: bool = False
    task: str = ""
    seed: int = 0
    member: int = 0
    agent: str = "agent"
    answer: Any = None
    markov: bool = False  # whether the environment declares that the states of its turns are Markov
    final: Messages = ()  # the environment's messages after the last reply
    error: str | None = None  # "TYPE: text" of the exception that ended an errored episode, or one of `POLICY_FAULT`
    error_line: str = ""  # "FILE, line N" of a user's code that led to it, if one did
    fork: Fork | None = None  # None if it was played from the start
    replayed: bool = False  # of an earlier group or another run: a strategy has added it to this one
    guided: int = 0  # turns of a solution that the episode began with, in its first context; it says less of the task
    tools: Sequence[dict] = ()  # tool schemas; filled for scripted episodes only, which are imitated later
    fault: Turn | None = None  # of an errored attempt: the turn whose reply the environment failed to answer
    redraw: bool = False  # of an errored attempt: whether the next one draws replies with new seeds
    unasked_reward: float = 0  # return of a seat that was never asked, and has no turns
    num_side_sampled: int = 0  # tokens of replies that were sampled for this one and are in no record
    num_reused: int = 0  # tokens at the beginning of its first own reply that were taken over from another member's
    player: str = ""  # who played the seat; "" for the policy that the episode is played for
    spare: Literal["", "used", "unused"] = ""  # whether it took a failed member's place, or was thrown away

    @property
    def failure(self) -> str:
        """The error, with the line of a user's code that led to it; "" without an error."""
        return f"{self.error or ''}{f' ({self.error_line})' if self.error_line else ''}"

    @property
    def reward(self) -> float:
        """The undiscounted return."""
        return sum(turn.reward for turn in self.turns) if self.turns else self.unasked_reward

    @property
    def replies(self) -> list[Turn]:
        """The turns whose replies were the environment's to answer: all but the internal ones."""
        return [turn for turn in self.turns if not turn.internal]

    @property
    def num_sampled(self) -> int:
        """Number of sampled tokens in all turns."""
        return sum(turn.completion.num_sampled for turn in self.turns)

    @property
    def num_new_sampled(self) -> int:
        """Number of tokens sampled for this trajectory: none if it is replayed, and none that others have sampled."""
        if self.replayed:
            return 0
        replies = [turn.completion for turn in self.turns[self.fork.turns if self.fork else 0 :]]
        return self.num_side_sampled - self.num_reused + sum(each.num_sampled - each.num_verified for each in replies)

    def sequences(self) -> Iterator[History]:
        """Yield each unbroken token sequence; a turn that is `fresh`, with a context that replaces all, begins another.

        The sampled tokens of all sequences, in order, are those of the turns. Yields nothing without tokens.
        """
        sequence = History([], [], [], [], [])
        for k, turn in enumerate(self.turns):
            if turn.fresh and sequence.ids:
                yield sequence
                sequence = History([], [], [], [], [])
            n, m = len(turn.context), len(turn.completion.ids)
            sequence.images.extend(moved(turn.images, len(sequence.ids)))
            sequence.ids.extend((*turn.context, *turn.completion.ids))
            sequence.sampled.extend([False] * n + [True] * m)
            sequence.logprobs.extend([0.0] * n + list(turn.completion.logprobs))
            sequence.turn.extend([-1] * n + [k] * m)
        if sequence.ids:
            yield sequence


@dataclass(frozen=True, slots=True)
class Ticket:
    """A group to be played, the unit of scheduling, of lag and of exactly-once accounting.

    Attributes:
        number: Number of the ticket in the run, from 0.
        index: Index of the task in `split`.
        split: Split of the environment.
        seed: Seed of the environment, equal for all members. Sampling seeds of members are derived from it.
        size: Number of members.
        version: Policy version when the ticket was admitted.
        settled: Tickets with a lower number had been used up by updates when this one was admitted. What a strategy
            remembers of those does not depend on which group ended first.
        opponent: Name of the player that was drawn for the seats that the policy leaves; "" where none was.
        wave: Number of the first of the tickets that were opened together with this one, and how many they are; a
            strategy may divide a budget of episodes among them.
    """

    number: int
    index: int
    split: str
    seed: int
    size: int
    version: int = 0
    settled: int = 0
    opponent: str = ""
    wave: tuple[int, int] = (0, 0)

    def session(self, member: int, seat: str = "agent") -> str:
        """Return the key of a member's episode, such as "17/3", for the policy's cache and for checkpoints.

        Each seat of several has its own, such as "17/3/player_0".
        """
        return f"{self.number}/{member}" if seat == "agent" else f"{self.number}/{member}/{seat}"


@dataclass(slots=True)
class Group:
    """Trajectories whose returns may be compared: same task, same initial state, same seat.

    `trajectories` (G of them) holds no errored member, so no baseline includes one; `errored` holds all errored
    attempts. `rewards` (G,) are the returns, until a recipe's `shape` parts replace them by the rewards to learn from.
    `others` are recorded and never trained or scored: trajectories of opponents in the same episodes, and those that a
    strategy has not used.
    """

    ticket: Ticket
    trajectories: list[Trajectory]
    errored: list[Trajectory] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    others: list[Trajectory] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Set `rewards` to the returns unless they are passed."""
        self.rewards = self.rewards or [trajectory.reward for trajectory in self.trajectories]


class Branch(NamedTuple):
    """A request for the log-probabilities of the last `scored` of `ids`, placed after `trunk`'s first `at` tokens.

    `trunk` is an index into the token sequences that are passed along with the branches. A branch whose `ids` are the
    trunk's own next tokens costs no computation.
    """

    trunk: int  # index of the token sequence
    at: int
    ids: tuple[int, ...]
    scored: int
