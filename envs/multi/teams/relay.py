"""A calculation in legs, which two players carry on in turn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from envs.episodes.guide import Guide, Style
from envs.games.game import check_range
from envs.grading.integer import declared_integer
from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.multi.teams.score_rule import score_rule
from envs.procedural import drawn
from envs.types import Message, Task, assistant, final_text, user

MOST = 99  # of the numbers that `random` replies with
SIGNS = {"add": "+", "subtract": "-", "multiply": "*"}
LINKS = {"add": "", "subtract": "", "multiply": " by"}
FAULT = "Your reply does not state exactly one whole number."

_LABEL = re.compile(r"^[ \t*_#>]*leg \d+(?: of \d+)?[*_]{0,2}\s*[:.)]", re.IGNORECASE | re.MULTILINE)


class Level(NamedTuple):
    """What a level sets: the legs, the steps of each, the most of all numbers on the way, and of a step's second."""

    legs: int
    steps: int
    most: int
    second: int


LEVELS = (Level(2, 1, 30, 10), Level(4, 2, 99, 20))


class Operation(NamedTuple):
    """One step of a leg: "add", "subtract" or "multiply", and the second number."""

    name: str
    number: int

    def apply(self, value: int) -> int:
        """Return the result for a value."""
        return {"add": value + self.number, "subtract": value - self.number, "multiply": value * self.number}[self.name]


class Relay(MultiEnv):
    """A relay of sums: two players carry a number on in turn, and each knows only the steps of its own legs.

    Observation: the number that the other has handed on, and the steps of this leg; in short style `14+3*2=?`.
    Action: the number after these steps.
    Reward: for both seats alike, `team`, at the end: (1 - `local`) times 1 if the last number is right. For the seat
    that has replied, `local`, after each leg: `local` times its share of the legs if it carried on rightly what it was
    handed, right or wrong. Both are named rewards.
    Episode end: terminated after the last leg. Success: the last number is right, for both. A reply that states no
    number is asked for again, once in a row; a second one ends the relay.
    Arguments: `level`, 0 or 1: two legs of one step with numbers up to 30, or four of two steps with numbers up to 99
    (default: 0 in short style, else 1); `legs`, of both seats together, and `steps` of a leg, where they are not to be
    the level's; `local`, from 0 to 1.
    Seats: `first`, `second`, in turn; they win together. Opponents: `oracle` (the default) adds up rightly what it is
    handed.
    Splits: a list of steps is in one split only. State: the number that is handed on and the leg.
    Source and licence: generated; own code. Version history: v0.
    """

    seats = ("first", "second")
    teammates = True
    default_opponent = "oracle"

    def __init__(
        self,
        *,
        level: int | None = None,
        legs: int | None = None,
        steps: int | None = None,
        local: float = 0.0,
        max_turns: int | None = None,
        style: Style = "full",
        **limits: Any,
    ) -> None:
        self.level = check_range("level", int(style != "short") if level is None else level, range(len(LEVELS)))
        numbers = LEVELS[self.level]
        self.legs = check_range("legs", numbers.legs if legs is None else legs, range(2, 21))
        self.steps = check_range("steps", numbers.steps if steps is None else steps, range(1, 6))
        if not 0 <= local <= 1:
            raise ValueError(f"local {local!r} is outside 0..1")
        self.local = float(local)
        super().__init__(max_turns=self.legs + 1 if max_turns is None else max_turns, style=style, **limits)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random numbers with the steps of all legs."""
        key = f"multi/Relay-v0:{self.legs}:{self.steps}" + (":0" if self.level == 0 else "")
        length = 10_000 if split == "train" else 200
        return drawn(split, length, self._draw, key=key, same=lambda task: dict(task.metadata))

    def start(self) -> Round:
        """Hand the first number to the first seat."""
        data = self.task.metadata
        self.plan = [[Operation(*step) for step in leg] for leg in data["legs"]]
        self.number: int = data["start"]
        self.leg = self.invalid_replies = 0
        return Round({"first": (user(self._leg_text()),)}, to_move=("first",))

    def reply(self, replies: Mapping[str, Message]) -> Round:
        """Hand the number of a reply on to the other seat, or compare it after the last leg."""
        ((seat, message),) = replies.items()
        (other,) = self.others(seat)
        content = _LABEL.sub("", final_text(message))
        number = declared_integer(content)
        if number is None or abs(number) > 10**9 or _has_loose_minus(content, number):
            self.invalid_replies += 1
            if self.invalid_replies > 1:
                end = "reply in a row does not state exactly one whole number, so the relay is over."
                texts = {seat: (user(f"Your second {end}"),), other: (user(f"The other player's second {end}"),)}
                return Round(texts if self.style == "full" else {}, invalid=(seat,))
            text = self.correction(seat, FAULT, self._leg_text(), short=f"?\n{self._leg_text()}")
            return Round({seat: (user(text),)}, to_move=(seat,), invalid=(seat,))
        share = self.local / self._num_legs(seat)
        own = share * (number == self._carried(self.number, self.leg))
        self.number, self.invalid_replies = number, 0
        self.leg += 1
        rewards, parts = {seat: own}, {seat: {"local": own}}
        if self.leg < self.legs:
            return Round({other: (user(self._leg_text()),)}, rewards, to_move=(other,), parts=parts)
        is_right = number == int(self.task.answer)
        team = (1 - self.local) * is_right
        verdict = "The last number is right." if is_right else "The last number is wrong."
        return Round(
            {name: (user(verdict),) for name in self.seats} if self.style == "full" else {},
            {seat: own + team, other: team},
            success=dict.fromkeys(self.seats, is_right),
            parts={seat: {"local": own, "team": team}, other: {"team": team}},
        )

    def guide(self, seat: str) -> Guide:
        """Say what is handed on."""
        return Guide(
            goal=(
                f"You and another player work out a number together, in {self.legs} legs that you take in turn; "
                f"{self._num_legs(seat)} of them {'is' if self._num_legs(seat) == 1 else 'are'} yours. In each of your "
                "legs you read a number that the other hands to you, and steps that only you know. You carry out the "
                "steps, one after another, and hand on the result. Both of you succeed if the number after the last "
                "leg is right."
            ),
            rules=(
                "The steps of a leg are carried out from left to right, each on the result of the one before. The "
                "other player reads the number that you reply with, and nothing else. The other may have made a "
                f"mistake; carry on with the number that you read. {self._score_rule(seat)}"
            ),
            reply=(
                "Reply with the result of your leg, a whole number in digits; it may be negative, with the minus right "
                "before its digits."
            ),
            noun="number",
            example="42",
            ending="The episode ends after the last leg.",
            invalid=(
                "A reply that states no whole number, or several, uses up one of your replies, and you are asked "
                "again, once. A second one in a row ends the episode without success."
            ),
            heading="Your first leg:",
        )

    def secrets(self, seat: str) -> Sequence[str]:
        """Return the steps of the seat's own leg, where they are its to know."""
        return (self._steps_text(self.leg),) if self.leg < self.legs and self._seat(self.leg) == seat else ()

    def state(self) -> str:
        """Return the task, the leg and the number."""
        return f"{self.task.id} {self.leg} {self.number}"

    def oracle(self, seat: str) -> Message:
        """Carry on rightly what was handed to the seat."""
        return assistant(str(self._carried(self.number, self.leg) if self.leg < self.legs else self.number))

    def random(self, seat: str, rng: np.random.Generator) -> Message:
        """Return a number from 0 to 99."""
        return assistant(str(int(rng.integers(MOST + 1))))

    def _num_legs(self, seat: str) -> int:
        return len(range(self.seats.index(seat), self.legs, 2))

    def _score_rule(self, seat: str) -> str:
        return score_rule(self.local, "times the share of your legs that you carried on rightly")

    def _seat(self, leg: int) -> str:
        return self.seats[leg % 2]

    def _carried(self, number: int, leg: int) -> int:
        for operation in self.plan[leg]:
            number = operation.apply(number)
        return number

    def _steps_text(self, leg: int) -> str:
        if self.style != "full":
            return "".join(f"{SIGNS[step.name]}{step.number}" for step in self.plan[leg])
        return ", then ".join(f"{step.name}{LINKS[step.name]} {step.number}" for step in self.plan[leg])

    def _leg_text(self) -> str:
        if self.style != "full":
            return f"{self.number}{self._steps_text(self.leg)}=?"
        return f"Leg {self.leg + 1} of {self.legs}. The number is {self.number}. Steps: {self._steps_text(self.leg)}."

    def _draw(self, rng: np.random.Generator) -> Task:
        _, _, most, second = LEVELS[self.level]
        value = start = int(rng.integers(1, 21))
        legs: list[list[Operation]] = []
        for _ in range(self.legs):
            legs.append([])
            for _ in range(self.steps):
                choices = [Operation("add", number) for number in range(1, min(second, most - value) + 1)]
                choices += [Operation("subtract", number) for number in range(1, min(second, value) + 1)]
                factors = [Operation("multiply", number) for number in (2, 3, 4) if 0 < value * number <= most]
                pool = factors if factors and rng.random() < 0.3 else choices
                operation = pool[int(rng.integers(len(pool)))]
                legs[-1].append(operation)
                value = operation.apply(value)
        metadata = {"start": start, "legs": [[list(step) for step in leg] for leg in legs]}
        return Task("", answer=str(value), metadata=metadata)


def _has_loose_minus(reply: str, number: int) -> bool:
    """Whether a minus or dash, apart from the number or of another kind, stands where it would be the number's sign."""
    loose = rf"(?:^|[^\d\s)])[ \t]*(?:[-\u2212][ \t]+|[\u2013\u2014][ \t]*){number}(?!\d)"
    return number > 0 and re.search(loose, reply, re.MULTILINE) is not None
