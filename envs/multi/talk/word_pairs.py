"""Pairs of similar words, with short clues that fit one of them or both."""

from __future__ import annotations

from typing import NamedTuple


class WordPair(NamedTuple):
    """Two similar words.

    Attributes:
        words: The words.
        clues: For each of them, clues that fit it and not the other.
        common: Clues that fit both.
    """

    words: tuple[str, str]
    clues: tuple[tuple[str, ...], tuple[str, ...]]
    common: tuple[str, ...]


def _pair(first: str, first_clues: str, second: str, second_clues: str, shared: str) -> WordPair:
    own, others, both = (
        tuple(part.strip() for part in text.split(",")) for text in (first_clues, second_clues, shared)
    )
    return WordPair((first, second), (own, others), both)


PAIRS = (
    _pair("cat", "purrs, climbs trees, whiskers", "dog", "barks, fetches sticks, needs a lead", "pet, fur, four legs"),
    _pair("coffee", "roasted beans, espresso", "tea", "leaves in a bag, green or black", "hot drink, morning, cup"),
    _pair("sea", "salt, tides, ships from abroad", "lake", "fresh, shores all around", "water, fish, sailing"),
    _pair("violin", "bow, under the chin", "guitar", "campfire, plucked, frets", "strings, wood, music"),
    _pair("train", "rails, station, wagons", "bus", "drives on roads, stops at the kerb", "passengers, seats, ride"),
    _pair("apple", "crunchy, core, cider", "orange", "peel, segments, vitamin C", "fruit, round, juice"),
    _pair("doctor", "prescription, diagnosis", "dentist", "drill, braces, cavity", "white coat, waiting room"),
    _pair("moon", "night, craters, phases", "sun", "daylight, heat, sunburn", "sky, round, rises and sets"),
    _pair("river", "current, source, bends", "canal", "dug by people, locks, straight", "boats, banks, bridge"),
    _pair("novel", "plot, chapters, fiction", "diary", "secret, dates, about oneself", "pages, writing, book"),
    _pair("tennis", "yellow felt ball, grass or clay", "badminton", "feathers, indoor hall", "racket, net, serve"),
    _pair("snow", "flakes, sledge, white", "rain", "umbrella, puddles, drops", "falls from clouds, weather, wet"),
    _pair("hotel", "reception, room service", "tent", "pegs, sleeping bag, canvas", "sleep, holiday, away from home"),
    _pair("mayor", "town hall, one city", "king", "crown, throne, born to it", "rules, speeches, important person"),
    _pair("bread", "loaf, toast, crust", "cake", "birthday, candles, icing", "oven, flour, slice"),
    _pair("email", "inbox, attachment, spam", "letter", "stamp, envelope, postbox", "message, address, reply"),
    _pair("spider", "web, eight legs", "ant", "colony, six legs, hill", "small, crawls, many people fear or fight it"),
    _pair("castle", "moat, knights, towers", "prison", "guards, sentence, bars", "thick walls, gate, stone"),
    _pair("soap", "bar, bubbles, slippery", "toothpaste", "tube, mint, brush", "bathroom, clean, foam"),
    _pair("pilot", "cockpit, takeoff", "captain", "bridge of a ship, harbour", "uniform, crew, steers"),
    _pair("glove", "fingers, boxing, pair for hands", "sock", "feet, toes, inside a shoe", "pair, wool, warm"),
    _pair("museum", "paintings, old things, guide", "zoo", "cages, feeding time, elephants", "visitors, school trip"),
    _pair("candle", "wax, wick, melts", "lamp", "switch, bulb, plug", "light, table, evening"),
    _pair("carrot", "orange colour, rabbits, root", "potato", "chips, mashed, peeled and boiled", "vegetable, soil"),
)  # fmt: skip
