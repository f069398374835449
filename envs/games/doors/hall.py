"""A hall of doors: each shows a symbol that has one right letter, and some of the doors decide the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from envs.episodes.guide import Guide, count, listing
from envs.games.doors.world import KEY, LENGTHS, Move, World
from envs.procedural import digest, drawn, enumerated
from envs.types import Task

Rule = Literal["all", "share", "pay", "slip"]
Placement = Literal["early", "late", "spread"]
LETTERS = ("a", "b", "c", "d")
SYMBOLS = sorted((x + y for x in "fghjkmnpqrtvwxz" for y in "fghjkmnpqrtvwxz" if x != y), key=lambda s: digest(KEY, s))
RIGHT = {symbol: LETTERS[digest(KEY, "right", symbol) % 4] for symbol in SYMBOLS}


class Hall(World):
    """`turns` doors, of which `decisive` count, by `rule`."""

    actions = LETTERS

    invalid_cost = "It counts as a wrong letter, and this is the next door."

    def __init__(self, turns: int, decisive: int, placement: Placement, rule: Rule, noise: float, symbols: int) -> None:
        self.turns, self.rule, self.noise, self.symbols = turns, rule, noise, SYMBOLS[:symbols]
        self.decisive = decisive_turns(turns, decisive, placement)
        self.reward_name = "right" if rule == "pay" else "win"

    def tasks(self, split: str) -> Sequence[Task]:
        """Return sequences of symbols: all of them if there are few."""
        base = len(self.symbols)
        key = f"{KEY}:{base}:{self.turns}"
        total = base**self.turns
        if total <= LENGTHS["train"]:
            return enumerated(
                split, total, lambda n: self._task([n // base**k % base for k in range(self.turns)]), key=key
            )
        return drawn(
            split,
            LENGTHS[split],
            lambda rng: self._task(rng.integers(base, size=self.turns).tolist()),
            key=key,
            same=lambda task: task.metadata["symbols"],
        )

    def _task(self, numbers: list[int]) -> Task:
        return Task("", metadata={"symbols": [self.symbols[n] for n in numbers]})

    def enter(self) -> None:
        """Stand before the first door."""
        self.turn = self.rights = 0
        self.is_dead = False

    def play(self, action: str | None) -> Move:
        """Choose a letter; no letter counts as a wrong one."""
        is_right = action == self.best()
        is_decisive = self.turn in self.decisive
        self.turn += 1
        self.rights += is_right and is_decisive
        self.is_dead |= is_decisive and not is_right
        metrics = {"rights": float(self.rights)}
        wage = 1 / len(self.decisive) if self.rule == "pay" and is_right and is_decisive else 0.0
        if self.turn < self.turns and not (self.rule == "slip" and self.is_dead):
            return Move(wage, metrics=metrics)
        rights = f"Of the {len(self.decisive)} doors that count, you chose the right letter at {self.rights}."
        if self.rule == "pay":
            return Move(wage, True, not self.is_dead, rights, metrics)
        if self.rule == "slip" and self.is_dead:
            return Move(0.0, True, False, "That letter was wrong at a door that counts.", metrics)
        is_won = not self.is_dead
        if self.rule == "share":
            is_won = self.luck("share") < self.rights / len(self.decisive)
            rights += " The draw has decided."
        if self.luck("noise") < self.noise:
            is_won = self.luck("coin") < 0.5
            rights += " This time a coin has decided."
        return Move(float(is_won), True, is_won, rights, metrics)

    def best(self) -> str:
        """The right letter of this door."""
        return RIGHT[self.metadata["symbols"][self.turn]]

    def view(self, is_full: bool) -> str:
        """The number of the door and its symbol."""
        symbol = self.metadata["symbols"][self.turn]
        if is_full:
            return f"Door {self.turn + 1} of {self.turns}. Its symbol is {symbol}."
        return f"{self.turn + 1:02}/{self.turns:02} {symbol}"

    def key(self) -> str:
        """The turn, and what was done at the doors that count."""
        progress = int(self.is_dead) if self.rule in ("all", "slip") else self.rights
        return f"{self.turn} {progress}"

    def guide(self, legend: bool) -> Guide:
        """Say which doors count, how they decide, and with `legend` the letters of all symbols."""
        number = len(self.decisive)
        success = {
            "all": "You succeed if you choose the right letter at every door that counts.",
            "slip": "You succeed if you choose the right letter at every door that counts.",
            "share": "The more doors that count get their right letter, the likelier you succeed.",
            "pay": "You succeed if you choose the right letter at every door that counts.",
        }[self.rule]
        which = (
            "Every door counts."
            if number == self.turns
            else f"Only {count(number, 'door counts', 'doors count')}: number{'s' * (number > 1)} "
            f"{listing(k + 1 for k in self.decisive)}. "
            "At the others any letter will do."
        )
        how = {
            "all": " You are told only at the end whether you succeed.",
            "slip": "",
            "share": (
                f" After the last door the outcome is drawn: you succeed with a probability of the number of right "
                f"letters at doors that count, divided by {number}."
            ),
            "pay": f" Each right letter at a door that counts earns 1/{number} at once.",
        }[self.rule]
        if self.noise:
            how += f" With a probability of {self.noise:g} a coin decides the outcome instead."
        rights = (
            "The right letters of the symbols are: "
            + ", ".join(f"{symbol}: {RIGHT[symbol]}" for symbol in sorted(self.symbols))
            + "."
            if legend
            else "You are not told which letter belongs to which symbol; only outcomes show it, over many episodes."
        )
        return Guide(
            goal=f"Go through a hall of {self.turns} doors by choosing a letter at each. {success}",
            rules=f"Each door shows a symbol. Every symbol has one right letter out of a, b, c and d, the same at all "
            f"doors. {rights}\n\n{which}{how}",
            reply="Reply with one letter for the door that you see: a, b, c or d.",
            noun="letter",
            example="b",
            ending="The episode ends after the last door"
            + (", or with the first wrong letter at a door that counts." if self.rule == "slip" else "."),
            invalid="A reply that names no letter, or several, counts as a wrong letter"
            + ("." if self.rule == "slip" else "; you go on to the next door."),
            heading="Where you are:",
        )


def decisive_turns(turns: int, decisive: int, placement: Placement) -> tuple[int, ...]:
    """Return the turns, from 0, that count: the first, the last, or evenly spread ones with the first and the last."""
    if placement == "early":
        return tuple(range(decisive))
    if placement == "late":
        return tuple(range(turns - decisive, turns))
    if decisive == 1:
        return (turns // 2,)
    return tuple(k * (turns - 1) // (decisive - 1) for k in range(decisive))
