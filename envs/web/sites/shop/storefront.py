"""What the shops have in common: a home page with categories, and a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from envs.web.site import Request
from envs.web.sites.app import App, NotFound, one, page
from envs.web.sites.html import (
    Markup,
    button,
    field,
    form,
    heading,
    hidden,
    items,
    join,
    link,
    paragraph,
    select,
    table,
)
from envs.web.sites.shop.pictures import picture

CATEGORIES = ("Lamps", "Chairs", "Desks", "Shelves")
SORTING = {"name": "Name", "price": "Price, lowest first", "rating": "Rating, highest first"}
PER_PAGE = 8
FEW = 4  # products that the home page lists itself, without a search


def money(cents: int) -> str:
    """Write an amount: `24.50`."""
    return f"{cents // 100}.{cents % 100:02d}"


class Storefront(App):
    """Pages to find products on. Data: `products`, each with `id`, `name`, `category`, `price`, `rating`, `stock`."""

    brand, accent = "Homely", "#0f766e"

    @page("/")
    def home(self, request: Request) -> Any:
        """Show the search and the categories, or all of few products."""
        if self.is_small():
            return "Welcome to Homely", items(_name(each) for each in self.data["products"])
        links = items(link(each, f"/search?category={each}") for each in CATEGORIES)
        return "Welcome to Homely", join(self._search(""), heading("Categories"), links)

    @page("/search")
    def search(self, request: Request) -> Any:
        """Show the products that fit, a page at a time."""
        word, category = one(request.query, "q"), one(request.query, "category")
        order, number = one(request.query, "order") or "name", int(one(request.query, "page") or 0)
        if order not in SORTING:
            raise NotFound
        matches = [
            each
            for each in self.data["products"]
            if word.casefold() in each["name"].casefold() and category in ("", each["category"])
        ]
        matches.sort(key=lambda each: -each["rating"] if order == "rating" else each[order])
        part = matches[PER_PAGE * number : PER_PAGE * (number + 1)]
        controls = form(
            "/search",
            hidden(q=word),
            select("Category", "category", {"": "All", **{each: each for each in CATEGORIES}}, category),
            select("Sort by", "order", SORTING, order),
            button("Apply"),
            method="get",
        )
        rows = [(_name(each), each["category"], money(each["price"]), stars(each)) for each in part]
        listing = (
            table(("Product", "Category", "Price", "Rating"), rows) if rows else paragraph("No product was found.")
        )
        is_last = PER_PAGE * (number + 1) >= len(matches)
        query = urlencode({"q": word, "category": category, "order": order})
        more = join(
            link("Previous page", f"/search?{query}&page={number - 1}") if number > 0 else Markup(""),
            Markup(" "),
            Markup("") if is_last else link("Next page", f"/search?{query}&page={number + 1}"),
        )
        return "Products", join(self._search(word), controls, paragraph(f"{len(matches)} products"), listing, more)

    def is_small(self) -> bool:
        """Return whether the products are so few that the home page lists them."""
        return len(self.data["products"]) <= FEW

    def _search(self, word: str) -> Markup:
        return form("/search", field("Search the shop", "q", word, type="search"), button("Search"), method="get")

    def _product(self, id: str) -> dict[str, Any]:
        return next(found(each for each in self.data["products"] if each["id"] == id))


def found(matches: Any) -> Any:
    """Yield the first of some entries. Raises NotFound if there is none."""
    for match in matches:
        yield match
        return
    raise NotFound


def _name(product: Mapping[str, Any]) -> Markup:
    return join(picture(product), link(product["name"], f"/product/{product['id']}"))


def stars(product: Mapping[str, Any]) -> str:
    """Write what a product is rated."""
    return f"{product['rating'] / 10:.1f} of 5"
