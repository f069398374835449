"""Questions about pictures of coloured shapes: a small task for models that read images."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from envs.env import Env
from envs.episodes.guide import Guide, count, listing
from envs.games.game import check_range
from envs.games.pictures import COLOURS, SHAPES, draw, png_url
from envs.grading.choice import choice_line, find_choice
from envs.grading.integer import declared_integer
from envs.procedural import drawn
from envs.types import Message, Messages, Outcome, Task, assistant, final_text

KEY = "games/Shapes-v0"
LENGTHS = {"train": 20_000, "val": 200, "test": 400}
SIZES, PIXELS, ROUNDS, NAMED = range(2, 7), range(8, 129), range(1, 9), range(1, 5)
KINDS = ("count", "colour", "shape", "row")
NUMERALS = {
    word: str(number)
    for number, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
}
_SIGNS = str.maketrans(dict.fromkeys('*`_"', " "))
ORDINALS = {
    name: str(number)
    for number, names in enumerate(("1st first", "2nd second", "3rd third", "4th fourth", "5th fifth", "6th sixth"), 1)
    for name in names.split()
}
ROWS = NUMERALS | {f"{name} row": number for name, number in ORDINALS.items()}
_ORDINAL = re.compile(rf"(?:it is |it's |the answer is |answer: )?(?:in )?(?:the |row )?({'|'.join(ORDINALS)})")


class Shapes(Env):
    """Answer a question about a picture; with `rounds`, about several, one after the other.

    Observation: a user message of a question and a picture, an image block with a PNG of `size` x `size` cells, some of
    which hold a shape (circle, square, triangle, cross) in a colour (red, green, blue, yellow). Questions in full
    style, after the instructions: `How many red shapes are there?`, `Which colour does the circle have?`, `Which shape
    is red?`, `In which row is the circle?`; in short style `count red`, `colour circle`, `shape red`, `row circle`.
    Action: the number or the word, of a row also `first` or `1st`; longer replies are read as
    `envs.grading.integer.declared_integer` and `envs.grading.choice.find_choice` say.
    Reward: 1 for the last right answer, else 0.
    Metrics: `right`, 1 for a right answer.
    Episode end: with the first wrong answer, or the last right one.
    Arguments: `question`, one kind only, "any" for all; `size`, 2 to 6; `pixels`, the side of a cell; `shapes`, 1 to 4,
    in a picture of which something else than a number is asked; `rounds`.
    Splits: drawn from seeds; no pictures with the same questions are in two splits.
    State: the pictures of the episode and the number of the round.
    Source and licence: generated. Version history: v0.
    """

    leaks = "a question may name all colours and shapes, and the digits of a picture's data mean nothing"

    def __init__(
        self,
        *,
        question: Literal["any", "count", "colour", "shape", "row"] = "any",
        size: int = 3,
        pixels: int = 16,
        shapes: int = 3,
        rounds: int = 1,
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        if question not in ("any", *KINDS):
            raise ValueError(f"question {question!r} is not one of any, {', '.join(KINDS)}")
        self.question, self.size = question, check_range("size", size, SIZES)
        self.pixels, self.rounds = check_range("pixels", pixels, PIXELS), check_range("rounds", rounds, ROUNDS)
        self.shapes = check_range("shapes", shapes, NAMED)
        super().__init__(max_turns=self.rounds if max_turns is None else max_turns, **limits)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random pictures with questions; "val" and "test" contain each once."""
        key = f"{KEY}:{self.question}:{self.size}:{self.shapes}:{self.rounds}"
        return drawn(split, LENGTHS[split], self._draw, key=key, same=lambda task: task.metadata["rounds"])

    def start(self) -> Messages:
        """Show the first picture."""
        return (self._ask(),)

    def guide(self) -> Guide:
        """Say what is on the pictures, and what may be asked."""
        several = f" There are {count(self.rounds, 'picture')}, one after the other." * (self.rounds > 1)
        return Guide(
            goal=f"Answer a question about a picture.{several} You succeed if every answer is right.",
            rules=(
                f"A picture is a grid of {self.size} rows and {self.size} columns. A cell is empty or holds one shape, "
                f"which is a {listing(SHAPES, 'or')}, in {listing(COLOURS, 'or')}. Rows are counted from the top, "
                "beginning with 1."
            ),
            reply="Reply with the number, the colour or the shape that is asked for.",
            noun="answer",
            example={"colour": "green", "shape": "square"}.get(self._kind, "2"),
            ending="The episode ends with the first wrong answer." * (self.rounds > 1),
            invalid="A reply that states no answer, or several, counts as wrong.",
            heading="The question:",
        )

    def state(self) -> str:
        """Return the task and the number of the round."""
        return f"{self.task.id} {self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Compare the answer with the right one; show the next picture."""
        answer = self._read(final_text(action))
        right = answer == self._answer
        is_last = self.turns + 1 == self.rounds
        outcome = Outcome(reward=float(right and is_last), terminated=is_last or not right, success=right and is_last)
        outcome.valid, outcome.metrics = answer is not None, {"right": float(right)}
        if not outcome.terminated:
            outcome.messages = (self._ask(self.turns + 1),)
        return outcome

    def _read(self, text: str) -> str | None:
        """The answer that a reply states; None for none, or several."""
        if self._kind not in ("count", "row"):
            return find_choice(text, {word: word for word in (*COLOURS, *SHAPES)})
        number = declared_integer(text)
        if number is not None:
            return str(number)
        if self._kind == "count":
            return find_choice(text, NUMERALS)
        ordinal = _ORDINAL.fullmatch(" ".join(choice_line(text).lower().translate(_SIGNS).split()).strip(" .!"))
        return ORDINALS[ordinal[1]] if ordinal else find_choice(text, ROWS)

    def ending(self, outcome: Outcome) -> str:
        """Say what was right."""
        return "" if outcome.success else f"The right answer was {self._answer}."

    def oracle(self) -> Iterator[Message]:
        """Answer from the task's own data."""
        for one in self.task.metadata["rounds"]:
            yield assistant(one["answer"])

    def random(self, rng: np.random.Generator) -> Message:
        """Answer with a word of the right kind."""
        words = {"colour": tuple(COLOURS), "shape": SHAPES, "row": [str(row + 1) for row in range(self.size)]}
        choices = words.get(self._kind, [str(number) for number in range(self.size + 1)])
        return assistant(str(choices[int(rng.integers(len(choices)))]))

    def attacks(self) -> Sequence[str]:
        """Replies that must earn 0: several answers, and all of them."""
        other = next(word for word in (*COLOURS, "1", "2") if word != self._answer)
        everything = " ".join((*COLOURS, *SHAPES, *map(str, range(self.size**2 + 1))))
        return (*super().attacks(), everything, f"{self._answer} or {other}" if not other.isdigit() else everything)

    @property
    def _round(self) -> dict[str, Any]:
        return self.task.metadata["rounds"][min(self.turns, self.rounds - 1)]

    @property
    def _kind(self) -> str:
        return self._round["kind"]

    @property
    def _answer(self) -> str:
        return self._round["answer"]

    def _ask(self, number: int = 0) -> Message:
        one = self.task.metadata["rounds"][number]
        cells = [tuple(cell) if cell else None for cell in one["cells"]]
        text = _sentence(one["kind"], one["about"]) if self.style == "full" else f"{one['kind']} {one['about']}"
        picture = png_url(draw(cells, self.size, self.pixels, light=one["light"]))  # type: ignore[arg-type]
        blocks = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": picture}}]
        return {"role": "user", "content": blocks}

    def _draw(self, rng: np.random.Generator) -> Task:
        rounds = [self._draw_round(rng) for _ in range(self.rounds)]
        return Task("", answer=rounds[-1]["answer"], metadata={"rounds": rounds})

    def _draw_round(self, rng: np.random.Generator) -> dict[str, Any]:
        kind = self.question if self.question != "any" else KINDS[int(rng.integers(len(KINDS)))]
        cells: list[list[str] | None] = [None] * self.size**2
        light = int(rng.integers(70, 101))
        places = rng.permutation(len(cells)).tolist()
        colours, shapes = (rng.permutation(words).tolist() for words in (list(COLOURS), list(SHAPES)))
        if kind == "count":
            most = min(self.size + 1, len(cells) - 1)
            number, others = (int(count) for count in rng.integers(1, most, 2))
            for place in places[:number]:
                cells[place] = [colours[0], str(rng.choice(SHAPES))]
            for place in places[number : number + others]:
                cells[place] = [str(rng.choice(colours[1:])), str(rng.choice(SHAPES))]
            return {"kind": kind, "about": colours[0], "answer": str(number), "cells": cells, "light": light}
        # Of each shape and each colour one, so that what is asked for is there once.
        for place, colour, shape in zip(places[: self.shapes], colours, shapes, strict=False):
            cells[place] = [colour, shape]
        about, answer = (colours[0], shapes[0]) if kind == "shape" else (shapes[0], colours[0])
        if kind == "row":
            answer = str(places[0] // self.size + 1)
        return {"kind": kind, "about": about, "answer": answer, "cells": cells, "light": light}


def _sentence(kind: str, about: str) -> str:
    return {
        "count": f"How many {about} shapes are there?",
        "colour": f"Which colour does the {about} have?",
        "shape": f"Which shape is {about}?",
        "row": f"In which row is the {about}?",
    }[kind]
