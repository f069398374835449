"""The twelve tools of the support desk, as methods that read and write the records."""

from __future__ import annotations

from typing import Any, Literal

from envs.tools.desk.desk_tools import CaseOutcome, DeskTools
from envs.tools.support.cases import LATE_CREDIT, RETURN_FEE
from envs.tools.support.shop import money
from envs.tools.tool import tool
from envs.types import NegativeResult, ToolError


class SupportTools(DeskTools):
    """Tools over the records of a shop. They refuse what is impossible; the policy is for the model to keep."""

    @tool
    def verify_customer(self, email: str, postcode: str) -> dict[str, Any]:
        """Check that an e-mail address and a postcode belong together, and get the customer's number and store credit.

        Args:
            email: The customer's e-mail address.
            postcode: The customer's postcode.
        """
        query = "select customer, name, credit from customers where email = ? and postcode = ?"
        row = self.database.row(query, email.strip().lower(), postcode.strip())
        self.note_verification(row["customer"] if row else None, email.strip().lower(), postcode.strip())
        if row is None:
            raise NegativeResult("there is no customer with this e-mail address and this postcode")
        return {**row, "credit": money(row["credit"])}

    @tool
    def list_orders(self, customer: str) -> list[dict[str, Any]]:
        """List the orders of a customer.

        Args:
            customer: The customer's number, such as C123.
        """
        query = "select number, placed, status from orders where customer = ? order by number"
        rows = self.database.rows(query, customer)
        if not rows and self.database.row("select name from customers where customer = ?", customer) is None:
            raise ToolError(f"there is no customer {customer[:20]!r}; customer numbers look like C123")
        return rows

    @tool
    def get_order(self, order: str) -> dict[str, Any]:
        """Show an order: customer, dates, status, address, note, and its items with their prices.

        Args:
            order: The order's number, such as O1234.
        """
        row = self._order(order)
        query = (
            "select lines.sku as item, product, colour, lines.price as price, state, final_sale, items.note as note "
            "from lines join items on items.sku = lines.sku where number = ? order by lines.sku"
        )
        lines = [
            {**line, "price": money(line["price"]), "final_sale": bool(line["final_sale"])}
            for line in self.database.rows(query, order)
        ]
        return {**row, "late_credit": bool(row["late_credit"]), "items": lines}

    @tool
    def track_parcel(self, order: str) -> dict[str, Any]:
        """Show the tracking code of an order, the promised day and the day of its delivery.

        Args:
            order: The order's number.
        """
        row = self._order(order)
        return {key: row[key] for key in ("number", "status", "tracking", "promised", "delivered")}

    @tool
    def find_items(self, product: str, colour: str | None = None) -> list[dict[str, Any]]:
        """List the items of the shop with their item numbers, prices and stock.

        Args:
            product: The product, such as lamp.
            colour: A colour; leave it out for all.
        """
        query = "select sku as item, product, colour, price, stock, final_sale from items where product = ?"
        values = [product.strip().lower()]
        if colour is not None:
            query, values = f"{query} and colour = ?", [*values, colour.strip().lower()]
        rows = self.database.rows(f"{query} order by sku", *values)
        return [{**row, "price": money(row["price"]), "final_sale": bool(row["final_sale"])} for row in rows]

    @tool
    def get_item(self, item: str) -> dict[str, Any]:
        """Show an item of the shop.

        Args:
            item: The item number, such as LAM-RED.
        """
        row = self._item(item)
        return {**row, "price": money(row["price"]), "final_sale": bool(row["final_sale"])}

    @tool
    def cancel_order(self, order: str) -> dict[str, Any]:
        """Cancel an order and refund all its items to the card.

        Args:
            order: The order's number.
        """
        row = self._order(order)
        if row["status"] not in ("pending", "shipped"):
            raise ToolError(f"order {order} is {row['status']}; it cannot be cancelled any more")
        self.note_write("cancel_order", {"order": order})
        lines = self.database.rows("select sku, price from lines where number = ?", order)
        self.database.write("update orders set status = 'cancelled' where number = ?", order)
        for line in lines:
            self.database.write("insert into refunds values (?, ?, 'card', ?)", order, line["sku"], line["price"])
        return {"order": order, "status": "cancelled", "refund": money(sum(line["price"] for line in lines))}

    @tool
    def return_item(
        self, order: str, item: str, reason: Literal["changed_mind", "damaged"], refund_to: Literal["card", "credit"]
    ) -> dict[str, Any]:
        """Take an item of a delivered order back and refund it.

        Args:
            order: The order's number.
            item: The item number.
            reason: Why it is returned.
            refund_to: Where the refund goes: the card, or store credit.
        """
        row, line = self._delivered_line(order, item)
        arguments = {"order": order, "item": item, "reason": reason, "refund_to": refund_to}
        self.note_write("return_item", arguments)
        amount = max(0, line["price"] - (RETURN_FEE if reason == "changed_mind" else 0))
        self.database.write("update lines set state = 'returned' where number = ? and sku = ?", order, item)
        self.database.write("insert into refunds values (?, ?, ?, ?)", order, item, refund_to, amount)
        if refund_to == "credit":
            self._add_credit(row["customer"], amount)
        return {"order": order, "item": item, "refund": money(amount), "refund_to": refund_to}

    @tool
    def exchange_item(self, order: str, item: str, new_item: str) -> dict[str, Any]:
        """Exchange an item of a delivered order for another one that is in stock.

        Args:
            order: The order's number.
            item: The item number of the item that comes back.
            new_item: The item number of the item that is sent.
        """
        _, line = self._delivered_line(order, item)
        new = self._item(new_item)
        if new["stock"] < 1:
            raise ToolError(f"item {new_item} is sold out")
        if self.database.row("select sku from lines where number = ? and sku = ?", order, new_item):
            raise ToolError(f"order {order} has an item {new_item} already")
        self.note_write("exchange_item", {"order": order, "item": item, "new_item": new_item})
        self.database.write("update lines set state = 'exchanged' where number = ? and sku = ?", order, item)
        self.database.write("insert into lines values (?, ?, ?, 'bought')", order, new_item, new["price"])
        self.database.write("update items set stock = stock - 1 where sku = ?", new_item)
        return {"order": order, "item": new_item, "price_difference": money(new["price"] - line["price"])}

    @tool
    def change_address(self, order: str, postcode: str, street: str) -> dict[str, Any]:
        """Change the address of an order that is not delivered.

        Args:
            order: The order's number.
            postcode: The new postcode.
            street: The house number and the street, as in 12 Mill Lane.
        """
        row = self._order(order)
        if row["status"] not in ("pending", "shipped"):
            raise ToolError(f"order {order} is {row['status']}; its address cannot be changed")
        postcode, street = " ".join(postcode.split()), " ".join(street.split()).title()
        self.note_write("change_address", {"order": order, "postcode": postcode, "street": street})
        self.database.write("update orders set postcode = ?, street = ? where number = ?", postcode, street, order)
        return {"order": order, "postcode": postcode, "street": street}

    @tool
    def give_late_credit(self, order: str) -> dict[str, Any]:
        """Give the customer of an order the store credit for a late parcel.

        Args:
            order: The order's number.
        """
        row = self._order(order)
        if row["delivered"] is None:
            raise ToolError(f"order {order} is not delivered yet")
        self.note_write("give_late_credit", {"order": order})
        self.database.write("update orders set late_credit = late_credit + 1 where number = ?", order)
        return {"order": order, "credit": money(self._add_credit(row["customer"], LATE_CREDIT))}

    @tool
    def close_case(self, outcome: CaseOutcome) -> str:
        """Close the case. Nothing can be done after that.

        Args:
            outcome: How the case ends.
        """
        self.database.write("insert into cases values (?)", outcome)
        return f"the case is closed as {outcome}"

    def _order(self, order: str) -> dict[str, Any]:
        row = self.database.row("select * from orders where number = ?", order)
        if row is None:
            raise ToolError(f"there is no order {order[:20]!r}; order numbers look like O1234")
        return row

    def _item(self, item: str) -> dict[str, Any]:
        query = "select sku as item, product, colour, price, stock, final_sale, note from items where sku = ?"
        row = self.database.row(query, item)
        if row is None:
            raise ToolError(f"there is no item {item[:20]!r}; item numbers look like LAM-RED")
        return row

    def _delivered_line(self, order: str, item: str) -> tuple[dict[str, Any], dict[str, Any]]:
        row = self._order(order)
        if row["status"] != "delivered":
            raise ToolError(f"order {order} is {row['status']}, not delivered")
        line = self.database.row("select * from lines where number = ? and sku = ?", order, item)
        if line is None:
            raise ToolError(f"order {order} has no item {item[:20]!r}; get_order lists its items")
        if line["state"] != "bought":
            raise ToolError(f"item {item} of order {order} was {line['state']} before")
        return row, line

    def _add_credit(self, customer: str, amount: int) -> int:
        self.database.write("update customers set credit = credit + ? where customer = ?", amount, customer)
        row = self.database.row("select credit from customers where customer = ?", customer)
        assert row is not None
        return int(row["credit"])
