"""The tools of tau2's retail domain that change records: cancel, modify, return and exchange orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from envs.tools.tau2.lookups import Record, RetailLookups
from envs.tools.tool import tool
from envs.types import ToolError

MAX_TEXT = 500  # characters of a text that is stored


class RetailTools(RetailLookups):
    """All tools over the `records` of an episode. Names, arguments and effects are those of tau2."""

    @tool
    def cancel_pending_order(self, order_id: str, reason: Literal["no longer needed", "ordered by mistake"]) -> Record:
        """Cancel a pending order and refund what was paid. The user must have confirmed the order and the reason.

        Args:
            order_id: With the '#' at its beginning: "#W0000000".
            reason: Why the order is cancelled.
        """
        self._need(self._get("orders", order_id)["status"] == "pending", f"the order {order_id} is not pending")
        order = self.records.edit("orders", order_id)
        for payment in list(order["payment_history"]):
            self._book(order, "refund", payment["amount"], payment["payment_method_id"])
        order.update(status="cancelled", cancel_reason=reason)
        return order

    @tool
    def modify_pending_order_address(
        self, order_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> Record:
        """Change the shipping address of a pending order. The user must have confirmed it.

        Args:
            order_id: With the '#' at its beginning: "#W0000000".
            address1: First line: "123 Main St".
            address2: Second line: "Apt 1"; may be empty.
            city: Such as "San Francisco".
            state: Such as "CA".
            country: Such as "USA".
            zip: Such as "12345".
        """
        self._need_pending(order_id)
        address = _address(address1, address2, city, state, country, zip)
        order = self.records.edit("orders", order_id)
        order["address"] = address
        return order

    @tool
    def modify_pending_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> Record:
        """Change items of a pending order into others of the same products, once per order.

        The user must have confirmed the items and the payment method.

        Args:
            order_id: With the '#' at its beginning: "#W0000000".
            item_ids: Items to be changed; an id may occur as often as in the order.
            new_item_ids: The new items, in the same order.
            payment_method_id: Pays or receives the difference: "gift_card_0000000", from the user's profile.
        """
        order = self._get("orders", order_id)
        self._need(order["status"] == "pending", f"the order {order_id} is not pending")
        self._need(all(map(str.__ne__, item_ids, new_item_ids)), "a new item must differ from the old one")
        difference, variants = self._price_difference(order, item_ids, new_item_ids)
        self._need_balance(order, payment_method_id, difference)
        order = self.records.edit("orders", order_id)
        kind = "payment" if difference > 0 else "refund"
        self._book(order, kind, abs(difference), payment_method_id)
        for old, variant in zip(item_ids, variants, strict=True):
            item = next(item for item in order["items"] if item["item_id"] == old)
            item.update(item_id=variant["item_id"], price=variant["price"], options=variant["options"])
        order["status"] = "pending (item modified)"
        return order

    @tool
    def modify_pending_order_payment(self, order_id: str, payment_method_id: str) -> Record:
        """Change the payment method of a pending order. The user must have confirmed it.

        Args:
            order_id: With the '#' at its beginning: "#W0000000".
            payment_method_id: The new one, from the user's profile: "credit_card_0000000".
        """
        self._need_pending(order_id)
        order = self._get("orders", order_id)
        first, *others = order["payment_history"] or [{}]
        is_plain = not others and first.get("transaction_type") == "payment"
        self._need(is_plain, "only an order with exactly one payment can be paid otherwise")
        old = first["payment_method_id"]
        self._need(old != payment_method_id, "the new payment method must differ from the current one")
        self._need_balance(order, payment_method_id, first["amount"])
        order = self.records.edit("orders", order_id)
        self._book(order, "payment", first["amount"], payment_method_id)
        self._book(order, "refund", first["amount"], old)
        return order

    @tool
    def modify_user_address(
        self, user_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> Record:
        """Change the default address of a user. The user must have confirmed it.

        Args:
            user_id: Such as "sara_doe_496".
            address1: First line: "123 Main St".
            address2: Second line: "Apt 1"; may be empty.
            city: Such as "San Francisco".
            state: Such as "CA".
            country: Such as "USA".
            zip: Such as "12345".
        """
        self._get("users", user_id)
        address = _address(address1, address2, city, state, country, zip)
        user = self.records.edit("users", user_id)
        user["address"] = address
        return user

    @tool
    def return_delivered_order_items(self, order_id: str, item_ids: list[str], payment_method_id: str) -> Record:
        """Request the return of items of a delivered order. The user must have confirmed the items and the refund.

        Args:
            order_id: With the '#' at its beginning: "#W0000000".
            item_ids: Items to be returned; an id may occur as often as in the order.
            payment_method_id: Receives the refund: the original one of the order, or a gift card of the user.
        """
        order = self._get("orders", order_id)
        self._need(order["status"] == "delivered", f"the order {order_id} is not delivered")
        method = self._payment_method(order, payment_method_id)
        is_original = payment_method_id == order["payment_history"][0]["payment_method_id"]
        self._need(is_original or _is_gift_card(method), "a refund goes to the original payment method or a gift card")
        self._need_items(order, item_ids)
        order = self.records.edit("orders", order_id)
        order.update(
            status="return requested", return_items=sorted(item_ids), return_payment_method_id=payment_method_id
        )
        return order

    @tool
    def exchange_delivered_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> Record:
        """Request the exchange of items of a delivered order for others of the same products, once per order.

        The user must have confirmed the items and the payment method.

        Args:
            order_id: With the '#' at its beginning: "#W0000000".
            item_ids: Items to be exchanged; an id may occur as often as in the order.
            new_item_ids: The new items, in the same order.
            payment_method_id: Pays or receives the difference: "gift_card_0000000", from the user's profile.
        """
        order = self._get("orders", order_id)
        self._need(order["status"] == "delivered", f"the order {order_id} is not delivered")
        difference, _ = self._price_difference(order, item_ids, new_item_ids)
        self._need_balance(order, payment_method_id, difference)
        order = self.records.edit("orders", order_id)
        order.update(
            status="exchange requested",
            exchange_items=sorted(item_ids),
            exchange_new_items=sorted(new_item_ids),
            exchange_payment_method_id=payment_method_id,
            exchange_price_difference=difference,
        )
        return order

    def _need_pending(self, order_id: str) -> None:
        """Also an order whose items were modified counts as pending for its address and payment."""
        self._need("pending" in self._get("orders", order_id)["status"], f"the order {order_id} is not pending")

    def _need_items(self, order: Record, item_ids: Sequence[str]) -> None:
        in_order = [item["item_id"] for item in order["items"]]
        for id in item_ids:
            self._need(item_ids.count(id) <= in_order.count(id), f"the order does not have that many items {id[:40]!r}")

    def _payment_method(self, order: Record, id: str) -> Record:
        methods = self._get("users", order["user_id"])["payment_methods"]
        self._need(id in methods, f"the user has no payment method {id[:40]!r}")
        return methods[id]

    def _price_difference(
        self, order: Record, item_ids: Sequence[str], new_item_ids: Sequence[str]
    ) -> tuple[float, list[Record]]:
        """How much more the new items cost, and their variants. Raises ToolError for items that do not fit."""
        self._need_items(order, item_ids)
        self._need(len(item_ids) == len(new_item_ids), "there must be as many new items as old ones")
        difference, variants = 0.0, []
        for old, new in zip(item_ids, new_item_ids, strict=True):
            item = next(item for item in order["items"] if item["item_id"] == old)
            variant = self._get("products", item["product_id"])["variants"].get(new)
            self._need(variant is not None, f"{new[:40]!r} is no variant of the product {item['product_id']}")
            self._need(variant["available"], f"the item {new} is not available")
            difference += variant["price"] - item["price"]
            variants.append(variant)
        return round(difference, 2), variants

    def _need_balance(self, order: Record, payment_method_id: str, amount: float) -> None:
        method = self._payment_method(order, payment_method_id)
        has_enough = not _is_gift_card(method) or method["balance"] >= amount
        self._need(has_enough, f"the balance of {payment_method_id} is below {amount:.2f}")

    def _book(self, order: Record, kind: str, amount: float, payment_method_id: str) -> None:
        """Write a payment or refund into an order, and take it from a gift card or put it there."""
        entry = {"transaction_type": kind, "amount": amount, "payment_method_id": payment_method_id}
        order["payment_history"].append(entry)
        if _is_gift_card(self._payment_method(order, payment_method_id)):
            card = self.records.edit("users", order["user_id"])["payment_methods"][payment_method_id]
            card["balance"] = round(card["balance"] + (amount if kind == "refund" else -amount), 2)


def _is_gift_card(method: Record) -> bool:
    return method["source"] == "gift_card"


def _address(address1: str, address2: str, city: str, state: str, country: str, zip: str) -> Record:
    address = {
        "address1": address1, "address2": address2, "city": city, "state": state, "country": country, "zip": zip
    }  # fmt: skip
    if (longest := max(map(len, address.values()))) > MAX_TEXT:
        raise ToolError(f"a line of an address has at most {MAX_TEXT} characters, not {longest}")
    return address
