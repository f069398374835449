"""Two wordings of a wiki and its questions: in few bytes, for models that read bytes, or in whole sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from envs.procedural import digest
from envs.tools.wiki import Page

ASIDES = (
    "Much of what is told today goes back to a single letter.",
    "Older accounts differ in small details.",
    "An entry in a church register confirms this.",
    "Some visitors still ask about it.",
    "The first edition of this page gave a wrong date.",
    "No picture has survived.",
    "A short notice appeared in an almanac.",
    "Two archives keep copies of the papers.",
    "Little more can be said with certainty.",
    "A later hand added a remark in the margin.",
)
ASIDES_PER_PAGE = 4


class Wording(NamedTuple):
    """How a wiki and its questions are put into words.

    Attributes:
        question: Writes the question about a first page's `about`, "old cook", and the relations to follow from it.
        page: Writes the text of a page.
        listing: Writes the pages that a search found.
        no_match: The text for a search that found none.
        no_page: The text for an unknown title.
    """

    question: Callable[[str, Sequence[str]], str]  # of the first page's `about` and the relations to follow
    page: Callable[[Page], str]
    listing: Callable[[Sequence[Page]], str]
    no_match: str
    no_page: str


def _short_question(about: str, relations: Sequence[str]) -> str:
    """`old cook: rival home?`, which asks for the home of the rival of the old cook."""
    return f"{about}: {' '.join(relations)}?"


def _short_page(page: Page) -> str:
    return str(page).removeprefix(f"{page.title}: ")


def _titles(pages: Sequence[Page]) -> str:
    return " ".join(page.title for page in pages)


def _question(about: str, relations: Sequence[str]) -> str:
    return f"What is {''.join(f'the {relation} of ' for relation in reversed(relations))}the {about}?"


def _page(page: Page) -> str:
    """A page's facts as sentences, between asides that the title chooses."""
    facts = [f"The {relation} of {page.title} is {name}." for relation, name in page.facts.items()]
    number = digest("aside", page.title)
    asides = [ASIDES[(number + i * (1 + number // 16 % 3)) % len(ASIDES)] for i in range(ASIDES_PER_PAGE)]
    return " ".join([_about(page), asides[0], facts[0], *asides[1:3], *facts[1:], *asides[3:]])


def _listing(pages: Sequence[Page]) -> str:
    return "\n".join(f"- {page.title}: {_about(page)}" for page in pages)


def _about(page: Page) -> str:
    return f"{page.title} is {'an' if page.about[0] in 'aeiou' else 'a'} {page.about}."


SHORT = Wording(_short_question, _short_page, _titles, "none", "none")
PROSE = Wording(_question, _page, _listing, "No page has any of these words.", "There is no page of this title.")
