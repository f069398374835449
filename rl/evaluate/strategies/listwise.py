"""List-wise choice: the policy itself reads all candidates in one prompt and names the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from envs.env import Env
from envs.grading.integer import declared
from envs.types import Message, Outcome, Task, assistant, text, user
from rl.evaluate.attempts import Choice, settled
from rl.evaluate.strategies.strategy import Attempt, MakeEnv, Stage
from rl.evaluate.voting import Vote
from rl.methods.options import Count
from rl.records import Trajectory
from rl.seeds import derive, generator

ROUND = "choose"
REQUEST = "Reply with the number of the best answer."


class Choosing(Env):
    """Name the best of several answers by its number, 1 the first. Tasks are whatever `problems` holds."""

    def __init__(self, problems: Sequence[Task], **limits: Any) -> None:
        super().__init__(**limits)
        self._problems = problems

    def load(self, split: str) -> Sequence[Task]:
        """The problems; there is one split, called anything."""
        return self._problems

    def reply(self, action: Message) -> Outcome:
        """Read a number; the metric `choice` is 0 for a reply that names none of the answers."""
        number = declared(text(action)) or 0
        valid = 1 <= number <= self.task.metadata["answers"]
        won = number in self.task.answer
        return Outcome((), float(won), True, won, valid, metrics={"choice": float(number if valid else 0)})

    def oracle(self) -> Iterator[Message]:
        """A right answer's number, or the first where none is right."""
        yield assistant(str(min(self.task.answer, default=1)))

    def random(self, rng: np.random.Generator) -> Message:
        """Any answer's number."""
        return assistant(str(rng.integers(self.task.metadata["answers"]) + 1))


@dataclass(frozen=True)
class Listwise:
    """Play n episodes, then let the policy choose: one prompt shows the task and all answers.

    Every set is shown `orders` times, in a drawn order and then in that order reversed, and so on, because policies
    favour places; the answer chosen most often wins, the earlier choice on a tie. Answers are cut to their last
    `chars` characters, so that length does not decide. Where no choice can be read the first answer is taken.
    """

    n: Count = 4
    orders: Count = 2
    chars: Count = 1000
    _problems: list[Task] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def width(self) -> int:
        """All candidates are played at once."""
        return self.n

    @property
    def upper_bound(self) -> bool:
        """Never: the policy chooses."""
        return False

    def rounds(self, make_env: MakeEnv) -> Mapping[str, MakeEnv]:
        """One round of choices."""
        return {ROUND: partial(Choosing, self._problems)}

    async def settle(self, attempts: Sequence[Attempt], stage: Stage) -> list[Choice]:
        """Ask about every attempt that has something to choose from."""
        asked = [(a, order) for a in attempts if len(a.candidates) > 1 for order in self._orders(a)]
        self._problems[:] = [self._problem(i, a, order) for i, (a, order) in enumerate(asked)]
        seeds = [derive(a.ticket.seed, ROUND, a.member, place) for place, (a, _) in enumerate(asked)]
        judged: dict[tuple[int, int], list[tuple[Trajectory, int | None]]] = {}
        for (a, order), episode in zip(asked, await stage.played(f"{ROUND}:test", seeds), strict=True):
            if episode is not None:
                choice = int(episode.turns[-1].metrics["choice"]) if episode.turns else 0
                named = order[choice - 1] if choice else None
                judged.setdefault((a.ticket.number, a.member), []).append((episode, named))
        return [self._settled(a, judged.get((a.ticket.number, a.member), [])) for a in attempts]

    def curve(self, chosen: Sequence[Choice], vote: Vote) -> dict[int, float]:
        """One episode, and all."""
        first = [candidate.success for choice in chosen for candidate in choice.candidates]
        return {1: float(np.mean(first)), self.n: float(np.mean([choice.success for choice in chosen]))}

    def _orders(self, attempt: Attempt) -> list[list[int]]:
        rng = generator(attempt.ticket.seed, "order", attempt.member)
        made: list[list[int]] = []
        for place in range(self.orders):
            made.append(made[-1][::-1] if place % 2 else rng.permutation(len(attempt.candidates)).tolist())
        return made

    def _problem(self, number: int, attempt: Attempt, order: Sequence[int]) -> Task:
        shown = [attempt.candidates[i] for i in order]
        question = "\n".join(text(m) for m in shown[0].turns[0].observation) if shown[0].turns else ""
        answers = [f"Answer {i}:\n{said(candidate)[-self.chars :]}" for i, candidate in enumerate(shown, 1)]
        prompt = "\n\n".join([question, *answers, REQUEST])
        right = [i for i, candidate in enumerate(shown, 1) if candidate.success]
        return Task(f"{ROUND}/{number}", (user(prompt),), right, {"answers": len(shown)})

    @staticmethod
    def _settled(attempt: Attempt, judged: Sequence[tuple[Trajectory, int | None]]) -> Choice:
        counts = Counter(named for _, named in judged if named is not None)
        chosen = counts.most_common(1)[0][0] if counts else 0  # of equal counts the one met first
        episodes = tuple(episode for episode, _ in judged)
        fallback = not counts and len(attempt.candidates) > 1
        return settled(attempt.candidates[chosen], attempt.member, attempt.candidates, episodes, fallback)


def said(trajectory: Trajectory) -> str:
    """An episode as the text that a reader judges: the reply, or the dialogue after its opening."""
    if len(trajectory.turns) == 1:
        return text(trajectory.turns[0].reply) if trajectory.turns[0].reply else ""
    lines: list[Message] = []
    for place, turn in enumerate(trajectory.turns):
        lines += turn.observation if place else ()
        lines += [turn.reply] if turn.reply else []
    return "\n".join(f"{message['role']}: {text(message)}" for message in (*lines, *trajectory.final))
