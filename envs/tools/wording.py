"""What a wiki and questions about it sound like: in few bytes, for models that read bytes, or in whole sentences."""

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
    """How a question, a page and a listing are put, and what is said where there is nothing to show."""

    question: Callable[[str, Sequence[str]], str]  # of what the first page is about, and the relations to follow
    page: Callable[[Page], str]
    listing: Callable[[Sequence[Page]], str]
    no_match: str
    no_page: str


def _short_question(about: str, relations: Sequence[str]) -> str:
    """`old cook: rival home?`, which asks where the rival of the old cook is at home."""
    return f"{about}: {' '.join(relations)}?"


def _short_page(page: Page) -> str:
    return str(page).removeprefix(f"{page.title}: ")


def _titles(pages: Sequence[Page]) -> str:
    return " ".join(page.title for page in pages)


def _question(about: str, relations: Sequence[str]) -> str:
    return f"What is {''.join(f'the {relation} of ' for relation in reversed(relations))}the {about}?"


def _page(page: Page) -> str:
    """What is known of it, with asides that the title chooses."""
    known = [f"The {relation} of {page.title} is {name}." for relation, name in page.facts.items()]
    luck = digest("aside", page.title)
    asides = [ASIDES[(luck + i * (1 + luck // 16 % 3)) % len(ASIDES)] for i in range(ASIDES_PER_PAGE)]
    return " ".join([_is(page), asides[0], known[0], *asides[1:3], *known[1:], *asides[3:]])


def _listing(pages: Sequence[Page]) -> str:
    return "\n".join(f"- {page.title}: {_is(page)}" for page in pages)


def _is(page: Page) -> str:
    return f"{page.title} is {'an' if page.about[0] in 'aeiou' else 'a'} {page.about}."


SHORT = Wording(_short_question, _short_page, _titles, "none", "none")
PROSE = Wording(_question, _page, _listing, "No page has any of these words.", "There is no page of this title.")
