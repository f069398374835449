"""A workflow: the request, the calls that settle it, and the values of the right answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from envs.tools.workflow.company_document import PAGE_SIZE
from envs.tools.workflow.company_world import Rows, company_world

OTHERWISE = "If the API does not let you do that, change nothing and report that it is not possible."


class Draft:
    """A workflow in a world of the company, as it is written down: reads record the calls that make them.

    Attributes:
        world: Number of the world.
        rng: What the workflow is drawn with.
        request: What the user asks for.
        short_request: The same in short style; "" where that is the same text.
        calls: Calls of the oracle, in order.
        values: The values of the right answer, in the order asked for.
        possible: Whether what is asked for can be done.
    """

    def __init__(self, world: int, rng: np.random.Generator) -> None:
        self.world, self.rng = world, rng
        self.rows: Rows = company_world(world)
        self.request = self.short_request = ""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.values: list[Any] = []
        self.possible = True

    def pick(self, table: str, condition: Callable[[dict[str, Any]], bool] | None = None) -> dict[str, Any]:
        """Draw a row of a table. Raises NoCase if there is none with the condition."""
        rows = self.rows[table]
        for place in self.rng.permutation(len(rows)):
            if condition is None or condition(rows[int(place)]):
                return rows[int(place)]
        raise NoCase

    def where(self, table: str, **values: Any) -> list[dict[str, Any]]:
        """The rows that have the values, without a call."""
        return [row for row in self.rows[table] if all(row[key] == value for key, value in values.items())]

    def list(self, operation: str, table: str, **filters: Any) -> list[dict[str, Any]]:
        """The rows that a list of the API has, over all of its pages."""
        flags = {"active", "main"}
        rows = self.where(table, **filters)
        arguments = {key: bool(value) if key in flags else value for key, value in filters.items()}
        for page in range(1, max(1, -(-len(rows) // PAGE_SIZE)) + 1):
            self.calls.append((operation, arguments if page == 1 else {**arguments, "page": page}))
        return rows

    def get(self, operation: str, table: str, id: int) -> dict[str, Any]:
        """The row of a number."""
        self.calls.append((operation, {"id": id}))
        return self.rows[table][id - 1]

    def do(self, operation: str, **arguments: Any) -> None:
        """Record a call that changes something."""
        self.calls.append((operation, arguments))

    def row(self) -> dict[str, Any]:
        """The task as a row of a file of tasks has it."""
        calls = [{"name": name, "arguments": arguments} for name, arguments in self.calls]
        fields: dict[str, Any] = {"request": self.request, "calls": calls, "values": self.values}
        if self.short_request:
            fields["short_request"] = self.short_request
        return {**fields, "possible": self.possible, "world": self.world}


class NoCase(Exception):  # no error: another draw is made
    """The world has no rows for what was drawn."""
