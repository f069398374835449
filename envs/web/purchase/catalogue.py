"""A shop whose products have features, colours and sizes, and are bought by one button."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.web.site import Request
from envs.web.sites.app import NotFound, action, one, page
from envs.web.sites.html import EMPTY, button, form, heading, hidden, items, join, paragraph, select, table, text
from envs.web.sites.shop.pictures import picture
from envs.web.sites.shop.storefront import Storefront, found, money, stars


class Catalogue(Storefront):
    """The shop. Data: `products`, whose `prices` depend on the size, and `orders`.

    What there is no choice of, and features that a product does not have, take no room on its page.
    """

    def navigation(self) -> Mapping[str, str]:
        """Home only: nothing is kept in a cart."""
        return {"Home": "/"}

    @page("/product/")
    def product(self, request: Request, id: str) -> Any:
        """Show a product with its features and options."""
        product = self._product(id)
        prices = {size: money(cents) for size, cents in product["prices"].items()}
        top = join(picture(product, "large"), paragraph(f"{product['category']}. Rated {stars(product)}.", "muted"))
        features = items(text(each) for each in product["features"])
        if len(prices) == 1:
            size = hidden(size=next(iter(prices)))
            offer = paragraph(f"Price: {next(iter(prices.values()))}")
        else:
            size = select("Size", "size", {size: f"{size} ({price})" for size, price in prices.items()})
            offer = join(heading("Prices"), table(("Size", "Price"), prices.items()))
        colour = select("Colour", "colour", list(product["stock"]))
        order = form("/buy", hidden(product=id), colour, size, button("Buy now"))
        details = join(heading("Features"), features) if product["features"] else EMPTY
        return product["name"], join(top, details, offer, order)

    @action("/buy")
    def buy(self, request: Request) -> str:
        """Order one piece."""
        product = self._product(one(request.form, "product"))
        colour, size = one(request.form, "colour"), one(request.form, "size")
        if colour not in product["stock"]:
            raise NotFound
        order = {"product": product["id"], "colour": colour, "size": size, "total": product["prices"][size]}
        self.data["orders"].append(order)
        return f"/orders/{len(self.data['orders'])}"

    @page("/orders/")
    def order(self, request: Request, number: str) -> Any:
        """Show an order."""
        order = next(found(self.data["orders"][int(number) - 1 : int(number)]))
        name = self._product(order["product"])["name"]
        line = f"You have bought {name}, {order['colour']}, {order['size']}, for {money(order['total'])}."
        return "Thank you", paragraph(line)
