"""Two players divide a few things, each with values of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from envs.episodes.guide import Guide, count, listing, replies_left
from envs.games.game import check_range
from envs.grading.choice import find_choice, plain_answer
from envs.grading.lines import last_line
from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.procedural import drawn
from envs.types import Message, Task, assistant, final_text, user

KINDS = ("book", "hat", "ball")
POINTS = 10  # that all things together are worth to each player
FAIR = 5  # points of a deal that is a success
MAX_NOTE = 200  # characters of a note
MAX_INVALID = 2  # invalid replies in a row that end the talks
ACCEPTANCE = "accept"
SYNONYMS = dict.fromkeys(("y", "yes", "accepted", "accepts", "agree", "agreed", "deal"), ACCEPTANCE)
FAULT = (
    "The last line of your reply is no offer, offers more than there is, or accepts where there is no offer yet. An "
    "offer names only what you keep, each kind once with its number, and nothing of what the other gets."
)
_AMOUNTS = r"all\s+the|all|both|\d+|no|a|an|the|one|two|three|four"
_THING = re.compile(rf"(?<![\w.-])({_AMOUNTS})\s+({'|'.join(KINDS)})(s?)\b", re.I)
_NUMBERS = {"no": 0, "a": 1, "an": 1, "one": 1, "both": 2, "two": 2, "three": 3, "four": 4}
_WHOLE = {"nothing": 0, "everything": 1}  # what stands for no thing and for all things
_FILLERS = frozenset(("i", "keep", "and"))  # beside what announces an answer
_WORD = re.compile(r"\w+")
_LABEL = re.compile(
    r"^[\s*_>-]*(?:(?:my|the|a|last|final|new|next|first)\s+){0,3}(?:counter-?)?offer[*_]{0,2}\s*[:=]", re.IGNORECASE
)
_DIGITS = re.compile(r"(\d)[\s,]*(\d)[\s,]*(\d)\.?")
Share = tuple[int, ...]  # how many things of each kind


class Offer(NamedTuple):
    """What the seat that makes an offer would keep, and its note to the other."""

    seat: str
    keep: Share
    note: str = ""


class Negotiation(MultiEnv):
    """Divide books, hats and balls by offers in turn; each player knows only what they are worth to itself.

    Observation: what there is and what it is worth to the seat, then the other's offer and note.
    Action: in the last line an offer, which names what the seat keeps, `I keep 2 books, 1 hat`, and after `|` a note to
    the other of at most 200 characters; or `accept`. In short style `210` for books, hats and balls, and `y`.
    Reward: at a deal the points of what the seat gets, divided by 10; without one nothing.
    Episode end: terminated by a deal, or by two replies in a row that cannot be read, which end the talks without one;
    truncated without a deal when a seat is to move that has no reply left. Success: a deal that gives the seat at
    least 5 of the 10 points, which both can have at once.
    Arguments: `offers`, replies of each seat.
    Seats: `player_0` begins, `player_1`. Opponents: `conceder` (the default) asks for all that it wants first and for
    less with each offer, down to half of the points; `hardliner` for 8 points to the end.
    Splits: things and values are in one split only. State: things, values and offers.
    Source and licence: after Lewis et al., Deal or No Deal (arXiv:1706.05125), section 2; own code and tasks.
    Version history: v0.
    """

    default_opponent = "conceder"
    players = {"conceder": "conceder", "hardliner": "hardliner"}  # noqa: RUF012

    def __init__(self, *, offers: int = 5, max_turns: int | None = None, **limits: Any) -> None:
        check_range("offers", offers, range(1, 51))
        super().__init__(max_turns=offers if max_turns is None else max_turns, **limits)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return things with the values of both players."""
        length = 10_000 if split == "train" else 200
        return drawn(split, length, _draw, key="multi/Negotiation-v0", same=lambda task: dict(task.metadata))

    def start(self) -> Round:
        """Show the first seat what there is."""
        data = self.task.metadata
        self.things: Share = tuple(data["things"])
        self.values: dict[str, Share] = dict(zip(self.seats, map(tuple, data["values"]), strict=True))
        self.offers: list[Offer] = []
        self.deal: dict[str, Share] = {}
        self.invalid_replies = 0
        first = self.seats[0]
        return Round({first: (user(self._table(first)),)}, to_move=(first,))

    def reply(self, replies: Mapping[str, Message]) -> Round:
        """Send an offer to the other seat, close the deal, or ask again for a reply that cannot be read."""
        ((seat, message),) = replies.items()
        (other,) = self.others(seat)
        move = self.read(seat, final_text(message))
        if move is None:
            self.invalid_replies += 1
            if self.invalid_replies >= MAX_INVALID:
                whose = {seat: "your second reply in a row", other: "the other player's second reply in a row"}
                end = {name: (user(f"There is no deal: {whose[name]} was invalid."),) for name in self.seats}
                return Round(end if self.style == "full" else {}, invalid=(seat,))
            text = self.correction(seat, FAULT, self._table(seat), short=f"?\n{self._table(seat)}")
            return Round({seat: (user(text),)}, to_move=(seat,), invalid=(seat,))
        self.invalid_replies = 0
        if move == ACCEPTANCE:
            self.deal = {other: self.offers[-1].keep, seat: self._rest(self.offers[-1].keep)}
            points = {name: self.points(name, self.deal[name]) for name in self.seats}
            return Round(
                {name: (user(self._deal_text(name)),) for name in self.seats} if self.style == "full" else {},
                {name: value / POINTS for name, value in points.items()},
                success={name: value >= FAIR for name, value in points.items()},
            )
        assert isinstance(move, Offer)
        self.offers.append(move)
        news = self._table(other)
        if self.style == "full" and self.turns[other]:
            left = self.max_turns - self.turns[seat] - 1
            news += f"\n{replies_left(self.max_turns - self.turns[other])} The other player has {left} left."
        return Round({other: (user(news),)}, to_move=(other,))

    def read(self, seat: str, reply: str) -> Offer | str | None:
        """Return the offer of a reply's last line, "accept", or None for any other line."""
        line, _, note = last_line(reply).partition("|")
        line = _LABEL.sub("", line)
        names = [match.groups() for match in _THING.finditer(line)]
        others = {word.lower() for word in _WORD.findall(plain_answer(_THING.sub(" ", line)))} - _FILLERS
        is_accepted = find_choice(line, {ACCEPTANCE: ACCEPTANCE}, SYNONYMS) is not None
        digits = _DIGITS.fullmatch(line.strip())
        if digits and self.style != "full":
            keep: Share = tuple(map(int, digits.groups()))
        elif names:
            counts = {
                kind.lower(): self._amount(amount.lower(), kind.lower(), plural) for amount, kind, plural in names
            }
            if is_accepted or others or len(counts) < len(names) or None in counts.values():
                return None
            keep = tuple(counts.get(kind) or 0 for kind in KINDS)
        elif len(others) == 1 and (share := _WHOLE.get(*others)) is not None:
            keep = tuple(number * share for number in self.things)
        elif is_accepted and self.offers:
            return ACCEPTANCE
        else:
            return None
        fits = all(number <= most for number, most in zip(keep, self.things, strict=True))
        return Offer(seat, keep, " ".join(note.split())[:MAX_NOTE]) if fits else None

    def _amount(self, amount: str, kind: str, plural: str) -> int | None:
        """The number of things that a word stands for; None for `the books`, which does not say how many."""
        most = self.things[KINDS.index(kind)]
        if amount.startswith("all") or (amount == "the" and most == 1 and not plural):
            return most
        return _NUMBERS.get(amount) if not amount.isdecimal() else int(amount)

    def points(self, seat: str, share: Share) -> int:
        """Return what a share is worth to a seat."""
        return _dot(share, self.values[seat])

    def guide(self, seat: str) -> Guide:
        """Say how a deal is made."""
        return Guide(
            goal=(
                "You and another player divide some things between you, by offers in turn. The things have a value "
                f"for you that the other does not know, and other values for the other. All of them together are worth "
                f"{POINTS} points to each of you. You want as many points as you can get, and you succeed if there is "
                f"a deal that gives you at least {FAIR}."
            ),
            rules=(
                "An offer names what you would keep; the other gets the rest. The other either accepts it, which is "
                "the deal, or makes an offer of its own, which then replaces yours. Your score is your points "
                f"of the deal divided by {POINTS}, and 0 if there is no deal. With an offer you may send a note of at "
                f"most {MAX_NOTE} characters after the sign |. The other reads your offers and notes and nothing else "
                "of what you write."
            ),
            reply=(
                "Reply with an offer in the form: I keep 1 book, 2 balls. Name only what you keep, each kind with its "
                "number, and nothing about the other's share; a kind that you do not name goes to the other. If the "
                "other has made an offer, you may reply with the one word accept instead."
            ),
            noun="offer, or accept,",
            example=f"I keep {_things_text(self._favourite(seat))} | I can be flexible.",
            ending="The episode ends with a deal, or without one when a player has no reply left.",
            invalid=(
                "A reply with any other last line uses up one of your replies, and you are asked again, once. A "
                "second one in a row ends the talks without a deal."
            ),
            heading="The things:",
        )

    def secrets(self, seat: str) -> Sequence[str]:
        """Return the line with the seat's values."""
        return (self._values_text(seat),) if self.values[seat] != self.values[self.others(seat)[0]] else ()

    def state(self) -> str:
        """Return things, values and offers, and the deal."""
        return f"{self.things} {[*self.values.values()]} {[tuple(offer) for offer in self.offers]} {self.deal}"

    def oracle(self, seat: str) -> Message:
        """Offer the fairest of the best divisions, which it finds knowing both players' values, and accept no less."""
        best = max(self._shares(), key=self._fairness)
        best = best if seat == self.seats[0] else self._rest(best)
        left = self._offered(seat)
        if left and self.points(seat, left) >= self.points(seat, best):
            return self._acceptance()
        return self._offer(best)

    def random(self, seat: str, rng: np.random.Generator) -> Message:
        """Accept an offer in three of ten cases, else offer any division."""
        if self._offered(seat) is not None and rng.random() < 0.3:
            return self._acceptance()
        return self._offer(tuple(int(rng.integers(most + 1)) for most in self.things))

    def conceder(self, seat: str, rng: np.random.Generator) -> Message:
        """Ask for 10 points first and for less with each offer, down to 5; accept what is worth as much."""
        used = self.turns[seat]
        return self._bargain(seat, max(FAIR, POINTS - round(used * FAIR / max(1, self.max_turns - 1))))

    def hardliner(self, seat: str, rng: np.random.Generator) -> Message:
        """Ask for 8 points to the end."""
        return self._bargain(seat, 8)

    def _bargain(self, seat: str, least: int) -> Message:
        """Accept an offer of `least` points; else leave the other as many things as that allows."""
        left = self._offered(seat)
        if left and self.points(seat, left) >= least:
            return self._acceptance()
        enough = [keep for keep in self._shares() if self.points(seat, keep) >= least]
        return self._offer(min(enough, key=lambda keep: (sum(keep), self.points(seat, keep), keep)))

    def _offered(self, seat: str) -> Share | None:
        """What the other's standing offer leaves to a seat; None without one."""
        return self._rest(self.offers[-1].keep) if self.offers and self.offers[-1].seat != seat else None

    def _shares(self) -> list[Share]:
        return [*product(*(range(most + 1) for most in self.things))]

    def _fairness(self, keep: Share) -> tuple[bool, int, Share]:
        """How good a division is: whether both succeed, and the product of their points (Nash 1950)."""
        first, second = self.seats
        points = self.points(first, keep), self.points(second, self._rest(keep))
        return min(points) >= FAIR, points[0] * points[1], keep

    def _rest(self, keep: Share) -> Share:
        return tuple(most - number for most, number in zip(self.things, keep, strict=True))

    def _favourite(self, seat: str) -> Share:
        """All things of the kind that is worth most to a seat."""
        best = max(range(len(KINDS)), key=lambda place: self.values[seat][place])
        return tuple(most if place == best else 0 for place, most in enumerate(self.things))

    def _offer(self, keep: Share) -> Message:
        return assistant("".join(map(str, keep)) if self.style != "full" else f"I keep {_things_text(keep)}")

    def _acceptance(self) -> Message:
        return assistant(ACCEPTANCE if self.style == "full" else "y")

    def _values_text(self, seat: str) -> str:
        if self.style != "full":
            return f"*{''.join(map(str, self.values[seat]))}*"
        book, hat, ball = (count(value, "point") for value in self.values[seat])
        return f"To you a book is worth {book}, a hat {hat} and a ball {ball}."

    def _table(self, seat: str) -> str:
        """What a seat reads: at first what there is, then the other's offer."""
        left = self._offered(seat)
        if self.style != "full":
            numbers = "".join(map(str, self.things))
            return f"{numbers}{self._values_text(seat)}{''.join(map(str, left)) if left else ''}"
        lines = [f"There are {_things_text(self.things)}.", self._values_text(seat)]
        if left is not None:
            worth = count(self.points(seat, left), "point")
            lines.append(
                f"The other player offers to keep {_things_text(self.offers[-1].keep)}. You would get "
                f"{_things_text(left)}, worth {worth} to you."
            )
            if note := self.offers[-1].note:
                lines.append(f"The other player's note: {note!r}")
        return "\n".join(lines)

    def _deal_text(self, seat: str) -> str:
        points = self.points(seat, self.deal[seat])
        return f"There is a deal. You get {_things_text(self.deal[seat])}, worth {count(points, 'point')} to you."


def _things_text(share: Share) -> str:
    parts = [count(number, kind) for number, kind in zip(share, KINDS, strict=True) if number]
    return listing(parts) if parts else "nothing"


def _dot(numbers: Iterable[int], values: Share) -> int:
    return sum(number * value for number, value in zip(numbers, values, strict=True))


@cache
def _values_for(things: Share) -> list[Share]:
    """Every way in which one book, hat and ball can be worth points such that all things are worth `POINTS`."""
    return [values for values in product(range(POINTS + 1), repeat=len(KINDS)) if _dot(things, values) == POINTS]


def _draw(rng: np.random.Generator) -> Task:
    """Things and values such that both can have more than half of their points."""
    while True:
        things = tuple(int(number) for number in rng.integers(1, 5, size=len(KINDS)))
        if not FAIR <= sum(things) <= 7:
            continue
        choices = _values_for(things)
        if len(choices) < 2:
            continue
        first, second = (choices[int(place)] for place in rng.choice(len(choices), 2, replace=False))
        shares = product(*(range(most + 1) for most in things))
        if any(_dot(keep, first) > FAIR and _dot(map(int.__sub__, things, keep), second) > FAIR for keep in shares):
            return Task("", metadata={"things": list(things), "values": [list(first), list(second)]})
