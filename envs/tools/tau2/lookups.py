"""The tools of tau2's retail domain that change nothing: look up users, orders and products, calculate, transfer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from envs.tools.tau2 import arithmetic
from envs.tools.tau2.records import Records
from envs.tools.tool import tool
from envs.tools.tool_env import ToolEnv
from envs.types import ToolError

Record = dict[str, Any]


class RetailLookups(ToolEnv):
    """Tools that read the `records` of an episode. Names, arguments and results are those of tau2."""

    exact_calls = True
    records: Records

    @tool
    def calculate(self, expression: str) -> str:
        """Calculate the value of an expression.

        Args:
            expression: Numbers, + - * / and parentheses: "(12.5 + 3) * 2".
        """
        return arithmetic.calculate(expression)

    @tool
    def find_user_id_by_email(self, email: str) -> str:
        """Find the user id that belongs to an e-mail address.

        Args:
            email: E-mail address of the user.
        """
        return self._find_user(lambda user: user["email"].lower() == email.lower())

    @tool
    def find_user_id_by_name_zip(self, first_name: str, last_name: str, zip: str) -> str:
        """Find the user id that belongs to a name and a zip code. Use it if the user cannot give an e-mail address.

        Args:
            first_name: First name of the user: "John".
            last_name: Last name of the user: "Doe".
            zip: Zip code of the user: "12345".
        """
        name = (first_name.lower(), last_name.lower(), zip)
        return self._find_user(lambda user: (*_lower_name(user), user["address"]["zip"]) == name)

    @tool
    def list_all_product_types(self) -> str:
        """List the names of all products with their product ids."""
        names = {self._get("products", key)["name"]: key for key in self.records.keys("products")}
        return json.dumps(names, sort_keys=True)

    @tool
    def get_user_details(self, user_id: str) -> Record:
        """Get the profile of a user: name, address, e-mail, payment methods and orders.

        Args:
            user_id: Such as "sara_doe_496".
        """
        return self._get("users", user_id)

    @tool
    def get_order_details(self, order_id: str) -> Record:
        """Get the items, status, address, deliveries and payments of an order.

        Args:
            order_id: With the '#' at its beginning: "#W0000000".
        """
        return self._get("orders", order_id)

    @tool
    def get_product_details(self, product_id: str) -> Record:
        """Get the variants of a product with their options, prices and availability.

        Args:
            product_id: Such as "6086499569". It is not the id of an item.
        """
        return self._get("products", product_id)

    @tool
    def transfer_to_human_agents(self, summary: str) -> str:
        """Transfer the user to a human agent, if the request cannot be handled with the tools and the policy.

        Args:
            summary: What the user wants, in a sentence or two.
        """
        return "Transfer successful"

    def _get(self, table: str, key: str) -> Record:
        record = self.records.get(table, key)
        if record is None:
            hint = " (an order id begins with '#')" if table == "orders" and not key.startswith("#") else ""
            raise ToolError(f"there is no {table[:-1]} {key[:40]!r}{hint}")
        return record

    def _find_user(self, fits: Callable[[Record], bool]) -> str:
        for key in self.records.keys("users"):
            if fits(self._get("users", key)):
                return key
        raise ToolError("no such user was found")

    def _need(self, condition: bool, fault: str) -> None:
        if not condition:
            raise ToolError(fault)


def _lower_name(user: Record) -> tuple[str, str]:
    return user["name"]["first_name"].lower(), user["name"]["last_name"].lower()
