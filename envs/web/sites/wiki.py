"""A wiki about invented places and people, to follow links in and to correct."""

from __future__ import annotations

from typing import Any

from envs.web.case import STOP, Case, Draw, Step, answer, changed, click, fill
from envs.web.site import Request
from envs.web.sites.app import App, action, one, page
from envs.web.sites.html import Markup, button, field, form, hidden, items, join, link, paragraph, table
from envs.web.sites.words import FIRST, LAST

_STARTS = (
    "Bel",
    "Cor",
    "Dor",
    "Fal",
    "Gar",
    "Hel",
    "Kal",
    "Lor",
    "Mor",
    "Nor",
    "Pel",
    "Ral",
    "Sel",
    "Tor",
    "Val",
    "Wil",
)
_TOWN_ENDS, _RIVER_ENDS = ("ham", "stad", "berg", "ton"), ("a", "ine", "ava", "ure")
_WORKS = ("The Long Winter", "Salt and Stone", "A Quiet Harbour", "Seven Bridges", "The Glass Orchard", "Night Ferry")
_JOBS = ("painter", "composer", "engineer", "poet", "botanist", "judge")
PLURALS = {"town": "Towns", "person": "People", "river": "Rivers"}
FEW = 8  # articles that the main page lists itself, without a search


class Encyclopedia(App):
    """A wiki. Data: `articles` by title: kind, facts, and which of them are links; `redirects`."""

    brand, accent = "Openpedia", "#334155"
    links = {"Main page": "/"}  # noqa: RUF012

    @page("/")
    def main(self, request: Request) -> Any:
        """Show the search and the kinds of articles, or all of few articles."""
        if self.is_small():
            return "Main page", self._listing(sorted(self.data["articles"]))
        kinds = items(link(name, f"/kind/{kind}") for kind, name in PLURALS.items())
        return "Main page", join(self._search(""), kinds, paragraph(f"{len(self.data['articles'])} articles", "muted"))

    def is_small(self) -> bool:
        """Return whether the articles are so few that the main page lists them."""
        return len(self.data["articles"]) <= FEW

    def _listing(self, titles: list[str]) -> Markup:
        return items(link(each, f"/wiki/{_slug(each)}") for each in titles)

    def _search(self, word: str) -> Markup:
        return form("/search", field("Search articles", "q", word, type="search"), button("Search"), method="get")

    @page("/search")
    def search(self, request: Request) -> Any:
        """List the articles whose title has the words."""
        word = one(request.query, "q")
        titles = [*self.data["articles"], *self.data["redirects"]]
        matches = sorted(each for each in titles if word and word.casefold() in each.casefold())
        listing = self._listing(matches[:20]) if matches else paragraph("No article has this in its title.")
        return "Search", join(self._search(word), listing)

    @page("/kind/")
    def kind(self, request: Request, kind: str) -> Any:
        """List the articles of a kind."""
        titles = sorted(title for title, each in self.data["articles"].items() if each["kind"] == kind)
        return PLURALS[kind], self._listing(titles)

    @page("/wiki/")
    def article(self, request: Request, slug: str) -> Any:
        """Show an article; an old title leads to the article of the new one."""
        title = _title(slug)
        note = Markup("")
        if title in self.data["redirects"]:
            note = paragraph(f"Redirected from {title}", "muted")
            title = self.data["redirects"][title]
        article = self.data["articles"][title]
        rows = [
            (name, link(value, f"/wiki/{_slug(value)}") if value in self.data["articles"] else value)
            for name, value in article["facts"].items()
        ]
        text = paragraph(article["text"]) if article["text"] else Markup("")
        edit = link("Edit this article", f"/edit/{_slug(title)}")
        return title, join(note, text, table(("Fact", ""), rows), edit)

    @page("/edit/")
    def edit(self, request: Request, slug: str) -> Any:
        """Show the facts of an article as a form."""
        facts = self.data["articles"][_title(slug)]["facts"]
        fields = [field(name, f"fact-{name}", value, required=True) for name, value in facts.items()]
        content = (
            hidden(title=_title(slug)),
            fields,
            field("Summary of the change", "summary"),
            button("Save article"),
        )
        return f"Edit {_title(slug)}", form("/edit", *content)

    @action("/edit")
    def save(self, request: Request) -> str:
        """Save the facts of an article."""
        title = one(request.form, "title")
        facts = self.data["articles"][title]["facts"]
        for name in facts:
            facts[name] = one(request.form, f"fact-{name}") or facts[name]
        self.notify("The article is saved.")
        return f"/wiki/{_slug(title)}"


def _slug(title: str) -> str:
    return title.replace(" ", "_")


def _title(slug: str) -> str:
    return slug.replace("_", " ")


def _wiki(draw: Draw) -> Encyclopedia:
    """A wiki of towns, people and rivers, at level 0 of three towns alone."""
    if draw.level == 0:
        return _small_wiki(draw)
    count = 3 + 2 * draw.level
    starts = draw.shuffle(_STARTS)
    towns = [f"{start}{draw.one(_TOWN_ENDS)}" for start in starts[:count]]
    rivers = [f"{start}{draw.one(_RIVER_ENDS)}" for start in starts[:count]]
    people = [f"{first} {last}" for first, last in zip(draw.some(FIRST, count), draw.some(LAST, count), strict=True)]
    articles: dict[str, dict[str, Any]] = {}
    mayors, births = draw.shuffle(people), draw.some(range(1790, 1990), count)
    lengths = draw.some(range(40, 900), count)
    for place, town in enumerate(towns):
        facts = {
            "River": draw.one(rivers),
            "Mayor": mayors[place],
            "Inhabitants": f"{draw.number(2, 90)}{draw.number(100, 999)}",
        }
        text = f"{town} is a town. It is known for its market, and older maps show it in another place."
        articles[town] = {"kind": "town", "facts": facts, "text": text}
    for place, person in enumerate(people):
        job = draw.one(_JOBS)
        facts = {"Born in": draw.one(towns), "Year of birth": str(births[place]), "Best known for": draw.one(_WORKS)}
        articles[person] = {
            "kind": "person",
            "facts": facts,
            "text": f"{person} is a {job}. Little is known of the early years.",
        }
    for place, river in enumerate(rivers):
        facts = {"Length in km": str(lengths[place]), "Mouth": draw.one(towns)}
        articles[river] = {"kind": "river", "facts": facts, "text": f"The {river} is a river that floods in spring."}
    redirects = {f"Old {town}": town for town in towns[: draw.level]}
    return Encyclopedia({"articles": articles, "redirects": redirects})


def _small_wiki(draw: Draw) -> Encyclopedia:
    """A wiki of towns whose names end alike, with short articles that have no links to others."""
    starts = draw.some(_STARTS, 6)
    mayors = draw.some(FIRST, 3)
    articles: dict[str, dict[str, Any]] = {}
    for place, start in enumerate(starts[:3]):
        river = f"{starts[place + 3]}{_RIVER_ENDS[0]}"
        facts = {"River": river, "Mayor": mayors[place], "Inhabitants": str(draw.number(10, 99))}
        articles[f"{start}{_TOWN_ENDS[0]}"] = {"kind": "town", "facts": facts, "text": ""}
    return Encyclopedia({"articles": articles, "redirects": {}})


_ASKS: dict[int, tuple[tuple[str, tuple[str, ...], str], ...]] = {  # ways from a kind of article, and the last fact
    0: (("town", (), "River"),),
    1: (
        ("town", ("River",), "Length in km"),
        ("town", ("Mayor",), "Year of birth"),
        ("person", ("Born in",), "Inhabitants"),
    ),
    2: (
        ("person", ("Born in", "River"), "Length in km"),
        ("river", ("Mouth", "Mayor"), "Year of birth"),
        ("person", ("Born in", "Mayor"), "Best known for"),
    ),
    3: (
        ("river", ("Mouth", "Mayor", "Born in"), "Inhabitants"),
        ("person", ("Born in", "River", "Mouth"), "Inhabitants"),
        ("town", ("Mayor", "Born in", "River"), "Length in km"),
    ),
}
_PHRASES = {
    "River": "the river of {}",
    "Mayor": "the mayor of {}",
    "Born in": "the town where {} was born",
    "Mouth": "the town at the mouth of {}",
    "Length in km": "the length in km of {}",
    "Year of birth": "the year of birth of {}",
    "Inhabitants": "the number of inhabitants of {}",
    "Best known for": "the work that {} is best known for",
}


def _find(site: Encyclopedia, title: str) -> list[Step]:
    if site.is_small():
        return [click(title)]
    return [fill("Search articles", title), click("Search"), click(title)]


def hops(draw: Draw) -> Case:
    """Answer a question over two to four linked articles, at level 0 over one."""
    site = _wiki(draw)
    articles = site.data["articles"]
    kind, way, last = draw.one(_ASKS[draw.level])
    titles = [title for title, each in articles.items() if each["kind"] == kind]
    start = draw.one(titles)
    name = start
    if kind == "town" and start in site.data["redirects"].values() and draw.chance(0.5):
        name = f"Old {start}"
    phrase, here, clicks = name, start, []
    for fact in way:
        phrase, here = _PHRASES[fact].format(phrase), articles[here]["facts"][fact]
        clicks.append(click(here, fact))
    question = _PHRASES[last].format(phrase)
    result = articles[here]["facts"][last]
    goal = draw.one(
        (
            f"What is {question}? Answer with the value alone.",
            f"Find out {question} in the wiki, and answer with it.",
            f"Answer with {question}, as the wiki gives it.",
        )
    )
    steps = [*_find(site, name), *clicks]
    others = [each["facts"][last] for title, each in articles.items() if last in each["facts"] and title != here]
    other = next((each for each in others if each != result), f"{result}0")
    misses = {
        "that of another article": [*steps, answer(other)],
        "the article itself": [*steps, answer(here)],
        "no answer": [*steps, STOP],
    }
    return Case("hops", goal, f"{question}?", site, site.verified(), [*steps, answer(result)], misses, answer=result)


def correct(draw: Draw) -> Case:
    """Correct a fact of an article, at higher levels by what another article says."""
    site = _wiki(draw)
    articles = site.data["articles"]
    town, other = draw.some([title for title, each in articles.items() if each["kind"] == "town"], 2)
    if draw.level < 2:
        value = str(draw.number(10, 99)) + draw.by_level("", f"{draw.number(100, 999)}", "", "")
        what = f"to {value}"
    else:
        value = articles[other]["facts"]["Inhabitants"]
        what = f"to the number that the article {other} gives for that town"
    while articles[town]["facts"]["Inhabitants"] == value:
        articles[town]["facts"]["Inhabitants"] += "1"
    goal = draw.one(
        (
            f"In the article {town}, change the number of inhabitants {what}.",
            f"Correct the article {town}: set its inhabitants {what}.",
            f"The number of inhabitants in the article {town} is wrong. Change it {what}.",
        )
    )

    def steps(title: str, value: str) -> list[Step]:
        first = [*_find(site, other), click("Main page")] if draw.level > 1 else []
        edit = [click("Edit this article"), fill("Inhabitants", value), click("Save article"), STOP]
        return [*first, *_find(site, title), *edit]

    goal_state = changed(site)
    goal_state["articles"][town]["facts"]["Inhabitants"] = value
    misses = {
        "another article": steps(other, f"{value}1" if draw.level > 1 else value),
        "not saved": [*steps(town, value)[:-2], STOP],
        "another number": steps(town, f"{value}0"),
        "another fact": [
            *_find(site, town),
            click("Edit this article"),
            fill("Mayor", value),
            click("Save article"),
            STOP,
        ],
    }
    short = f"inhabitants of {town} {what}"
    return Case("correct", goal, short, site, goal_state, steps(town, value), misses)
