"""Toy episodes, played without a model: a small environment, an agent of letters, a policy without weights.

An episode asks for up to three replies. A reply counts by its first letter: `r` is right, `q` gives up, any other is
wrong. The members of a group differ in what they reply, in length and in return.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from agents.agent import Context
from envs.env import Env
from envs.types import Message, Messages, Outcome, Task, assistant, text, user
from rl.policy.engine import Policy
from rl.records import Branch, Completion, Draft, Group, SamplingParams, Ticket, Trajectory, Turn
from rl.rollout.runner import Runner
from rl.seeds import derive

END = 0
NUM_TASKS = 5
NUM_GROUPS = 4
MAX_TURNS = 3
MAX_CONTEXT = 24  # tokens of a message, of which the agent keeps the last
RIGHT, WRONG, QUIT = "rwq"


class Sample(NamedTuple):
    """What the toy environment shows, so that parts which read it find what the run's environment shows.

    `messages` is a first observation; `state` and `answer` are those of its `info`, "" and None where it has none.
    Without a sample, states are texts that tell the toy environment's situations apart (`state=None`).
    """

    messages: Messages = (user("toy"),)
    state: str | None = None
    answer: Any = "7"


class ToyEnv(Env):
    """Asks up to `max_turns` times; each right reply earns a little, the last one the rest, up to about 1 in all."""

    def __init__(self, sample: Sample, max_turns: int) -> None:
        super().__init__(max_turns=max_turns)
        self.sample = sample
        self.num_right = 0

    def tasks(self, split: str) -> Sequence[Task]:
        """Return a few tasks with the sample's prompt and answer."""
        return [Task(f"{split}/{i}", self.sample.messages, self.sample.answer) for i in range(NUM_TASKS)]

    def start(self) -> Messages:
        """Return the sample's messages."""
        self.num_right = 0
        return self.task.prompt

    def state(self) -> str:
        """Return the sample's state; without one, how many replies were right."""
        return f"{self.num_right} right" if self.sample.state is None else self.sample.state

    def reply(self, action: Message) -> Outcome:
        """Pay a right reply, and end the episode when all were right or on giving up."""
        letter = text(action)[:1]
        self.num_right += letter == RIGHT
        is_solved = self.num_right == self.max_turns
        rewards = {"answer": 0.7 * is_solved + 0.1 * (letter == RIGHT), "format": 0.02 * (letter != QUIT)}
        metrics = {"gain": 0.1 * len(text(action)), "redundancy": 0.1 * self.turns, "matched": float(letter == RIGHT)}
        return Outcome(
            (user(f"{self.num_right} right"),),
            sum(rewards.values()),
            terminated=is_solved or letter == QUIT,
            success=is_solved,
            valid=letter != QUIT,
            rewards=rewards,
            metrics=metrics,
        )

    def oracle(self) -> Iterator[Message]:
        """Reply rightly."""
        yield from [assistant(RIGHT)] * self.max_turns


class ToyAgent:
    """One token per letter. After a wrong first reply, the second context is `fresh`: there are two histories."""

    stop = (END,)

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode with the last letters of `messages`."""
        self.replies: list[str] = []
        return Context(_encode(messages) or (ord("?"),))

    def act(self, ids: Sequence[int]) -> Message:
        """The letters of `ids` as a message."""
        self.replies.append("".join(chr(i) for i in ids if i != END))
        return assistant(self.replies[-1])

    def amend(self, message: Message) -> tuple[int, ...]:
        """Put `message` in the place of the last reply."""
        self.replies[-1] = text(message)
        return (*_encode([message]), END)

    def observe(self, messages: Sequence[Message]) -> Context:
        """The letters of `messages`."""
        is_fresh = len(self.replies) == 1 and self.replies[0].startswith(WRONG)
        return Context((*_encode(messages), ord("?")), fresh=is_fresh)

    def demonstrate(self, reply: Message) -> Message:
        """Demonstrate `reply` itself."""
        return reply

    @property
    def renderer(self) -> ToyAgent:
        """Itself: what writes the tokens of a reply."""
        return self

    def write(self, reply: Message) -> tuple[int, ...]:
        """Return the tokens of a reply."""
        return (*_encode([reply]), END)


class ToyPolicy(Policy):
    """Backend rightly in every other member of a group, and with a number of letters that the seed decides."""

    version = 0
    verifies_drafts = True

    async def sample(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        session: str = "",
        resume_from: Completion | None = None,
        draft: Draft | None = None,
    ) -> Completion:
        """Return a reply that depends on `session` and `params.seed` only; nothing is kept of a draft."""
        number, member = map(int, session.split("/")[:2])
        draw = derive(params.seed, "toy")
        letter = RIGHT if (number + member) % 2 else (WRONG, QUIT)[draw % 3 == 0]
        ids = (*map(ord, letter + "abc"[: draw % 4]), END)
        logprobs = tuple(-0.2 - (derive(draw, k) % 100) / 100 for k in range(len(ids)))
        alternatives = tuple(((id, logprob),) for id, logprob in zip(ids, logprobs, strict=True))
        versions = (self.version,) * len(ids)
        return Completion(ids, logprobs, logprobs, versions, alternatives=alternatives if params.alternatives else ())

    def hidden_states(self, sequences: Sequence[Sequence[int]]) -> np.ndarray:
        """Lengths and last tokens."""
        return np.array([[len(sequence), sequence[-1]] for sequence in sequences], np.float32)


class ToyJudge:
    """A judge that finds the first step wrong, and rates as low as it can."""

    async def ask(self, messages: Messages, *, max_tokens: int) -> str:
        """Return a number in a box."""
        return "\\boxed{0}"


class ToyScorer:
    """Numbers from a critic, a reference policy and hidden states that depend on a token and its place alone."""

    version = 2

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """Between 0 and 1."""
        return [
            [tuple(0.1 * (k + 1) for k in range(len(turn.completion.ids))) for turn in t.turns] for t in trajectories
        ]

    def reference(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """A little below the sampler's."""
        return [[tuple(x - 0.2 for x in turn.completion.logprobs) for turn in t.turns] for t in trajectories]

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """A little above the sampler's."""
        return [[tuple(x + 0.05 for x in turn.completion.logprobs) for turn in t.turns] for t in trajectories]

    def renew_reference(self) -> None:
        """Do nothing."""

    def teacher(self, trajectories: Sequence[Trajectory], model: str) -> list[list[tuple[float, ...]]]:
        """A little below the sampler's."""
        return self.reference(trajectories)

    def squares(self, trajectories: Sequence[Trajectory]) -> list[list[tuple[float, ...]]]:
        """Between a tenth and one."""
        return [
            [tuple(1 / (1 + (7 * k + id) % 10) for k, id in enumerate(turn.completion.ids)) for turn in t.turns]
            for t in trajectories
        ]

    def gradient_norms(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """The larger, the longer."""
        return [0.5 + 0.1 * trajectory.num_sampled for trajectory in trajectories]

    def features(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """Numbers of tokens before and in each reply, and its place."""
        return [
            np.array([[[len(turn.context), k], [len(turn.completion.ids), k]] for k, turn in enumerate(t.turns)]) / 4.0
            for t in trajectories
        ]

    def continuations(self, trunks: Sequence[Sequence[int]], branches: Sequence[Branch]) -> list[list[float]]:
        """The likelier, the longer the history."""
        return [[-1.0 / branch.at] * branch.scored for branch in branches]

    def encode_reply(self, text: str) -> tuple[int, ...]:
        """The bytes of the text."""
        return tuple(text.encode())

    def hide_feedback(self, turn: Turn, placeholder: str) -> tuple[int, ...] | None:
        """Zeros of the same length."""
        return (0,) * len(turn.context)


class AnyName(dict[str, float]):
    """Named numbers that have one for every name: which names the run's environment uses is not known here."""

    def __missing__(self, name: str) -> float:
        """Return a number between 0 and 1 for `name`."""
        return (derive("number", name) % 100) / 100

    def get(self, name: str, default: Any = None) -> Any:
        """Return the number of `name`, never `default`."""
        return self[name]


def make_runner(sample: Sample, max_turns: int) -> Runner:
    """A runner of toy episodes of up to `max_turns` turns."""
    params = SamplingParams(max_tokens=8)
    return Runner(lambda: ToyEnv(sample, max_turns), ToyAgent, ToyPolicy(), params, max_tokens=400)


def tickets(size: int) -> list[Ticket]:
    """The tickets of the toy groups: each of two tasks comes twice, the second time with what the first time gave."""
    return [
        Ticket(number, number % 2, "train", derive("toy", number), size, version=number, settled=number)
        for number in range(NUM_GROUPS)
    ]


def accept_any_name(groups: Sequence[Group]) -> None:
    """Give every turn a metric and a named reward of any name."""
    for group in groups:
        for trajectory in group.trajectories:
            for turn in trajectory.turns:
                turn.metrics, turn.rewards = AnyName(turn.metrics), AnyName(turn.rewards)


def _encode(messages: Sequence[Message]) -> tuple[int, ...]:
    letters = "".join(map(text, messages))[-MAX_CONTEXT:]
    return tuple(1 + ord(letter) % 127 for letter in letters)
