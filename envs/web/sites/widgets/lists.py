"""Lists of several pages: find a document, mark the cheapest offer."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from envs.web.case import IMPOSSIBLE, STOP, Case, Draw, Step, changed, choose, click, fill
from envs.web.site import Request
from envs.web.sites.app import App, NotFound, action, one, page
from envs.web.sites.html import Markup, act, button, field, form, join, link, paragraph, select, table
from envs.web.sites.words import FILES, LAST

PER_PAGE = 5


def pager(path: str, number: int, total: int) -> Markup:
    """Return links to the pages before and after page `number` of a list of `total` entries; `path` ends in `page=`."""
    last = max(0, (total - 1) // PER_PAGE)
    before = link("Previous page", f"{path}{number - 1}") if number > 0 else Markup("")
    after = link("Next page", f"{path}{number + 1}") if number < last else Markup("")
    return join(paragraph(f"Page {number + 1} of {last + 1}", "muted"), before, Markup(" "), after)


class Library(App):
    """Documents to search for, open and download. Data: `documents`, `downloads`."""

    brand, accent = "Document library", "#4e342e"

    @page("/")
    def show(self, request: Request) -> Any:
        """Show a page of the documents whose title has the word searched for."""
        word, number = one(request.query, "q"), int(one(request.query, "page") or 0)
        matches = [each for each in self.data["documents"] if word.casefold() in each["title"].casefold()]
        part = matches[PER_PAGE * number : PER_PAGE * (number + 1)]
        search = form("/", field("Search", "q", word, type="search"), button("Search"), method="get")
        rows = [(link(each["title"], f"/document/{each['id']}"), each["year"]) for each in part]
        listing = table(("Title", "Year"), rows) if part else paragraph("No document has this word in its title.")
        query = form_query(q=word)
        return "Documents", join(
            search, paragraph(f"{len(matches)} documents"), listing, pager(query, number, len(matches))
        )

    @page("/document/")
    def document(self, request: Request, id: str) -> Any:
        """Show one document."""
        document = next((each for each in self.data["documents"] if each["id"] == id), None)
        if document is None:
            raise NotFound
        facts = paragraph(f"Written by {document['author']} in {document['year']}.")
        return document["title"], join(facts, act("Download", "/download", id=id), link("All documents", "/"))

    @action("/download")
    def download(self, request: Request) -> str:
        """Note a download."""
        id = one(request.form, "id")
        if not any(each["id"] == id for each in self.data["documents"]):
            raise NotFound
        self.data["downloads"].append(id)
        self.notify("The download has begun.")
        return f"/document/{id}"


def form_query(**values: str) -> str:
    """Return a path with a query of these values, to which the number of a page is added."""
    return f"/?{urlencode({key: value for key, value in values.items() if value} | {'page': ''})}"


def find(draw: Draw) -> Case:
    """Find a document among several pages of similar ones and download it."""
    kinds = draw.some(FILES, draw.by_level(4, 4, 6, 8))
    authors = draw.some(LAST, 3)
    pairs = draw.shuffle([(kind, author) for kind in kinds for author in authors])
    pairs = pairs[: draw.by_level(3, 7, None, None)]
    documents: list[dict[str, Any]] = [
        {
            "id": f"d{place + 1}",
            "title": f"{kind.capitalize()} for {author}",
            "author": authors[(authors.index(author) + 1) % 3],
            "year": draw.number(2024, 2030),
        }
        for place, (kind, author) in enumerate(pairs)
    ]
    target, *others = draw.shuffle(documents)
    site = Library({"documents": documents, "downloads": []})
    title = target["title"]
    if draw.is_impossible:
        missing = [(kind, author) for kind in FILES for author in authors if (kind, author) not in pairs]
        kind, author = draw.one(missing)
        title = f"{kind.capitalize()} for {author}"
    goal = draw.one(
        (
            f'Download the document "{title}".',
            f'Find "{title}" in the library and download it once.',
            f'I need the document called "{title}". Please download it, and nothing else.',
        )
    )

    def steps(title: str) -> list[Step]:
        search = [fill("Search", title), click("Search")]
        return [*search, click(title), click("Download"), STOP]

    word = title.split()[0]
    if draw.is_impossible:
        path = [fill("Search", word), click("Search"), IMPOSSIBLE]
        misses = {"another document": steps(others[0]["title"]), "stopped": [STOP]}
        return Case("find", goal, f"download {title}", site, site.verified(), path, misses, is_impossible=True)
    misses = {
        "another document": steps(others[0]["title"]),
        "only opened": [*steps(title)[:-2], STOP],
        "twice": [*steps(title)[:-1], click("Download"), STOP],
    }
    goal_state = changed(site, downloads=[target["id"]])
    return Case("find", goal, f"download {title}", site, goal_state, steps(title), misses)


_CATEGORIES = ("Lamp", "Chair", "Desk", "Shelf")
_ORDERS = {"name": "Name", "price": "Price, lowest first", "rating": "Rating, highest first"}


class Offers(App):
    """A table to filter and sort, whose rows can be marked. Data: `offers`, `marked_ids`."""

    brand, accent = "Offer comparison", "#c2410c"

    @page("/")
    def show(self, request: Request) -> Any:
        """Show the rows that pass the filter, a page at a time."""
        category, order = one(request.query, "category"), one(request.query, "order") or "name"
        number = int(one(request.query, "page") or 0)
        rows = [each for each in self.data["offers"] if category in ("", each["category"])]
        rows.sort(key=lambda each: -each["rating"] if order == "rating" else each[order])
        part = rows[PER_PAGE * number : PER_PAGE * (number + 1)]
        controls = form(
            "/",
            select("Category", "category", {"": "All", **{each: each for each in _CATEGORIES}}, category),
            select("Sort by", "order", _ORDERS, order),
            button("Apply"),
            method="get",
        )
        heads = ("Name", "Category", "Price", "Rating", "Stock", "")
        listing = [
            (
                each["name"],
                each["category"],
                f"{each['price'] / 100:.2f}",
                f"{each['rating'] / 10:.1f}",
                "in stock" if each["stock"] else "sold out",
                "marked" if each["id"] in self.data["marked_ids"] else act("Mark", "/mark", id=each["id"]),
            )
            for each in part
        ]
        query = form_query(category=category, order=order)
        return "Offers", join(controls, table(heads, listing), pager(query, number, len(rows)))

    @action("/mark")
    def mark(self, request: Request) -> str:
        """Mark an offer."""
        id = one(request.form, "id")
        if not any(each["id"] == id for each in self.data["offers"]):
            raise NotFound
        if id not in self.data["marked_ids"]:
            self.data["marked_ids"].append(id)
        self.notify("The offer is marked.")
        return "/"


def cheapest(draw: Draw) -> Case:
    """Mark the cheapest row of a category that meets further conditions."""
    count = draw.by_level(8, 8, 12, 20)
    prices = draw.some(range(20, 200), count)
    names = draw.some([f"{last} {number}" for last in LAST for number in (100, 200)], count)
    offers: list[dict[str, Any]] = [
        {
            "id": f"o{place + 1}",
            "name": names[place],
            "category": _CATEGORIES[place % 4],
            "price": prices[place] * 100 + draw.one((0, 50, 90)),
            "rating": draw.number(20, 50),
            "stock": draw.level < 3 or draw.chance(0.7),
        }
        for place in range(count)
    ]
    category = draw.one(_CATEGORIES)
    of_kind = [each for each in offers if each["category"] == category]
    least = sorted(each["rating"] for each in of_kind)[-2 if len(of_kind) == 2 or draw.level < 3 else -3]
    fitting = [each for each in of_kind if draw.level < 2 or each["rating"] >= least]
    if draw.level == 3:
        fitting[0]["stock"] = True
        fitting = [each for each in fitting if each["stock"]]
    target = min(fitting, key=lambda each: each["price"])
    site = Offers({"offers": offers, "marked_ids": []})
    condition = f" with a rating of at least {least / 10:.1f}" if draw.level > 1 else ""
    condition += " that is in stock" if draw.level == 3 else ""
    goal = draw.one(
        (
            f"Mark the cheapest offer of the category {category}{condition}.",
            f"Which {category.lower()}{condition} has the lowest price? Mark that offer and no other.",
            f"Find the {category.lower()}{condition} that costs least, and mark it.",
        )
    )

    def steps(offer: dict[str, Any]) -> list[Step]:
        ranking = sorted((each for each in offers if each["category"] == offer["category"]), key=lambda e: e["price"])
        turn = [click("Next page")] * (ranking.index(offer) // PER_PAGE)
        sort = [choose("Category", offer["category"]), choose("Sort by", "Price, lowest first"), click("Apply")]
        return [*sort, *turn, click("Mark", offer["name"]), STOP]

    other = next(each for each in sorted(offers, key=lambda each: each["price"]) if each is not target)
    same_kind = next(each for each in of_kind if each is not target)
    misses = {
        "the cheapest of all others": steps(other),
        "another of the category": steps(same_kind),
        "not marked": [*steps(target)[:-2], STOP],
        "two marked": [*steps(other)[:-1], *steps(target)],
    }
    short = f"mark cheapest {category}{condition}"
    return Case("table", goal, short, site, changed(site, marked_ids=[target["id"]]), steps(target), misses)
