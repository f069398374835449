"""A secret number that tests reveal digit by digit, and that one answer names: to ask or to guess."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from envs.episodes.guide import Guide
from envs.games.doors.world import KEY, LENGTHS, Move, World
from envs.procedural import LazyTasks, digest
from envs.types import Task

TESTS = tuple(f"t{number}" for number in range(7))
USEFUL = sorted(TESTS, key=lambda test: digest(KEY, "useful", test))[:3]  # which digit each tells: 4s, 2s, 1s
WORTH = (4, 2, 1)
ANSWERS = tuple(str(number) for number in range(8))


class Ask(World):
    """A secret of 0..7; three of seven tests tell a binary digit each, the others nothing; one answer ends it."""

    actions = (*TESTS, *ANSWERS)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return numbered tasks, each with a secret that its number draws. There are only eight secrets."""
        return LazyTasks(split, LENGTHS[split], lambda i: _task(f"{split}/{i}"))

    def enter(self) -> None:
        """Know nothing."""
        self.secret = self.metadata["secret"]
        self.digits = "???"

    def play(self, action: str | None) -> Move:
        """Make a test, or give the answer. `bits` is the information that the turn gains on the secret."""
        before = self.digits.count("?")
        if action in ANSWERS:
            is_won = int(action) == self.secret
            news = "Your answer is right." if is_won else f"Your answer is wrong: the secret was {self.secret}."
            information = before if is_won else log2(2**before / max(2**before - self._fits(int(action)), 1))
            return Move(float(is_won), True, is_won, news, {"bits": float(information)})
        if action in USEFUL:
            place = USEFUL.index(action)
            value = self.secret // WORTH[place] % 2
            self.digits = f"{self.digits[:place]}{value}{self.digits[place + 1 :]}"
            return Move(metrics={"bits": float(before - self.digits.count("?"))})
        return Move(metrics={"bits": 0.0})

    def _fits(self, number: int) -> bool:
        """Whether the evidence leaves the number possible."""
        return all(digit in ("?", str(number // worth % 2)) for digit, worth in zip(self.digits, WORTH, strict=True))

    def best(self) -> str:
        """A useful test for a digit that is not known, else the secret."""
        return USEFUL[self.digits.index("?")] if "?" in self.digits else str(self.secret)

    def view(self, is_full: bool) -> str:
        """The digits that are known."""
        return f"The binary digits of the secret: {self.digits}." if is_full else self.digits

    def key(self) -> str:
        """The digits that are known."""
        return self.digits

    def guide(self, legend: bool) -> Guide:
        """Say what tests and answers do, and with `legend` which test tells what."""
        names = dict(zip(USEFUL, ("4s", "2s", "1s"), strict=True))
        which = (
            " ".join(f"{test} tells the digit of the {names[test]}." for test in sorted(USEFUL))
            + " The other four tell nothing."
            if legend
            else "You are not told which tests these are; they are the same in all episodes."
        )
        return Guide(
            goal="Find out a secret number from 0 to 7. You succeed if your one answer names it.",
            rules="A reply makes a test or gives the answer. The secret is shown as three binary digits, of the 4s, "
            "the 2s and the 1s, with ? for those that are not known: 1?0 means 4 or 6. There are seven tests, t0 to "
            f"t6. Three of them tell one digit each; the others use up a reply and tell nothing. {which}",
            reply="Reply with the name of one test, t0 to t6, or with your answer, a number from 0 to 7.",
            noun="test or answer",
            example="t0",
            ending="The episode ends with your answer, whether it is right or wrong.",
            invalid="A reply that names no test and no answer, or several, uses up a reply.",
            heading="What you know:",
        )


def _task(name: str) -> Task:
    secret = digest(KEY, "secret", name) % 8
    return Task("", answer=str(secret), metadata={"name": name, "secret": secret})
