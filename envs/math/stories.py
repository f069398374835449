"""Templates of the word problems: short stories that ask for a number, in four levels."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from envs.math.generated import between, one_of

NAMES = ("Ann", "Bob", "Eva", "Max", "Lea", "Tom", "Ida", "Sam", "Mia", "Leo")
THINGS = ("pens", "eggs", "cards", "nuts", "books", "coins", "shells", "beads", "apples", "stamps")


class Story(NamedTuple):
    """A text that ends in a question, its answer, and the unit that it asks for; "" for none."""

    text: str
    answer: Fraction | int
    unit: str = ""


Template = Callable[[np.random.Generator], Story]


def _gain(rng: np.random.Generator) -> Story:
    a, b = between(rng, 2, 60), between(rng, 2, 60)
    things = one_of(rng, *THINGS)
    return Story(f"{one_of(rng, *NAMES)} has {a} {things} and gets {b}. How many {things} now?", a + b)


def _loss(rng: np.random.Generator) -> Story:
    a, b = between(rng, 2, 60), between(rng, 2, 60)
    things = one_of(rng, *THINGS)
    return Story(f"{one_of(rng, *NAMES)} has {a + b} {things} and loses {b}. How many are left?", a)


def _bags(rng: np.random.Generator) -> Story:
    a, b = between(rng, 2, 30), between(rng, 2, 12)
    things = one_of(rng, *THINGS)
    return Story(f"{a} bags hold {b} {things} each. How many {things}?", a * b)


def _shares(rng: np.random.Generator) -> Story:
    a, b = between(rng, 2, 30), between(rng, 2, 12)
    return Story(f"{b} children share {a * b} {one_of(rng, *THINGS)} evenly. How many for each?", a)


def _lead(rng: np.random.Generator) -> Story:
    a, b = between(rng, 2, 60), between(rng, 2, 60)
    one, other = _two(rng)
    return Story(f"{one} has {a + b} points, {other} has {b}. How many more has {one}?", a)


def _packs(rng: np.random.Generator) -> Story:
    a, b = between(rng, 2, 12), between(rng, 3, 12)
    c, things = between(rng, 1, a * b - 1), one_of(rng, *THINGS)
    return Story(
        f"{one_of(rng, *NAMES)} buys {a} packs of {b} {things} and gives away {c}. How many are left?", a * b - c
    )


def _together(rng: np.random.Generator) -> Story:
    a, b = between(rng, 2, 40), between(rng, 2, 20)
    (one, other), things = _two(rng), one_of(rng, *THINGS)
    return Story(f"{one} has {a} {things}, {other} has {b} more. How many have both?", 2 * a + b)


def _change(rng: np.random.Generator) -> Story:
    price, number, left = between(rng, 2, 15), between(rng, 2, 9), between(rng, 1, 40)
    thing = one_of(rng, *THINGS)[:-1]
    total = price * number + left
    return Story(
        f"A {thing} costs ${price}. {one_of(rng, *NAMES)} buys {number} and pays ${total}. How much change?", left
    )


def _savings(rng: np.random.Generator) -> Story:
    a, b, c = between(rng, 3, 25), between(rng, 3, 12), between(rng, 5, 60)
    return Story(f"{one_of(rng, *NAMES)} has ${c} and saves ${a} a week. How many dollars after {b} weeks?", c + a * b)


def _twice(rng: np.random.Generator) -> Story:
    times, a, b = between(rng, 2, 6), between(rng, 2, 15), between(rng, 2, 15)
    (one, other), things = _two(rng), one_of(rng, *THINGS)
    text = f"{one} has {a} {things}. {other} has {times} times as many and loses {b}. How many has {other}?"
    return Story(text, times * a - b)


def _film(rng: np.random.Generator) -> Story:
    hours, minutes = between(rng, 1, 9), between(rng, 1, 59)
    return Story(f"A trip takes {hours} h {minutes} min. How many minutes?", 60 * hours + minutes, "minutes")


def _rope(rng: np.random.Generator) -> Story:
    pieces, length = between(rng, 2, 40), one_of(rng, 5, 10, 15, 20, 25, 40, 50, 60, 75, 80)
    metres = Fraction(pieces * length, 100)
    return Story(f"A rope of {_decimal(metres)} m is cut into pieces of {length} cm. How many pieces?", pieces)


def _jug(rng: np.random.Generator) -> Story:
    litres, glasses, size = between(rng, 1, 6), between(rng, 2, 9), one_of(rng, 50, 60, 75, 80, 90, 100, 120, 150)
    text = f"A jug holds {litres} l. {glasses} glasses of {size} ml are filled from it. How many ml are left?"
    return Story(text, 1000 * litres - glasses * size, "ml")


def _laps(rng: np.random.Generator) -> Story:
    number, length = between(rng, 2, 25), one_of(rng, 150, 200, 250, 300, 350, 400, 450, 600, 800)
    return Story(
        f"A lap is {length} m. {one_of(rng, *NAMES)} runs {number}. How many km?", Fraction(number * length, 1000), "km"
    )


def _flour(rng: np.random.Generator) -> Story:
    kilos, cakes, each = between(rng, 1, 5), between(rng, 2, 9), between(rng, 5, 40) * 5
    text = f"A cook has {kilos} kg of flour and bakes {cakes} cakes of {each} g each. How many g are left?"
    return Story(text, 1000 * kilos - cakes * each, "g")


def _clock(rng: np.random.Generator) -> Story:
    start, duration = between(rng, 0, 1200), between(rng, 11, 239)
    end = start + duration
    text = f"A bus leaves at {start // 60}:{start % 60:02} and arrives at {end // 60}:{end % 60:02}. How many minutes?"
    return Story(text, duration, "minutes")


def _purse(rng: np.random.Generator) -> Story:
    dollars, number, price = between(rng, 2, 9), between(rng, 2, 8), between(rng, 3, 24) * 5
    text = f"{one_of(rng, *NAMES)} has ${dollars} and buys {number} pens at {price} cents. How many cents are left?"
    return Story(text, 100 * dollars - number * price, "cents")


def _sale(rng: np.random.Generator) -> Story:
    price, percent, post = between(rng, 2, 30) * 10, one_of(rng, 10, 20, 30, 40, 50, 60, 70), between(rng, 2, 15)
    text = f"A coat of ${price} is reduced by {percent}%. With ${post} for postage, how many dollars does it cost?"
    return Story(text, Fraction(price * (100 - percent), 100) + post, "dollars")


def _ages(rng: np.random.Generator) -> Story:
    times, young, years = between(rng, 2, 6), between(rng, 2, 20), between(rng, 2, 15)
    one, other = _two(rng)
    total = (times + 1) * young + 2 * years
    return Story(
        f"{one} is {times} times as old as {other}. In {years} years they are {total} together. How old is {other}?",
        young,
    )


def _pumps(rng: np.random.Generator) -> Story:
    a, b = between(rng, 2, 40), between(rng, 2, 40)
    text = f"One pump fills a tank in {a} hours, another in {b}. How many hours do both take? Give a fraction."
    return Story(text, Fraction(a * b, a + b), "hours")


def _drive(rng: np.random.Generator) -> Story:
    first, second = between(rng, 3, 12) * 10, between(rng, 3, 12) * 10
    a, b = between(rng, 1, 12) * 10, between(rng, 1, 12) * 10
    text = (
        f"A car drives {first} km/h for {a} min, then {second} km/h for {b} min. How many km in all? Give a fraction."
    )
    return Story(text, Fraction(first * a + second * b, 60), "km")


def _school(rng: np.random.Generator) -> Story:
    (p, q), (r, s) = (one_of(rng, (1, 2), (1, 3), (2, 3), (1, 4), (3, 4), (2, 5), (3, 5)) for _ in range(2))
    pupils = q * s * between(rng, 2, 20)
    text = f"Of {pupils} pupils, {p}/{q} walk. Of the others, {r}/{s} cycle, the rest take the bus. How many do that?"
    return Story(text, Fraction(pupils * (q - p) * (s - r), q * s))


def _mixture(rng: np.random.Generator) -> Story:
    a, b = between(rng, 1, 9) * 100, between(rng, 1, 9) * 100
    p, q = between(rng, 1, 12) * 5, between(rng, 1, 12) * 5
    text = f"{a} ml of a {p}% juice are mixed with {b} ml of a {q}% juice. How many ml of pure juice is that?"
    return Story(text, Fraction(a * p + b * q, 100), "ml")


LEVELS: tuple[tuple[Template, ...], ...] = (
    (_gain, _loss, _bags, _shares, _lead),
    (_packs, _together, _change, _savings, _twice),
    (_film, _rope, _jug, _laps, _flour, _clock, _purse),
    (_sale, _ages, _pumps, _drive, _school, _mixture),
)


def _two(rng: np.random.Generator) -> tuple[str, str]:
    first, second = rng.permutation(len(NAMES))[:2]
    return NAMES[first], NAMES[second]


def _decimal(value: Fraction) -> str:
    return f"{float(value):g}"
