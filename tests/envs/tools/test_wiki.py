"""Wikis drawn by chance: what pages tell, and ways from page to page."""

import re
from itertools import pairwise

import numpy as np
import pytest

from envs.tools import wiki, wording
from envs.tools.wiki import Page, Wiki
from envs.tools.wording import PROSE, SHORT

LAL = Page("Lal", "odd cook", {"rival": "Ger", "home": "Sar"})


def chance(seed):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("size", [6, 7, 8, 13, 100])
def test_pages_differ_in_title_in_what_they_are_about_and_in_every_fact(size):
    for seed in range(20):
        pages = wiki.draw(chance(seed), size)
        assert len({page.title for page in pages}) == len({page.about for page in pages}) == len(pages) == size
        for relation in {name for relations in wiki.RELATIONS.values() for name in relations}:
            told = [page.facts[relation] for page in pages if relation in page.facts]
            assert len(set(told)) == len(told) > 0
        assert all(page.title not in page.facts.values() for page in pages)


def test_facts_name_pages_of_the_right_kind():
    kinds = {role: kind for kind, roles in wiki.ROLES.items() for role in roles}
    wanted = {relation: kind for relations in wiki.RELATIONS.values() for relation, kind in relations.items()}
    for seed in range(20):
        pages = wiki.draw(chance(seed), 12)
        kind = {page.title: kinds[page.about.split()[1]] for page in pages}
        named = [(relation, name) for page in pages for relation, name in page.facts.items()]
        assert all(kind.get(name, wanted[relation]) == wanted[relation] for relation, name in named)
        assert {relation for relation, name in named if name not in kind} == {"home", "river"}


def test_the_names_of_a_small_wiki_differ_in_their_first_letter():
    for seed in range(20):
        pages = wiki.draw(chance(seed), 8)
        names = {name for page in pages for name in (page.title, *page.facts.values())}
        assert len({name[0] for name in names}) == len(names)


def test_the_order_of_pages_tells_nothing_about_them():
    kinds = {role: kind for kind, roles in wiki.ROLES.items() for role in roles}
    first = [kinds[wiki.draw(chance(seed), 8)[0].about.split()[1]] for seed in range(400)]
    assert 0.4 < first.count("person") / 400 < 0.6 and first.count("work") > 60 and first.count("place") > 60


def test_a_wiki_survives_being_written():
    pages = wiki.draw(chance(1), 9)
    assert wiki.read(wiki.written(pages)) == pages
    assert str(LAL) == "Lal: odd cook rival Ger home Sar"


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_way_leads_over_as_many_different_pages_as_were_asked_for(hops):
    for seed in range(50):
        pages = wiki.draw(chance(seed), 8)
        way = wiki.ask(chance(seed), pages, hops)
        assert len({page.title for page, _ in way}) == len(way) == hops
        for (page, relation), (after, _) in pairwise(way):
            assert page.facts[relation] == after.title
        assert way[-1][1] in way[-1][0].facts


def test_where_no_way_is_long_enough_there_is_none():
    assert wiki.ask(chance(0), [LAL], 2) == []


@pytest.mark.parametrize("wording", [SHORT, PROSE])
@pytest.mark.parametrize("size", [6, 8, 40])
def test_what_a_page_is_about_finds_it_first(size, wording):
    for seed in range(15):
        pages = wiki.draw(chance(seed), size)
        made = Wiki(pages, wording.page)
        assert all(made.search(page.about, 3)[0] == page for page in pages)


def test_a_page_is_read_by_its_title_in_any_case():
    made = Wiki([LAL], SHORT.page)
    assert made.page("Lal") == made.page(" *lal*.") == LAL
    assert made.page("Ger") is made.page("") is made.page("La l") is None


def test_a_page_is_found_by_its_title_and_by_whom_it_names():
    pages = [LAL, Page("Ger", "shy monk", {"rival": "Lal", "home": "Tor"})]
    made = Wiki(pages, SHORT.page)
    assert made.search("tor", 3) == [pages[1]] and len(made.search("Ger", 3)) == 2


def test_short_words_are_short():
    assert SHORT.question("odd cook", ["rival", "home"]) == "odd cook: rival home?"
    assert SHORT.page(LAL) == "odd cook rival Ger home Sar"
    assert SHORT.listing([LAL, LAL]) == "Lal Lal"


def test_prose_says_the_same_in_sentences():
    assert PROSE.question("odd cook", ["rival", "home"]) == "What is the home of the rival of the odd cook?"
    page = PROSE.page(LAL)
    for fact in ("Lal is an odd cook.", "The rival of Lal is Ger.", "The home of Lal is Sar."):
        assert fact in page
    told = re.split(r"(?<=\.) ", page)
    assert len(told) == len(set(told)) == 3 + wording.ASIDES_PER_PAGE
    assert PROSE.listing([LAL]) == "- Lal: Lal is an odd cook."


def test_asides_hold_no_word_that_a_question_or_a_name_has():
    spoken = set(re.findall(r"\w+", " ".join(wording.ASIDES).lower()))
    names = {(initial + ending).lower() for initial in wiki.INITIALS for ending in wiki.ENDINGS}
    roles = {role for roles in wiki.ROLES.values() for role in roles}
    relations = {relation for known in wiki.RELATIONS.values() for relation in known}
    assert not spoken & (names | roles | relations | set(wiki.TRAITS))
