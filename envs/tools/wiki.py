"""A small wiki about people, works and places that never were, and questions over several of its pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from envs.tools.bm25 import BM25, words

TRAITS = ("old", "shy", "sad", "odd", "lost", "tall", "calm", "pale", "bold", "grey", "loud", "blue")
ROLES = {
    "person": ("cook", "monk", "poet", "maid", "smith", "nurse", "clerk", "baker"),
    "work": ("song", "play", "poem", "opera", "novel", "dance"),
    "place": ("town", "port", "fort", "isle", "valley", "market"),
}
# What each kind of page tells, and what kind of thing that is; nothing has a page about a river.
RELATIONS = {
    "person": {"rival": "person", "home": "place"},
    "work": {"maker": "person", "scene": "place"},
    "place": {"lord": "person", "river": "river"},
}
PAGES = range(6, 101)
PATIENCE = 100  # tries to find a way
INITIALS = "BDFGKLMNPRSTVZ"
ENDINGS = tuple(vowel + last for vowel in "aeiou" for last in "lmnr")


class Page(NamedTuple):
    """One page. `about` says in two words what it is about, `facts` names something for each relation."""

    title: str
    about: str
    facts: Mapping[str, str]

    def __str__(self) -> str:
        """All of it in a line: `Bel: old cook rival Kan home Tor`."""
        return f"{self.title}: {self.about} {' '.join(f'{relation} {name}' for relation, name in self.facts.items())}"


class Wiki:
    """Pages with an index over what `wording` makes of each."""

    def __init__(self, pages: Sequence[Page], wording: Callable[[Page], str]) -> None:
        self.pages = {page.title: page for page in pages}
        self.texts = {page.title: wording(page) for page in pages}
        self._ordered = tuple(pages)
        self._titles = {page.title.lower(): page for page in pages}
        self._index = BM25([f"{title} {text}" for title, text in self.texts.items()])

    def search(self, query: str, most: int) -> list[Page]:
        """At most `most` pages that have a word of the query, best first."""
        return [self._ordered[i] for i in self._index.best(query, most)]

    def page(self, title: str) -> Page | None:
        """The page of this title; case and punctuation do not count."""
        return self._titles.get(" ".join(words(title)))


def written(pages: Sequence[Page]) -> str:
    """All pages, a line each."""
    return "\n".join(map(str, pages))


def read(text: str) -> list[Page]:
    """The inverse of `written`."""
    pages = []
    for line in text.splitlines():
        title, _, rest = line.partition(": ")
        trait, role, *facts = rest.split()
        pages.append(Page(title, f"{trait} {role}", dict(zip(facts[::2], facts[1::2], strict=True))))
    return pages


def draw(rng: np.random.Generator, size: int) -> list[Page]:
    """`size` pages in an order of chance: half about people, a quarter each about works and places, or nearly so.

    What two pages are about differs in a word at least, and no two say the same of one relation. Some names, among
    them those of rivers, have no page.
    """
    people, works = size // 2, size // 4
    places = size - people - works
    names = _names(rng, size + people)
    titles = {"person": names[:people], "work": names[people : people + works], "place": names[people + works : size]}
    others = names[size:]  # as many as there are people
    known = {
        "rival": _turned(titles["person"]),
        "home": _mixed([*titles["place"], *others][:people], rng),
        "maker": _mixed(titles["person"], rng),
        "scene": _mixed(titles["place"], rng),
        "lord": _mixed(titles["person"], rng),
        "river": others[-places:],
    }
    traits = [TRAITS[i] for i in rng.permutation(len(TRAITS))[: max(3, size // 2)]]
    pages = []
    for kind, about in titles.items():
        roles = ROLES[kind]
        chosen = rng.permutation(len(traits) * len(roles))
        for i, title in enumerate(about):
            trait, role = divmod(int(chosen[i]), len(roles))
            facts = {relation: known[relation][i] for relation in RELATIONS[kind]}
            pages.append(Page(title, f"{traits[trait]} {roles[role]}", facts))
    return [pages[i] for i in rng.permutation(size)]


def ask(rng: np.random.Generator, pages: Sequence[Page], hops: int) -> list[tuple[Page, str]]:
    """A way over `hops` different pages: each with the relation whose name is the next page's, at last the answer.

    Where chance leads to no page that is new, it tries again from the start; [] if it never gets there.
    """
    titles = {page.title: page for page in pages}
    for _ in range(PATIENCE):
        here: Page | None = pages[int(rng.integers(len(pages)))]
        way: dict[str, tuple[Page, str]] = {}
        while here and here.title not in way:
            relation = [*here.facts][int(rng.integers(len(here.facts)))]
            way[here.title] = here, relation
            if len(way) == hops:
                return [*way.values()]
            here = titles.get(here.facts[relation])
    return []


def _turned(names: list[str]) -> list[str]:
    """The names, moved on by one: nobody is given his own."""
    return names[1:] + names[:1]


def _mixed(names: Sequence[str], rng: np.random.Generator) -> list[str]:
    return [names[i] for i in rng.permutation(len(names))]


def _names(rng: np.random.Generator, count: int) -> list[str]:
    """Different names; the first fourteen differ in their first letter, so that it tells them apart."""
    initials = [INITIALS[i] for i in rng.permutation(len(INITIALS))]
    turns = rng.integers(len(ENDINGS), size=len(INITIALS)).tolist()
    rounds = [divmod(i, len(INITIALS)) for i in range(count)]
    return [initials[i] + ENDINGS[(turns[i] + again) % len(ENDINGS)] for again, i in rounds]
