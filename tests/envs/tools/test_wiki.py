"""Random wikis: the facts on their pages, and paths from page to page."""

import re
from itertools import pairwise

import numpy as np
import pytest

from envs.tools import wiki, wording
from envs.tools.wiki import Page, Wiki
from envs.tools.wording import PROSE, SHORT

LAL = Page("Lal", "odd cook", {"rival": "Ger", "home": "Sar"})


def generator(seed):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("size", [6, 7, 8, 13, 100])
def test_pages_differ_in_title_in_topic_and_in_every_fact(size):
    for seed in range(20):
        pages = wiki.sample_pages(generator(seed), size)
        assert len({page.title for page in pages}) == len({page.about for page in pages}) == len(pages) == size
        for relation in {name for relations in wiki.RELATIONS.values() for name in relations}:
            names = [page.facts[relation] for page in pages if relation in page.facts]
            assert len(set(names)) == len(names) > 0
        assert all(page.title not in page.facts.values() for page in pages)


def test_facts_name_pages_of_the_right_kind():
    kinds = {role: kind for kind, roles in wiki.ROLES.items() for role in roles}
    expected = {relation: kind for relations in wiki.RELATIONS.values() for relation, kind in relations.items()}
    for seed in range(20):
        pages = wiki.sample_pages(generator(seed), 12)
        kind = {page.title: kinds[page.about.split()[1]] for page in pages}
        pairs = [(relation, name) for page in pages for relation, name in page.facts.items()]
        assert all(kind.get(name, expected[relation]) == expected[relation] for relation, name in pairs)
        assert {relation for relation, name in pairs if name not in kind} == {"home", "river"}


def test_the_names_of_a_small_wiki_differ_in_their_first_letter():
    for seed in range(20):
        pages = wiki.sample_pages(generator(seed), 8)
        names = {name for page in pages for name in (page.title, *page.facts.values())}
        assert len({name[0] for name in names}) == len(names)


def test_the_order_of_pages_is_independent_of_their_kinds():
    kinds = {role: kind for kind, roles in wiki.ROLES.items() for role in roles}
    first = [kinds[wiki.sample_pages(generator(seed), 8)[0].about.split()[1]] for seed in range(400)]
    assert 0.4 < first.count("person") / 400 < 0.6 and first.count("work") > 60 and first.count("place") > 60


def test_pages_survive_conversion_to_text():
    pages = wiki.sample_pages(generator(1), 9)
    assert wiki.pages_from_text(wiki.pages_to_text(pages)) == pages
    assert str(LAL) == "Lal: odd cook rival Ger home Sar"


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_path_has_the_requested_number_of_different_pages(hops):
    for seed in range(50):
        pages = wiki.sample_pages(generator(seed), 8)
        path = wiki.sample_path(generator(seed), pages, hops)
        assert len({page.title for page, _ in path}) == len(path) == hops
        for (page, relation), (after, _) in pairwise(path):
            assert page.facts[relation] == after.title
        assert path[-1][1] in path[-1][0].facts


def test_without_a_path_of_this_length_the_result_is_empty():
    assert wiki.sample_path(generator(0), [LAL], 2) == []


@pytest.mark.parametrize("wording", [SHORT, PROSE])
@pytest.mark.parametrize("size", [6, 8, 40])
def test_a_search_for_a_page_s_topic_lists_it_first(size, wording):
    for seed in range(15):
        pages = wiki.sample_pages(generator(seed), size)
        small_wiki = Wiki(pages, wording.page)
        assert all(small_wiki.search(page.about, 3)[0] == page for page in pages)


def test_a_page_is_read_by_its_title_in_any_case():
    small_wiki = Wiki([LAL], SHORT.page)
    assert small_wiki.page("Lal") == small_wiki.page(" *lal*.") == LAL
    assert small_wiki.page("Ger") is small_wiki.page("") is small_wiki.page("La l") is None


def test_a_page_matches_its_title_and_the_names_on_it():
    pages = [LAL, Page("Ger", "shy monk", {"rival": "Lal", "home": "Tor"})]
    small_wiki = Wiki(pages, SHORT.page)
    assert small_wiki.search("tor", 3) == [pages[1]] and len(small_wiki.search("Ger", 3)) == 2


def test_the_short_wording_is_short():
    assert SHORT.question("odd cook", ["rival", "home"]) == "odd cook: rival home?"
    assert SHORT.page(LAL) == "odd cook rival Ger home Sar"
    assert SHORT.listing([LAL, LAL]) == "Lal Lal"


def test_the_prose_wording_gives_the_same_facts_in_sentences():
    assert PROSE.question("odd cook", ["rival", "home"]) == "What is the home of the rival of the odd cook?"
    page = PROSE.page(LAL)
    for fact in ("Lal is an odd cook.", "The rival of Lal is Ger.", "The home of Lal is Sar."):
        assert fact in page
    sentences = re.split(r"(?<=\.) ", page)
    assert len(sentences) == len(set(sentences)) == 3 + wording.ASIDES_PER_PAGE
    assert PROSE.listing([LAL]) == "- Lal: Lal is an odd cook."


def test_asides_share_no_word_with_questions_and_names():
    aside_words = set(re.findall(r"\w+", " ".join(wording.ASIDES).lower()))
    names = {(initial + ending).lower() for initial in wiki.INITIALS for ending in wiki.ENDINGS}
    roles = {role for roles in wiki.ROLES.values() for role in roles}
    relations = {relation for kind in wiki.RELATIONS.values() for relation in kind}
    assert not aside_words & (names | roles | relations | set(wiki.TRAITS))
