"""A shop whose products have features, colours and sizes, and are bought by one button."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.web.site import Request
from envs.web.sites.app import NotFound, action, one, page
from envs.web.sites.html import button, form, heading, hidden, items, join, paragraph, select, table, text
from envs.web.sites.shop.pictures import picture
from envs.web.sites.shop.storefront import Storefront, found, money, stars


class Catalogue(Storefront):
    """The shop. Data: `products`, whose `prices` depend on the size, and `orders`."""

    def navigation(self) -> Mapping[str, str]:
        """Home only: nothing is kept in a cart."""
        return {"Home": "/"}

    @page("/product/")
    def product(self, request: Request, id: str) -> Any:
        """Show a product with its features and options."""
        product = self._product(id)
        sizes = {size: f"{size} ({money(cents)})" for size, cents in product["prices"].items()}
        order = form(
            "/buy",
            hidden(product=id),
            select("Colour", "colour", list(product["stock"])),
            select("Size", "size", sizes),
            button("Buy now"),
        )
        top = join(picture(product, "large"), paragraph(f"{product['category']}. Rated {stars(product)}.", "muted"))
        prices = table(("Size", "Price"), [(size, money(cents)) for size, cents in product["prices"].items()])
        features = items(text(each) for each in product["features"])
        return product["name"], join(top, heading("Features"), features, heading("Prices"), prices, order)

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
