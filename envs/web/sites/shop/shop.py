"""The pages of the shop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.web.site import Request
from envs.web.sites.app import NotFound, action, one, page
from envs.web.sites.html import (
    Markup,
    act,
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
    tag,
    text,
)
from envs.web.sites.shop.pictures import picture
from envs.web.sites.shop.storefront import Storefront, found, money, stars

SHIPPING = {"Standard": 500, "Express": 1200}
REASONS = ("Damaged", "Wrong item", "Not needed", "Too small")
MOST = 9  # pieces of one product in the cart


class Shop(Storefront):
    """A shop. Data: `products`, `cart`, `coupons`, `coupon`, the one in use, `orders`, `returns`."""

    def navigation(self) -> Mapping[str, str]:
        """Home, cart, and orders if there are any."""
        pieces = sum(line["quantity"] for line in self.data["cart"])
        orders = {"My orders": "/orders"} if self.data["orders"] else {}
        return {"Home": "/", f"Cart ({pieces})": "/cart", **orders}

    @page("/product/")
    def product(self, request: Request, id: str) -> Any:
        """Show a product with its options."""
        product = self._product(id)
        values = {"Price": money(product["price"]), "Rating": stars(product)}
        values.update({key.capitalize(): product[key] for key in ("weight", "warranty") if key in product})
        facts = table(tuple(values), [tuple(values.values())])
        stock, colour = self._colours(product)
        is_sold_out = not any(product["stock"].values())
        buy = form(
            "/cart/add",
            hidden(product=id),
            colour,
            field("Quantity", "quantity", 1, type="number", min=1, max=MOST, required=True),
            button("Add to cart", disabled=is_sold_out),
        )
        top = join(picture(product, "large"), paragraph(product["category"], "muted"))
        return product["name"], join(top, facts, stock, buy)

    def _colours(self, product: Mapping[str, Any]) -> tuple[Markup, Markup]:
        """What is in stock, and the field that says which colour; of one colour there is no choice."""
        colours = product["stock"]
        stock = items(
            paragraph(f"{colour}: {f'{count} in stock' if count else 'sold out'}") for colour, count in colours.items()
        )
        if len(colours) == 1:
            return join(heading("Colours"), stock), hidden(colour=next(iter(colours)))
        options = join(
            tag("option", text(colour), value=colour, disabled=not count) for colour, count in colours.items()
        )
        choice = join(
            tag("label", text("Colour"), for_="f-colour"), tag("select", options, id="f-colour", name="colour")
        )
        return join(heading("Colours"), stock), tag("div", choice, class_="field")

    @action("/cart/add")
    def add(self, request: Request) -> str:
        """Put pieces of a product into the cart."""
        id, colour = one(request.form, "product"), one(request.form, "colour")
        quantity = int(one(request.form, "quantity"))
        in_cart = next((line for line in self.data["cart"] if (line["product"], line["colour"]) == (id, colour)), None)
        total = quantity + (in_cart["quantity"] if in_cart else 0)
        if not 1 <= quantity <= MOST or total > self._product(id)["stock"][colour]:
            self.notify(f"There are only {self._product(id)['stock'][colour]} in stock.")
            return f"/product/{id}"
        if in_cart:
            in_cart["quantity"] = total
        else:
            self.data["cart"].append({"product": id, "colour": colour, "quantity": quantity})
        self.notify("Added to your cart.")
        return "/cart"

    @page("/cart")
    def cart(self, request: Request) -> Any:
        """Show the cart, with the coupon that is in use."""
        lines = self.data["cart"]
        if not lines:
            return "Your cart", paragraph("Your cart is empty.")
        rows = [
            (
                self._product(line["product"])["name"],
                line["colour"],
                line["quantity"],
                money(line["quantity"] * self._product(line["product"])["price"]),
                act("Remove", "/cart/remove", "plain", line=place),
            )
            for place, line in enumerate(lines)
        ]
        code = self.data["coupon"]
        coupon = (
            paragraph(f"Coupon {code}: {self.data['coupons'][code]} % off")
            if code
            else form(
                "/cart/coupon", field("Coupon code", "code", autocomplete="off", required=True), button("Use coupon")
            )
        )
        total = paragraph(f"Total without shipping: {money(self._goods())}")
        go = link("Go to checkout", "/checkout")
        return "Your cart", join(table(("Product", "Colour", "Quantity", "Price", ""), rows), total, coupon, go)

    @action("/cart/remove")
    def remove(self, request: Request) -> str:
        """Take a line out of the cart."""
        self.data["cart"].pop(int(one(request.form, "line")))
        return "/cart"

    @action("/cart/coupon")
    def use_coupon(self, request: Request) -> str:
        """Use a coupon."""
        code = one(request.form, "code").upper()
        if code in self.data["coupons"]:
            self.data["coupon"] = code
            self.notify("The coupon is used for this order.")
        else:
            self.notify("There is no such coupon.")
        return "/cart"

    @page("/checkout")
    def checkout(self, request: Request) -> Any:
        """Ask for the address and the shipping."""
        if not self.data["cart"]:
            return "Checkout", paragraph("Your cart is empty.")
        methods = {name: f"{name} ({money(cents)})" for name, cents in SHIPPING.items()}
        fields = (
            field("Full name", "name", required=True),
            field("Street and number", "street", required=True),
            field("City", "city", required=True),
            select("Shipping", "shipping", methods, "Standard"),
        )
        total = paragraph(f"Goods: {money(self._goods())}")
        return "Checkout", join(total, form("/order", fields, button("Place order")))

    @action("/order")
    def place_order(self, request: Request) -> str:
        """Place the order."""
        values = {key: one(request.form, key) for key in ("name", "street", "city", "shipping")}
        if not self.data["cart"] or not all(values.values()):
            self.notify("The order is not complete.")
            return "/checkout"
        total = self._goods() + SHIPPING[values["shipping"]]
        for line in self.data["cart"]:
            self._product(line["product"])["stock"][line["colour"]] -= line["quantity"]
        number = 1001 + len(self.data["orders"])
        order = {
            **{"number": number, "day": self.data["today"], "lines": self.data["cart"], **values},
            **{"coupon": self.data["coupon"], "total": total},
        }
        self.data["orders"].append(order)
        self.data["cart"], self.data["coupon"] = [], ""
        self.notify("Thank you for your order.")
        return f"/orders/{number}"

    @page("/orders")
    def orders(self, request: Request) -> Any:
        """List the orders."""
        rows = [
            (link(f"Order {each['number']}", f"/orders/{each['number']}"), each["day"], money(each["total"]))
            for each in reversed(self.data["orders"])
        ]
        listing = table(("Order", "Day", "Total"), rows) if rows else paragraph("You have not ordered anything yet.")
        return "My orders", join(paragraph(f"Today is {self.data['today']}.", "muted"), listing)

    @page("/orders/")
    def order(self, request: Request, number: str) -> Any:
        """Show an order, with what can be returned."""
        order = self._order(int(number))
        rows = [
            (
                self._product(line["product"])["name"],
                line["colour"],
                line["quantity"],
                self._return_link(order, place),
            )
            for place, line in enumerate(order["lines"])
        ]
        facts = (
            paragraph(f"Ordered on {order['day']}. Sent to {order['name']}, {order['street']}, {order['city']}."),
            paragraph(f"{order['shipping']} shipping. Total: {money(order['total'])}"),
        )
        return f"Order {number}", join(facts, table(("Product", "Colour", "Quantity", ""), rows))

    def _return_link(self, order: Mapping[str, Any], place: int) -> Markup | str:
        if any((each["order"], each["line"]) == (order["number"], place) for each in self.data["returns"]):
            return "return requested"
        if order["day"] < self.data["returns_from"]:
            return "no return: ordered more than 30 days ago"
        return link("Return", f"/return/{order['number']}-{place}")

    @page("/return/")
    def ask_return(self, request: Request, line: str) -> Any:
        """Ask for the reason of a return."""
        number, _, place = line.partition("-")
        product = self._product(self._order(int(number))["lines"][int(place)]["product"])
        fields = (
            hidden(order=number, line=place),
            select("Reason", "reason", ("", *REASONS), required=True),
            field("Remark", "remark"),
        )
        return "Return an item", join(paragraph(product["name"]), form("/return", fields, button("Request return")))

    @action("/return")
    def request_return(self, request: Request) -> str:
        """Note a return."""
        number, place = int(one(request.form, "order")), int(one(request.form, "line"))
        order, reason = self._order(number), one(request.form, "reason")
        if reason not in REASONS or order["day"] < self.data["returns_from"] or not 0 <= place < len(order["lines"]):
            raise NotFound
        if not any((each["order"], each["line"]) == (number, place) for each in self.data["returns"]):
            entry = {"order": number, "line": place, "reason": reason, "remark": one(request.form, "remark")}
            self.data["returns"].append(entry)
        return f"/orders/{number}"

    def _goods(self) -> int:
        cents = sum(line["quantity"] * self._product(line["product"])["price"] for line in self.data["cart"])
        return cents - cents * self.data["coupons"].get(self.data["coupon"], 0) // 100

    def _order(self, number: int) -> dict[str, Any]:
        return next(found(each for each in self.data["orders"] if each["number"] == number))
