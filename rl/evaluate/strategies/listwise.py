"""List-wise choice: the policy reads all candidates in one prompt and names the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from envs.env import Env
from envs.grading.integer import declared_integer
from envs.types import Message, Outcome, Task, assistant, text, user
from rl.evaluate.attempts import Choice, make_choice
from rl.evaluate.strategies.strategy import Attempt, MakeEnv, StrategyContext
from rl.evaluate.voting import Vote
from rl.methods.options import Count
from rl.records import Trajectory
from rl.seeds import derive, generator

ROUND = "choose"
REQUEST = "Reply with the number of the best answer."


class ChoiceEnv(Env):
    """Asks for the number of the best of several answers, counted from 1.

    `choice_tasks` are the tasks of every split. The list may be replaced in place between episodes. A task's `answer`
    holds the numbers of the right answers and `metadata["answers"]` is the number of all answers.
    """

    def __init__(self, choice_tasks: Sequence[Task], **limits: Any) -> None:
        super().__init__(**limits)
        self._choice_tasks = choice_tasks

    def load(self, split: str) -> Sequence[Task]:
        """Return the tasks, which are the same for every `split`."""
        return self._choice_tasks

    def reply(self, action: Message) -> Outcome:
        """Read the number in a reply. The metric `choice` is that number, 0 if it is none of the answers."""
        number = declared_integer(text(action)) or 0
        valid = 1 <= number <= self.task.metadata["answers"]
        success = number in self.task.answer
        return Outcome((), float(success), True, success, valid, metrics={"choice": float(number if valid else 0)})

    def oracle(self) -> Iterator[Message]:
        """Yield one reply: the lowest number of a right answer, or 1 if none is right."""
        yield assistant(str(min(self.task.answer, default=1)))

    def random(self, rng: np.random.Generator) -> Message:
        """Return a reply with the number of a random answer, all equally likely."""
        return assistant(str(rng.integers(self.task.metadata["answers"]) + 1))


@dataclass(frozen=True)
class Listwise:
    """Play n episodes, then let the policy choose among them: one prompt shows the task and all answers.

    The policy chooses `orders` times: policies prefer certain positions, so the answers are shown in a random order,
    then in its reverse, then in another random order, and so on. The answer named most often wins; of a tie the one
    named first. Answers are cut to their last `chars` characters, so that length has no influence. If no choice can be
    read, the first candidate is taken.
    """

    n: Count = 4
    orders: Count = 2
    chars: Count = 1000
    _choice_tasks: list[Task] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def width(self) -> int:
        """The number n: all episodes are played in the first round."""
        return self.n

    @property
    def upper_bound(self) -> bool:
        """False: the policy chooses."""
        return False

    def rounds(self, make_env: MakeEnv) -> Mapping[str, MakeEnv]:
        """Return one further round of episodes: a dict from `ROUND` to a function that makes a `ChoiceEnv`.

        In that environment the policy names the best of an attempt's candidates. `make_env` is not used.
        """
        return {ROUND: partial(ChoiceEnv, self._choice_tasks)}

    async def choose(self, attempts: Sequence[Attempt], context: StrategyContext) -> list[Choice]:
        """Let the policy choose in every attempt with more than one candidate; return one choice per attempt, in order.

        Raises `ValueError` for a context that cannot play further episodes.
        """
        questions = [(a, order) for a in attempts if len(a.candidates) > 1 for order in self._orders(a)]
        self._choice_tasks[:] = [self._choice_task(i, a, order) for i, (a, order) in enumerate(questions)]
        seeds = [derive(a.ticket.seed, ROUND, a.member, i) for i, (a, _) in enumerate(questions)]
        judgements: dict[tuple[int, int], list[tuple[Trajectory, int | None]]] = {}
        for (a, order), episode in zip(questions, await context.play_round(f"{ROUND}:test", seeds), strict=True):
            if episode is not None:
                number = int(episode.replies[-1].metrics.get("choice", 0)) if episode.replies else 0
                candidate = order[number - 1] if number else None
                judgements.setdefault((a.ticket.number, a.member), []).append((episode, candidate))
        return [self._make_choice(a, judgements.get((a.ticket.number, a.member), [])) for a in attempts]

    def curve(self, choices: Sequence[Choice], vote: Vote) -> dict[int, float]:
        """Return the success rates of one episode and of the choice among all n: {1: ..., n: ...}."""
        success = [candidate.success for choice in choices for candidate in choice.candidates]
        return {1: float(np.mean(success)), self.n: float(np.mean([choice.success for choice in choices]))}

    def _orders(self, attempt: Attempt) -> list[list[int]]:
        """`orders` permutations of the indices of the candidates; every second one reverses the one before it."""
        rng = generator(attempt.ticket.seed, "order", attempt.member)
        orders: list[list[int]] = []
        for i in range(self.orders):
            orders.append(orders[-1][::-1] if i % 2 else rng.permutation(len(attempt.candidates)).tolist())
        return orders

    def _choice_task(self, number: int, attempt: Attempt, order: Sequence[int]) -> Task:
        candidates = [attempt.candidates[i] for i in order]
        question = "\n".join(text(m) for m in candidates[0].turns[0].observation) if candidates[0].turns else ""
        answers = [f"Answer {i}:\n{transcript(episode)[-self.chars :]}" for i, episode in enumerate(candidates, 1)]
        prompt = "\n\n".join([question, *answers, REQUEST])
        right_numbers = [i for i, candidate in enumerate(candidates, 1) if candidate.success]
        return Task(f"{ROUND}/{number}", (user(prompt),), right_numbers, {"answers": len(candidates)})

    @staticmethod
    def _make_choice(attempt: Attempt, judgements: Sequence[tuple[Trajectory, int | None]]) -> Choice:
        """The candidate named most often. `judgements` are episodes with the index that they name, None for none."""
        counts = Counter(candidate for _, candidate in judgements if candidate is not None)
        winner = counts.most_common(1)[0][0] if counts else 0  # of a tie the one counted first
        episodes = tuple(episode for episode, _ in judgements)
        fallback = not counts and len(attempt.candidates) > 1
        return make_choice(attempt.candidates[winner], attempt.member, attempt.candidates, episodes, fallback)


def transcript(trajectory: Trajectory) -> str:
    """Return an episode as text for a judge: its only reply, or the dialogue after the opening messages."""
    replies = trajectory.replies
    if len(replies) == 1:
        return text(replies[0].reply) if replies[0].reply else ""
    messages: list[Message] = []
    for k, turn in enumerate(trajectory.turns):
        messages += turn.observation if k else ()
        messages += [turn.reply] if turn.reply and not turn.internal else []
    return "\n".join(f"{message['role']}: {text(message)}" for message in (*messages, *trajectory.final))
