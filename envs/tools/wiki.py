"""A small wiki about invented people, works and places, and questions over several of its pages."""

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
# The relations on each kind of page, with the kind of thing that each names; rivers have no pages.
RELATIONS = {
    "person": {"rival": "person", "home": "place"},
    "work": {"maker": "person", "scene": "place"},
    "place": {"lord": "person", "river": "river"},
}
PAGES = range(6, 101)  # sizes that a wiki may have
MAX_TRIES = 100  # to find a path
INITIALS = "BDFGKLMNPRSTVZ"
ENDINGS = tuple(vowel + last for vowel in "aeiou" for last in "lmnr")


class Page(NamedTuple):
    """One page, `Page("Bel", "old cook", {"rival": "Kan", "home": "Tor"})`.

    `about` says in two words what it is about, `facts` maps each of its relations to a name.
    """

    title: str
    about: str
    facts: Mapping[str, str]

    def __str__(self) -> str:
        """Write all of it in a line: `Bel: old cook rival Kan home Tor`."""
        return f"{self.title}: {self.about} {' '.join(f'{relation} {name}' for relation, name in self.facts.items())}"


class Wiki:
    """Pages with a search index over their titles and texts; `page_text` gives the text of a page."""

    def __init__(self, pages: Sequence[Page], page_text: Callable[[Page], str]) -> None:
        self.pages = {page.title: page for page in pages}
        self.texts = {page.title: page_text(page) for page in pages}
        self._page_list = tuple(pages)
        self._by_lower_title = {page.title.lower(): page for page in pages}
        self._index = BM25([f"{title} {text}" for title, text in self.texts.items()])

    def search(self, query: str, limit: int) -> list[Page]:
        """Return at most `limit` pages that have a word of the query, best first by BM25; [] where no page has one."""
        return [self._page_list[i] for i in self._index.best(query, limit)]

    def page(self, title: str) -> Page | None:
        """Return the page with this title, whatever its case and punctuation; None where there is none."""
        return self._by_lower_title.get(" ".join(words(title)))


def pages_to_text(pages: Sequence[Page]) -> str:
    """Write all pages, one on each line: `Bel: old cook rival Kan home Tor`."""
    return "\n".join(map(str, pages))


def pages_from_text(text: str) -> list[Page]:
    """Read the pages that `pages_to_text` wrote, one on each line: `Bel: old cook rival Kan home Tor`."""
    pages = []
    for line in text.splitlines():
        title, _, rest = line.partition(": ")
        trait, role, *facts = rest.split()
        pages.append(Page(title, f"{trait} {role}", dict(zip(facts[::2], facts[1::2], strict=True))))
    return pages


def sample_pages(rng: np.random.Generator, size: int) -> list[Page]:
    """Draw `size` pages in random order: about half on people, a quarter each on works and on places.

    No two pages have equal `about` texts, nor the same name for one relation. Some names, among them those of rivers,
    have no page.
    """
    people, works = size // 2, size // 4
    places = size - people - works
    names = _sample_names(rng, size + people)
    titles = {"person": names[:people], "work": names[people : people + works], "place": names[people + works : size]}
    others = names[size:]  # as many as there are people
    targets = {
        "rival": _rotate(titles["person"]),
        "home": _permute([*titles["place"], *others][:people], rng),
        "maker": _permute(titles["person"], rng),
        "scene": _permute(titles["place"], rng),
        "lord": _permute(titles["person"], rng),
        "river": others[-places:],
    }
    traits = [TRAITS[i] for i in rng.permutation(len(TRAITS))[: max(3, size // 2)]]
    pages = []
    for kind, kind_titles in titles.items():
        roles = ROLES[kind]
        combinations = rng.permutation(len(traits) * len(roles))
        for i, title in enumerate(kind_titles):
            trait, role = divmod(int(combinations[i]), len(roles))
            facts = {relation: targets[relation][i] for relation in RELATIONS[kind]}
            pages.append(Page(title, f"{traits[trait]} {roles[role]}", facts))
    return [pages[i] for i in rng.permutation(size)]


def sample_path(rng: np.random.Generator, pages: Sequence[Page], hops: int) -> list[tuple[Page, str]]:
    """Draw a path over `hops` different pages, each with the relation on it that names the next page.

    The last page's relation names the answer. A walk that reaches a page it has met, or a name without a page, starts
    again; returns [] after `MAX_TRIES` such walks.
    """
    titles = {page.title: page for page in pages}
    for _ in range(MAX_TRIES):
        here: Page | None = pages[int(rng.integers(len(pages)))]
        path: dict[str, tuple[Page, str]] = {}
        while here and here.title not in path:
            relation = [*here.facts][int(rng.integers(len(here.facts)))]
            path[here.title] = here, relation
            if len(path) == hops:
                return [*path.values()]
            here = titles.get(here.facts[relation])
    return []


def _rotate(names: list[str]) -> list[str]:
    """The names moved on by one, so that none stays in its place."""
    return names[1:] + names[:1]


def _permute(names: Sequence[str], rng: np.random.Generator) -> list[str]:
    return [names[i] for i in rng.permutation(len(names))]


def _sample_names(rng: np.random.Generator, count: int) -> list[str]:
    """Different names; each of the first fourteen has another first letter."""
    initials = [INITIALS[i] for i in rng.permutation(len(INITIALS))]
    offsets = rng.integers(len(ENDINGS), size=len(INITIALS)).tolist()
    laps = [divmod(i, len(INITIALS)) for i in range(count)]
    return [initials[i] + ENDINGS[(offsets[i] + lap) % len(ENDINGS)] for lap, i in laps]
